// The parsed template. One node type for expressions and one for statements; the comment after a kind names
// the fields that it uses. Names are numbers (symbols), so that a lookup compares integers.
#pragma once
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "text/chat_template/filters.h"
#include "text/chat_template/python.h"
#include "text/chat_template/value.h"

namespace trl::text::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

enum class ExpressionKind : uint8_t {
  literal,          // value
  name,             // symbol
  namespace_field,  // symbol, text: only as the target of set
  list,
  tuple,  // items
  dict,   // items: key, value, key, value ...
  logical_not,
  negative,
  positive,  // a
  logical_and,
  logical_or,     // a, b
  arithmetic,     // op, a, b
  concatenation,  // items
  comparison,     // a, comparisons with items
  conditional,    // a if b else c (c may be missing)
  attribute,      // a.text
  item,           // a[b]
  slice,          // a[b:c:d], each may be missing
  call,           // a(arguments)
  filter,         // a | text(arguments); a is missing at the head of a filter block
  test,           // a is text(arguments)
};

// Begins with the values of Order.
enum class Comparison : uint8_t { less, less_equal, greater, greater_equal, equal, unequal, in, not_in };

struct CallArguments {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr star, double_star;
};

struct Expression {
  ExpressionKind kind;
  int line;
  int height = 1;
  int symbol = -1;
  Operator op = Operator::add;
  std::string text;
  Value value;
  ExpressionPtr a, b, c, d;
  std::vector<ExpressionPtr> items;
  std::vector<Comparison> comparisons;
  CallArguments arguments;
  const Callable* filter = nullptr;  // nullptr: unknown, an error when it is reached
  TestFunction test = nullptr;
};

struct Statement;
using Body = std::vector<std::unique_ptr<Statement>>;

// A macro, or the body that a call block passes to one.
struct MacroDefinition {
  std::string name;
  std::vector<std::pair<int, std::string>> parameters;
  std::vector<ExpressionPtr> defaults;  // defaults of the last parameters
  Body body;
  bool uses_varargs = false, uses_kwargs = false, uses_caller = false;
};

enum class StatementKind : uint8_t {
  text,         // text
  print,        // expressions
  set,          // target, expression
  set_block,    // target, expression (a filter chain, may be missing), body
  conditional,  // branches, otherwise
  loop,         // target, expression, condition (may be missing), body, otherwise, recursive, uses_loop
  macro,        // symbol, macro
  call,         // expression (a call), macro (the caller)
  filter,       // expression (a filter chain), body
  with,         // targets and expressions, body
  generation,   // body
  break_loop,
  continue_loop,
};

struct Statement {
  StatementKind kind;
  int line;
  int symbol = -1;
  bool recursive = false;
  bool uses_loop = false;
  std::string text;
  ExpressionPtr target, expression, condition;
  std::vector<ExpressionPtr> targets, expressions;
  Body body, otherwise;
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  std::unique_ptr<MacroDefinition> macro;
};

struct Program {
  Body body;
  std::vector<std::string> names;  // by symbol
  std::unordered_map<std::string, int> symbols;
  int loop = -1, caller = -1, varargs = -1, kwargs = -1;
  bool has_generation = false;
};

// Throws Error(format) with the line and the construct that was expected.
Program parse(std::string_view source);

}  // namespace trl::text::jinja
