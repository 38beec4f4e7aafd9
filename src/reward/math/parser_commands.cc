#include <algorithm>
#include <array>
#include <utility>

#include "config/table/option_value.h"
#include "reward/math/names.h"
#include "reward/math/parser.h"

namespace trl::reward::math {

namespace {

constexpr auto kSeveralArguments = std::to_array<std::string_view>({"gcd", "lcm", "max", "min"});
constexpr auto kMatrices =
    std::to_array<std::string_view>({"array", "bmatrix", "matrix", "pmatrix", "smallmatrix"});

bool one_of(auto& names, std::string_view name) { return std::ranges::find(names, name) != std::end(names); }

}  // namespace

Node Parser::command() {
  const std::string name(next().text);
  if (name == "frac") return fraction_of();
  if (name == "binom") {
    Node upper = braced();
    Node lower = braced();
    return function_node("binomial", {std::move(upper), std::move(lower)});
  }
  if (name == "sqrt") return root();
  if (name == "pi") return name_node(Kind::constant, name);
  if (name == "infty") return name_node(Kind::infinity, {});
  if (name == "emptyset") return node_of(Kind::finite_set, {});
  if (name == "lfloor") return between("floor", "rfloor");
  if (name == "lceil") return between("ceil", "rceil");
  if (name == "begin") return matrix();
  if (name == "log" || name == "ln") return logarithm(name);
  if (name == "operatorname") {
    const size_t from = at_ + 1;
    expect_sign("{");
    while (peek().type == TokenType::letter) next();
    const std::string operation = source(from, at_);
    expect_sign("}");
    if (!is_function_name(operation) || operation == "sqrt" || operation == "log" || operation == "ln")
      throw Unreadable();
    return function(operation);
  }
  if (is_function_name(name)) return function(name);
  if (is_symbol_name(name)) return symbol(config::in_small_letters(name));
  throw Unreadable();
}

Node Parser::fraction_of() {
  Node upper = at_sign("{") ? braced() : first_digit();
  // \frac123 is 1/23 if braces may be missing
  Node lower = at_sign("{")                       ? braced()
               : peek().type != TokenType::number ? first_digit()
               : dialect_ == Dialect::lenient     ? number()
                                                  : throw Unreadable();
  return quotient(std::move(upper), std::move(lower));
}

Node Parser::root() {
  Node degree = number_node(integer(2));
  if (take_sign("[")) {
    degree = checked(sum());
    expect_sign("]");
  }
  Node inner;
  if (dialect_ == Dialect::lenient && take_sign("(")) {
    inner = checked(sum());
    expect_sign(")");
  } else {
    inner = at_sign("{") ? braced() : first_digit();
  }
  Node exponent = quotient(number_node(integer(1)), std::move(degree));
  return node_of(Kind::power, {std::move(inner), std::move(exponent)});
}

Node Parser::logarithm(std::string_view name) {
  Node base = name == "ln" ? name_node(Kind::constant, "e") : number_node(integer(10));
  if (take_sign("_")) base = at_sign("{") ? braced() : checked(atom());
  Node argument = function_argument();
  return function_node("log", {std::move(argument), std::move(base)});
}

Node Parser::function(std::string_view name) {
  if (one_of(kSeveralArguments, name)) return several_arguments(name);
  std::string of(name);
  std::optional<Node> power;
  if (take_sign("^")) power = at_sign("{") ? braced() : exponent();
  const bool inverse = power && power->kind == Kind::number && small_integer(power->number) == -1;
  if (inverse && !of.starts_with("arc") && of != "exp") {
    of = "arc" + of;
    power.reset();
    if (!is_function_name(of)) throw Unreadable();
  }
  Node argument = function_argument();
  Node value = of == "exp" ? node_of(Kind::power, {name_node(Kind::constant, "e"), std::move(argument)})
                           : function_node(of, {std::move(argument)});
  return power ? node_of(Kind::power, {std::move(value), std::move(*power)}) : value;
}

Node Parser::function_argument() {
  if (at_sign("{")) return braced();
  if (!take_sign("(")) return checked(products(false));
  Node argument = checked(sum());
  expect_sign(")");
  return argument;
}

Node Parser::several_arguments(std::string_view name) {
  expect_sign("(");
  Nodes arguments = list();
  expect_sign(")");
  if (!std::ranges::all_of(arguments, is_expression)) throw Unreadable();
  return function_node(std::string(name), std::move(arguments));
}

Node Parser::matrix() {
  const auto environment = [this] {
    const size_t from = at_ + 1;
    expect_sign("{");
    while (peek().type == TokenType::letter) next();
    std::string name = source(from, at_);
    expect_sign("}");
    return name;
  };
  const std::string name = environment();
  if (!one_of(kMatrices, name)) throw Unreadable();
  if (name == "array" && take_sign("{"))  // the alignment of its columns
    while (!take_sign("}"))
      if (next().type == TokenType::end) throw Unreadable();
  Node out = node_of(Kind::matrix, {});
  while (!at_command("end")) {
    const size_t before = out.children.size();
    do out.children.push_back(checked(sum()));
    while (take_sign("&"));
    const size_t columns = out.children.size() - before;
    if (out.columns != 0 && columns != out.columns) throw Unreadable();
    out.columns = columns;
    if (out.children.size() > kMaxElements) throw Unreadable();
    if (!take_sign("\\\\") && !at_command("end")) throw Unreadable();
  }
  next();
  if (environment() != name || out.columns == 0) throw Unreadable();
  return out;
}

}  // namespace trl::reward::math
