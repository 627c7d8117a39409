#pragma once
// From tokens to a tree; expressions.cpp has what stands inside tags, parser.cpp the tags.

#include <initializer_list>

#include "chat/jinja/lexer.h"
#include "chat/jinja/syntax.h"
#include "transformer/core/error.h"

namespace transformer::jinja {

class Parser {
 public:
  Parser(std::vector<Token> tokens, std::string_view where) : tokens_(std::move(tokens)), where_(where) {}
  Body parse_template();

 private:
  using Kind = Token::Kind;
  using E = Expression::Kind;

  // Blocks in blocks and brackets in brackets.
  struct Nested {
    Parser& parser;
    explicit Nested(Parser& p) : parser(p) {
      if (++p.nesting_ > 400) p.refuse("blocks or brackets are nested too deep");
    }
    ~Nested() { --parser.nesting_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
  };

  template <class... Args>
  [[noreturn]] void refuse(fmt::format_string<Args...> message, Args&&... args) const {
    fail(where_, "line {}: {}", now().line, fmt::format(message, std::forward<Args>(args)...));
  }

  const Token& now() const { return tokens_[at_]; }
  const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool is(Kind kind, std::string_view text = {}) const { return now().kind == kind && (text.empty() || now().text == text); }
  bool is_symbol(std::string_view text) const { return is(Kind::symbol, text); }
  bool is_word(std::string_view text) const { return is(Kind::name, text); }
  bool take(Kind kind, std::string_view text = {});
  bool take_symbol(std::string_view text) { return take(Kind::symbol, text); }
  bool take_word(std::string_view text) { return take(Kind::name, text); }
  void expect_symbol(std::string_view text);
  std::string expect_name(std::string_view what);
  std::string shown() const;  // the token at hand, for messages

  // Statements, until one of the words (which is not taken) or the end of the template.
  Body body(std::initializer_list<std::string_view> until);
  Statement statement();
  void end_block(std::string_view word);  // of the block whose last word stands here
  Statement if_block();
  Statement for_block();
  Statement set_block();
  Statement macro_block();
  Statement with_block();
  Statement filter_block();
  std::vector<std::string> targets();

  ExpressionPtr make(E kind, int line, std::string name = {});
  ExpressionPtr with(ExpressionPtr node, ExpressionPtr part);  // appends a part
  ExpressionPtr tuple_or_one();                                // one, or several with commas between
  ExpressionPtr expression() { return choice(); }
  ExpressionPtr choice();
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filters);
  ExpressionPtr primary();
  ExpressionPtr bracketed();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr filter(ExpressionPtr node);
  ExpressionPtr test(ExpressionPtr node);
  void arguments(Expression& node);  // "(" stands here

  std::vector<Token> tokens_;
  std::string_view where_;
  std::size_t at_ = 0;
  int nesting_ = 0, loops_ = 0;
};

}  // namespace transformer::jinja
