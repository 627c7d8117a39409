#pragma once
// A template as a tree.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/jinja/value.h"

namespace transformer::jinja {

struct Expression;
struct Statement;
using ExpressionPtr = std::unique_ptr<Expression>;
using Body = std::vector<Statement>;

struct Expression {
  enum class Kind : std::uint8_t {
    constant,     // value
    name,         // name
    list,         // parts
    tuple,        // parts
    dict,         // parts: key, value, key, value, …
    attribute,    // parts[0].name
    item,         // parts[0][parts[1]]
    slice,        // parts[0][parts[1]:parts[2]:parts[3]], absent ones null
    call,         // parts[0](parts[1…], named)
    filter,       // parts[0] | name(parts[1…], named)
    test,         // parts[0] is name(parts[1…])
    unary,        // name is not, - or +
    binary,       // name is + - * / // % **
    concatenate,  // parts[0] ~ parts[1] ~ …
    compare,      // parts[0] names[0] parts[1] names[1] …
    logic,        // parts[0] and/or parts[1]
    choice,       // parts[0] if parts[1] else parts[2], the last perhaps null
  };
  Kind kind;
  int line;
  std::string name = {};
  Value value = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<std::pair<std::string, ExpressionPtr>> named = {};
  std::vector<std::string> names = {};
  int depth = 1;  // of the tree
};

struct Branch {
  ExpressionPtr condition;  // null: else
  Body body;
};

struct Statement {
  enum class Kind : std::uint8_t {
    data,      // text
    output,    // expression
    choose,    // branches
    loop,      // for targets in expression if condition: body, else: otherwise
    set,       // targets = expression
    set_text,  // targets = what body gives, filtered by expression (on the name "") where there is one
    macro,     // text(targets, with defaults): body
    scope,     // body with variables of its own: with (targets, defaults), generation
    filter,    // body, filtered by expression (on the name "")
    leave,     // break
    again,     // continue
  };
  Kind kind;
  int line;
  std::string text = {};
  std::vector<std::string> targets = {};  // names; set: or "namespace.name"
  std::vector<ExpressionPtr> defaults = {};
  ExpressionPtr expression = {}, condition = {};
  Body body = {}, otherwise = {};
  std::vector<Branch> branches = {};
};

// Error names the line and what is not understood or not supported.
Body parse(std::string_view source, std::string_view where);

}  // namespace transformer::jinja
