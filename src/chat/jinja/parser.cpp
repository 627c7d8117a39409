#include "chat/jinja/parser.h"

#include <algorithm>
#include <array>

namespace transformer::jinja {
namespace {

// Jinja's other statements, which no chat template needs.
constexpr std::array<std::string_view, 11> unsupported = {"include", "import", "from",       "extends", "block", "call",
                                                          "do",      "trans",  "autoescape", "debug",   "print"};

Statement made(Statement::Kind kind, int line) {
  Statement s{};
  s.kind = kind;
  s.line = line;
  return s;
}

}  // namespace

bool Parser::take(Kind kind, std::string_view text) {
  if (!is(kind, text)) return false;
  ++at_;
  return true;
}

void Parser::expect_symbol(std::string_view text) {
  if (!take_symbol(text)) refuse("expected '{}', found {}", text, shown());
}

std::string Parser::expect_name(std::string_view what) {
  if (!is(Kind::name)) refuse("expected {}, found {}", what, shown());
  return tokens_[at_++].text;
}

std::string Parser::shown() const {
  switch (now().kind) {
    case Kind::block_end: return "the end of the block";
    case Kind::variable_end: return "the end of the expression";
    case Kind::end: return "the end of the template";
    case Kind::string: return fmt::format("the text '{}'", now().text);
    default: return fmt::format("'{}'", now().text);
  }
}

Body Parser::parse_template() { return body({}); }

Body Parser::body(std::initializer_list<std::string_view> until) {
  const Nested nested(*this);
  Body out;
  for (;;) {
    if (is(Kind::end)) {
      if (until.size() > 0) refuse("the template ends inside a block: expected '{}'", *(until.end() - 1));
      return out;
    }
    if (is(Kind::data)) {
      out.push_back(made(Statement::Kind::data, now().line));
      out.back().text = tokens_[at_++].text;
    } else if (take(Kind::variable_begin)) {
      out.push_back(made(Statement::Kind::output, now().line));
      out.back().expression = tuple_or_one();
      if (!take(Kind::variable_end)) refuse("expected the end of the expression, found {}", shown());
    } else {
      ++at_;  // the beginning of a block
      if (is(Kind::name) && std::find(until.begin(), until.end(), now().text) != until.end()) return out;
      out.push_back(statement());
    }
  }
}

void Parser::end_block(std::string_view word) {
  if (!take_word(word)) refuse("expected '{}', found {}", word, shown());
  if (!take(Kind::block_end)) refuse("expected the end of the block '{}', found {}", word, shown());
}

Statement Parser::statement() {
  const int line = now().line;
  const std::string word = expect_name("the name of a block");
  if (word == "if") return if_block();
  if (word == "for") return for_block();
  if (word == "set") return set_block();
  if (word == "macro") return macro_block();
  if (word == "with") return with_block();
  if (word == "filter") return filter_block();
  if (word == "generation") {  // marks what the assistant said; the text is the same
    Statement s = made(Statement::Kind::scope, line);
    if (!take(Kind::block_end)) refuse("expected the end of the block, found {}", shown());
    s.body = body({"endgeneration"});
    end_block("endgeneration");
    return s;
  }
  if (word == "break" || word == "continue") {
    if (loops_ == 0) refuse("'{}' outside a loop", word);
    if (!take(Kind::block_end)) refuse("expected the end of the block, found {}", shown());
    return made(word == "break" ? Statement::Kind::leave : Statement::Kind::again, line);
  }
  --at_;
  if (std::find(unsupported.begin(), unsupported.end(), word) != unsupported.end()) refuse("the block '{}' is not supported", word);
  refuse("unexpected block '{}'", word);
}

Statement Parser::if_block() {
  Statement s = made(Statement::Kind::choose, now().line);
  for (bool last = false; !last;) {
    Branch& branch = s.branches.emplace_back();
    branch.condition = tuple_or_one();
    if (!take(Kind::block_end)) refuse("expected the end of the block 'if', found {}", shown());
    branch.body = body({"elif", "else", "endif"});
    last = !take_word("elif");
  }
  if (take_word("else")) {
    if (!take(Kind::block_end)) refuse("expected the end of the block 'else', found {}", shown());
    s.branches.push_back({nullptr, body({"endif"})});
  }
  end_block("endif");
  return s;
}

std::vector<std::string> Parser::targets() {
  std::vector<std::string> names;
  const bool bracket = take_symbol("(");
  do {
    if (!names.empty() && !is(Kind::name)) break;  // a comma at the end
    names.push_back(expect_name("the name of a variable"));
  } while (take_symbol(","));
  if (bracket) expect_symbol(")");
  return names;
}

Statement Parser::for_block() {
  Statement s = made(Statement::Kind::loop, now().line);
  s.targets = targets();
  if (!take_word("in")) refuse("expected 'in', found {}", shown());
  // "for x in a if b": the if belongs to the loop.
  ExpressionPtr first = disjunction();
  if (is_symbol(",")) {
    ExpressionPtr all = with(make(E::tuple, s.line), std::move(first));
    while (take_symbol(","))
      if (!is(Kind::block_end) && !is_word("if")) all = with(std::move(all), disjunction());
    first = std::move(all);
  }
  s.expression = std::move(first);
  if (take_word("if")) s.condition = expression();
  if (is_word("recursive")) refuse("a 'recursive' loop is not supported");
  if (!take(Kind::block_end)) refuse("expected the end of the block 'for', found {}", shown());
  ++loops_;
  s.body = body({"else", "endfor"});
  --loops_;
  if (take_word("else")) {
    if (!take(Kind::block_end)) refuse("expected the end of the block 'else', found {}", shown());
    s.otherwise = body({"endfor"});
  }
  end_block("endfor");
  return s;
}

Statement Parser::set_block() {
  Statement s = made(Statement::Kind::set, now().line);
  s.targets = targets();
  if (s.targets.size() == 1 && take_symbol(".")) s.targets[0] += "." + expect_name("the name of an attribute");
  if (take_symbol("=")) {
    s.expression = tuple_or_one();
    if (!take(Kind::block_end)) refuse("expected the end of the block 'set', found {}", shown());
    return s;
  }
  if (s.targets.size() != 1) refuse("expected '=', found {}", shown());
  s.kind = Statement::Kind::set_text;
  while (take_symbol("|")) s.expression = filter(s.expression != nullptr ? std::move(s.expression) : make(E::name, s.line));
  if (!take(Kind::block_end)) refuse("expected '=' or the end of the block 'set', found {}", shown());
  s.body = body({"endset"});
  end_block("endset");
  return s;
}

Statement Parser::macro_block() {
  Statement s = made(Statement::Kind::macro, now().line);
  s.text = expect_name("the name of the macro");
  expect_symbol("(");
  while (!take_symbol(")")) {
    if (!s.targets.empty()) expect_symbol(",");
    s.targets.push_back(expect_name("the name of a parameter"));
    const bool has_default = take_symbol("=");
    if (!has_default && !s.defaults.empty() && s.defaults.back() != nullptr)
      refuse("the parameter '{}' needs a default, as the one before it has one", s.targets.back());
    s.defaults.push_back(has_default ? expression() : nullptr);
  }
  if (!take(Kind::block_end)) refuse("expected the end of the block 'macro', found {}", shown());
  const int loops = std::exchange(loops_, 0);
  s.body = body({"endmacro"});
  loops_ = loops;
  end_block("endmacro");
  return s;
}

Statement Parser::with_block() {
  Statement s = made(Statement::Kind::scope, now().line);
  while (!take(Kind::block_end)) {
    if (!s.targets.empty()) expect_symbol(",");
    s.targets.push_back(expect_name("the name of a variable"));
    expect_symbol("=");
    s.defaults.push_back(expression());
  }
  s.body = body({"endwith"});
  end_block("endwith");
  return s;
}

Statement Parser::filter_block() {
  Statement s = made(Statement::Kind::filter, now().line);
  s.expression = filter(make(E::name, s.line));
  while (take_symbol("|")) s.expression = filter(std::move(s.expression));
  if (!take(Kind::block_end)) refuse("expected the end of the block 'filter', found {}", shown());
  s.body = body({"endfilter"});
  end_block("endfilter");
  return s;
}

Body parse(std::string_view source, std::string_view where) { return Parser(tokenize(source, where), where).parse_template(); }

}  // namespace transformer::jinja
