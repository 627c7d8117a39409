// The expressions of a template, from the loosest operator to the tightest.

#include <charconv>

#include "chat/jinja/parser.h"

namespace transformer::jinja {

ExpressionPtr Parser::make(E kind, int line, std::string name) {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  node->name = std::move(name);
  return node;
}

ExpressionPtr Parser::with(ExpressionPtr node, ExpressionPtr part) {
  if (part != nullptr) node->depth = std::max(node->depth, part->depth + 1);
  if (node->depth > 200) refuse("an expression is more than 200 operators deep");
  node->parts.push_back(std::move(part));
  return node;
}

ExpressionPtr Parser::tuple_or_one() {
  const int line = now().line;
  ExpressionPtr first = expression();
  if (!is_symbol(",")) return first;
  ExpressionPtr all = with(make(E::tuple, line), std::move(first));
  while (take_symbol(",")) {
    if (is(Kind::block_end) || is(Kind::variable_end) || is_symbol(")")) break;
    all = with(std::move(all), expression());
  }
  return all;
}

ExpressionPtr Parser::choice() {
  const Nested nested(*this);
  const int line = now().line;
  ExpressionPtr node = disjunction();
  while (take_word("if")) {
    ExpressionPtr condition = disjunction();
    node = with(with(make(E::choice, line), std::move(node)), std::move(condition));
    node = with(std::move(node), take_word("else") ? choice() : nullptr);
  }
  return node;
}

ExpressionPtr Parser::disjunction() {
  ExpressionPtr node = conjunction();
  for (int line = now().line; take_word("or"); line = now().line)
    node = with(with(make(E::logic, line, "or"), std::move(node)), conjunction());
  return node;
}

ExpressionPtr Parser::conjunction() {
  ExpressionPtr node = negation();
  for (int line = now().line; take_word("and"); line = now().line)
    node = with(with(make(E::logic, line, "and"), std::move(node)), negation());
  return node;
}

ExpressionPtr Parser::negation() {
  const Nested nested(*this);
  const int line = now().line;
  if (take_word("not")) return with(make(E::unary, line, "not"), negation());
  return comparison();
}

ExpressionPtr Parser::comparison() {
  const int line = now().line;
  ExpressionPtr first = sum(), node;
  auto go_on = [&](std::string how) {
    if (node == nullptr) node = with(make(E::compare, line), std::move(first));
    node->names.push_back(std::move(how));
    node = with(std::move(node), sum());
  };
  for (;;) {
    if (is_symbol("==") || is_symbol("!=") || is_symbol("<") || is_symbol("<=") || is_symbol(">") || is_symbol(">=")) {
      go_on(tokens_[at_++].text);
    } else if (take_word("in")) {
      go_on("in");
    } else if (is_word("not") && ahead().kind == Kind::name && ahead().text == "in") {
      at_ += 2;
      go_on("not in");
    } else {
      return node != nullptr ? std::move(node) : std::move(first);
    }
  }
}

ExpressionPtr Parser::sum() {
  ExpressionPtr node = concatenation();
  while (is_symbol("+") || is_symbol("-")) {
    ExpressionPtr next = make(E::binary, now().line, now().text);
    ++at_;
    node = with(with(std::move(next), std::move(node)), concatenation());
  }
  return node;
}

ExpressionPtr Parser::concatenation() {
  const int line = now().line;
  ExpressionPtr first = product();
  if (!is_symbol("~")) return first;
  ExpressionPtr node = with(make(E::concatenate, line), std::move(first));
  while (take_symbol("~")) node = with(std::move(node), product());
  return node;
}

ExpressionPtr Parser::product() {
  ExpressionPtr node = power();
  while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
    ExpressionPtr next = make(E::binary, now().line, now().text);
    ++at_;
    node = with(with(std::move(next), std::move(node)), power());
  }
  return node;
}

ExpressionPtr Parser::power() {
  ExpressionPtr node = unary(true);
  for (int line = now().line; take_symbol("**"); line = now().line)
    node = with(with(make(E::binary, line, "**"), std::move(node)), unary(true));
  return node;
}

ExpressionPtr Parser::unary(bool with_filters) {
  const Nested nested(*this);
  const int line = now().line;
  ExpressionPtr node;
  if (take_symbol("-")) node = with(make(E::unary, line, "-"), unary(false));
  else if (take_symbol("+")) node = with(make(E::unary, line, "+"), unary(false));
  else node = primary();
  node = postfix(std::move(node));
  return with_filters ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::primary() {
  const Token token = now();
  ExpressionPtr node = make(E::constant, token.line);
  const char *begin = token.text.data(), *end = begin + token.text.size();
  switch (token.kind) {
    case Kind::name: {
      ++at_;
      if (token.text == "true" || token.text == "True") node->value = true;
      else if (token.text == "false" || token.text == "False") node->value = false;
      else if (token.text == "none" || token.text == "None") node->value = None{};
      else node->kind = E::name, node->name = token.text;
      return node;
    }
    case Kind::string: {
      std::string text;
      while (is(Kind::string)) text += tokens_[at_++].text;  // several one after the other are one
      node->value = std::move(text);
      return node;
    }
    case Kind::integer: {
      std::int64_t number = 0;
      if (std::from_chars(begin, end, number).ec != std::errc()) refuse("the number {} is too large", token.text);
      node->value = number;
      ++at_;
      return node;
    }
    case Kind::real: {
      double number = 0.0;
      if (std::from_chars(begin, end, number).ec != std::errc()) refuse("the number {} is too large or too small", token.text);
      node->value = number;
      ++at_;
      return node;
    }
    default: return bracketed();
  }
}

ExpressionPtr Parser::bracketed() {
  const int line = now().line;
  if (take_symbol("(")) {
    if (take_symbol(")")) return make(E::tuple, line);
    ExpressionPtr node = tuple_or_one();
    expect_symbol(")");
    return node;
  }
  if (take_symbol("[")) {
    ExpressionPtr node = make(E::list, line);
    while (!take_symbol("]")) {
      if (!node->parts.empty()) {
        expect_symbol(",");
        if (take_symbol("]")) break;
      }
      node = with(std::move(node), expression());
    }
    return node;
  }
  if (take_symbol("{")) {
    ExpressionPtr node = make(E::dict, line);
    while (!take_symbol("}")) {
      if (!node->parts.empty()) {
        expect_symbol(",");
        if (take_symbol("}")) break;
      }
      node = with(std::move(node), expression());
      expect_symbol(":");
      node = with(std::move(node), expression());
    }
    return node;
  }
  refuse("expected an expression, found {}", shown());
}

ExpressionPtr Parser::postfix(ExpressionPtr node) {
  for (;;) {
    const int line = now().line;
    if (take_symbol(".")) {
      if (is(Kind::integer)) {  // a.0
        ExpressionPtr index = primary();
        node = with(with(make(E::item, line), std::move(node)), std::move(index));
      } else {
        const std::string name = expect_name("the name of an attribute");
        node = with(make(E::attribute, line, name), std::move(node));
      }
    } else if (take_symbol("[")) {
      node = subscript(std::move(node));
    } else if (is_symbol("(")) {
      node = with(make(E::call, line), std::move(node));
      arguments(*node);
    } else {
      return node;
    }
  }
}

// After "[": an index, or begin:end:step with any of them absent.
ExpressionPtr Parser::subscript(ExpressionPtr node) {
  const int line = now().line;
  ExpressionPtr parts[3];
  int colons = 0;
  for (;; ++colons) {
    if (!is_symbol(":") && !is_symbol("]")) parts[colons] = expression();
    if (colons == 2 || !take_symbol(":")) break;
  }
  if (is_symbol(",")) refuse("several indices in one pair of brackets are not supported");
  expect_symbol("]");
  if (colons == 0) {
    if (parts[0] == nullptr) refuse("expected an index between '[' and ']'");
    return with(with(make(E::item, line), std::move(node)), std::move(parts[0]));
  }
  node = with(make(E::slice, line), std::move(node));
  for (ExpressionPtr& part : parts) node = with(std::move(node), std::move(part));
  return node;
}

void Parser::arguments(Expression& node) {
  const Nested nested(*this);
  expect_symbol("(");
  for (bool first = true; !take_symbol(")"); first = false) {
    if (!first) {
      expect_symbol(",");
      if (take_symbol(")")) break;
    }
    if (is_symbol("*") || is_symbol("**")) refuse("'{}' before an argument is not supported", now().text);
    std::string name;
    if (is(Kind::name) && ahead().kind == Kind::symbol && ahead().text == "=") name = now().text, at_ += 2;
    ExpressionPtr part = expression();
    node.depth = std::max(node.depth, part->depth + 1);
    if (node.depth > 200) refuse("an expression is more than 200 operators deep");
    if (!name.empty()) node.named.emplace_back(name, std::move(part));
    else if (node.named.empty()) node.parts.push_back(std::move(part));
    else refuse("an argument without a name stands after one with a name");
  }
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr node) {
  for (;;) {
    if (take_symbol("|")) {
      node = filter(std::move(node));
    } else if (take_word("is")) {
      node = test(std::move(node));
    } else if (is_symbol("(")) {
      node = with(make(E::call, now().line), std::move(node));
      arguments(*node);
    } else {
      return node;
    }
  }
}

ExpressionPtr Parser::filter(ExpressionPtr node) {
  const int line = now().line;
  const std::string name = expect_name("the name of a filter");
  node = with(make(E::filter, line, name), std::move(node));
  if (is_symbol("(")) arguments(*node);
  return node;
}

ExpressionPtr Parser::test(ExpressionPtr node) {
  const int line = now().line;
  const bool negated = take_word("not");
  const std::string name = expect_name("the name of a test");
  node = with(make(E::test, line, name), std::move(node));
  const bool begins = is(Kind::name) || is(Kind::string) || is(Kind::integer) || is(Kind::real) || is_symbol("[") || is_symbol("{");
  if (is_symbol("(")) {
    arguments(*node);
  } else if (begins && !is_word("else") && !is_word("or") && !is_word("and") && !is_word("if") && !is_word("in") && !is_word("not")) {
    if (is_word("is")) refuse("tests cannot follow each other with 'is'");
    ExpressionPtr argument = primary();
    node = with(std::move(node), postfix(std::move(argument)));
  }
  return negated ? with(make(E::unary, line, "not"), std::move(node)) : std::move(node);
}

}  // namespace transformer::jinja
