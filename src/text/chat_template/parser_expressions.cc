// Expressions, from the inline if down to names and literals, with Jinja's order of operators.
#include <algorithm>

#include "base/text/number.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/parser.h"

namespace trl::text::jinja {

ExpressionPtr Parser::make(ExpressionKind kind, int line) const {
  auto node = std::make_unique<Expression>();
  node->kind = kind;
  node->line = line;
  return node;
}

ExpressionPtr Parser::finish(ExpressionPtr node) const {
  int height = 0;
  const auto see = [&](const ExpressionPtr& child) {
    if (child) height = std::max(height, child->height);
  };
  for (const ExpressionPtr* child :
       {&node->a, &node->b, &node->c, &node->d, &node->arguments.star, &node->arguments.double_star})
    see(*child);
  for (const auto& child : node->items) see(child);
  for (const auto& child : node->arguments.positional) see(child);
  for (const auto& child : node->arguments.named) see(child.second);
  node->height = height + 1;
  if (node->height > kMaxExpressionHeight) fail_at(node->line, "an expression of too many nested operations");
  return node;
}

ExpressionPtr Parser::binary(ExpressionKind kind, int line, ExpressionPtr a, ExpressionPtr b) const {
  auto node = make(kind, line);
  node->a = std::move(a);
  node->b = std::move(b);
  return finish(std::move(node));
}

ExpressionPtr Parser::expression() {
  const Nesting nesting(*this);
  const size_t known = unknown_.size();
  const int begin = line();
  ExpressionPtr node = disjunction();
  while (skip_name("if")) {
    auto conditional = make(ExpressionKind::conditional, begin);
    conditional->a = std::move(node);
    conditional->b = disjunction();
    if (skip_name("else")) conditional->c = expression();
    node = finish(std::move(conditional));
    unknown_.resize(known, {});  // only an error when it is reached
  }
  return node;
}

ExpressionPtr Parser::disjunction() {
  const int begin = line();
  ExpressionPtr node = conjunction();
  while (skip_name("or")) node = binary(ExpressionKind::logical_or, begin, std::move(node), conjunction());
  return node;
}

ExpressionPtr Parser::conjunction() {
  const int begin = line();
  ExpressionPtr node = negation();
  while (skip_name("and")) node = binary(ExpressionKind::logical_and, begin, std::move(node), negation());
  return node;
}

ExpressionPtr Parser::negation() {
  const int begin = line();
  if (!skip_name("not")) return comparison();
  const Nesting nesting(*this);
  return binary(ExpressionKind::logical_not, begin, negation(), nullptr);
}

ExpressionPtr Parser::comparison() {
  const int begin = line();
  ExpressionPtr first = sum();
  auto node = make(ExpressionKind::comparison, begin);
  constexpr std::pair<std::string_view, Comparison> kSymbols[] = {
      {"==", Comparison::equal},      {"!=", Comparison::unequal}, {"<", Comparison::less},
      {"<=", Comparison::less_equal}, {">", Comparison::greater},  {">=", Comparison::greater_equal}};
  while (true) {
    const auto found = std::find_if(std::begin(kSymbols), std::end(kSymbols),
                                    [&](const auto& entry) { return is_symbol(entry.first); });
    if (found != std::end(kSymbols)) {
      next();
      node->comparisons.push_back(found->second);
    } else if (skip_name("in")) {
      node->comparisons.push_back(Comparison::in);
    } else if (is_name("not") && is_name("in", 1)) {
      next();
      next();
      node->comparisons.push_back(Comparison::not_in);
    } else {
      break;
    }
    node->items.push_back(sum());
  }
  if (node->comparisons.empty()) return first;
  node->a = std::move(first);
  return finish(std::move(node));
}

ExpressionPtr Parser::sum() {
  const int begin = line();
  ExpressionPtr node = concatenation();
  while (is_symbol("+") || is_symbol("-")) {
    const Operator op = next().value == "+" ? Operator::add : Operator::subtract;
    node = binary(ExpressionKind::arithmetic, begin, std::move(node), concatenation());
    node->op = op;
  }
  return node;
}

ExpressionPtr Parser::concatenation() {
  const int begin = line();
  ExpressionPtr first = product();
  if (!is_symbol("~")) return first;
  auto node = make(ExpressionKind::concatenation, begin);
  node->items.push_back(std::move(first));
  while (skip_symbol("~")) node->items.push_back(product());
  return finish(std::move(node));
}

ExpressionPtr Parser::product() {
  const int begin = line();
  ExpressionPtr node = power();
  while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
    const std::string symbol = next().value;
    node = binary(ExpressionKind::arithmetic, begin, std::move(node), power());
    node->op = symbol == "*"    ? Operator::multiply
               : symbol == "/"  ? Operator::divide
               : symbol == "//" ? Operator::floor_divide
                                : Operator::modulo;
  }
  return node;
}

ExpressionPtr Parser::power() {
  const int begin = line();
  ExpressionPtr node = unary(true);
  while (skip_symbol("**")) {
    node = binary(ExpressionKind::arithmetic, begin, std::move(node), unary(true));
    node->op = Operator::power;
  }
  return node;
}

ExpressionPtr Parser::unary(bool with_filter) {
  const Nesting nesting(*this);
  const int begin = line();
  ExpressionPtr node;
  if (is_symbol("-") || is_symbol("+")) {
    const bool minus = next().value == "-";
    node = binary(minus ? ExpressionKind::negative : ExpressionKind::positive, begin, unary(false), nullptr);
  } else {
    node = primary();
  }
  node = postfix(std::move(node));
  return with_filter ? filters_and_tests(std::move(node)) : std::move(node);
}

ExpressionPtr Parser::primary() {
  const Token& token = peek();
  switch (token.type) {
    case TokenType::name:
      return name_or_constant();
    case TokenType::integer:
    case TokenType::real:
      return number();
    case TokenType::text: {
      auto node = make(ExpressionKind::literal, token.line);
      std::string text;
      while (peek().type == TokenType::text) text += next().value;
      node->value = Value::text(std::move(text));
      return node;
    }
    default:
      break;
  }
  if (skip_symbol("(")) {
    ExpressionPtr node = tuple(TupleEnd::parenthesis, true);
    expect_symbol(")");
    return node;
  }
  if (is_symbol("[") || is_symbol("{")) return list_or_dict();
  fail_at(token.line, "unexpected '" + describe(token) + "', an expression was expected");
}

ExpressionPtr Parser::name_or_constant() {
  const Token& token = next();
  auto node = make(ExpressionKind::literal, token.line);
  const std::string& name = token.value;
  if (name == "true" || name == "True" || name == "false" || name == "False") {
    node->value = Value::boolean(name == "true" || name == "True");
  } else if (name == "none" || name == "None") {
    node->value = Value::none();
  } else {
    node->kind = ExpressionKind::name;
    node->symbol = symbol_of(name);
    if (name == "loop")
      for (Statement* loop : loops_) loop->uses_loop = true;
    for (MacroDefinition* macro : macros_) {
      macro->uses_caller |= name == "caller";
      macro->uses_varargs |= name == "varargs";
      macro->uses_kwargs |= name == "kwargs";
    }
  }
  return node;
}

ExpressionPtr Parser::number() {
  const Token& token = next();
  auto node = make(ExpressionKind::literal, token.line);
  if (token.type == TokenType::real) {
    const auto value = parse_real(token.value);
    if (!value) fail_at(token.line, "the number " + token.value + " is out of range");
    node->value = Value::real(*value);
    return node;
  }
  const char kind = token.value.size() > 1 ? static_cast<char>(token.value[1] | 0x20) : '0';
  const int64_t base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
  int64_t value = 0;
  const std::string_view digits = std::string_view(token.value).substr(base == 10 ? 0 : 2);
  if (digits.empty()) fail_at(token.line, "the number " + token.value + " has no digits");
  for (const char c : digits) {
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (digit >= base) fail_at(token.line, "the number " + token.value + " has a digit that its base lacks");
    if (!__builtin_mul_overflow(value, base, &value) && !__builtin_add_overflow(value, digit, &value))
      continue;
    if (base != 10) fail_at(token.line, "the integer " + token.value + " does not fit in 64 bits");
    if (digits.size() > kMaxDigits)
      fail_at(token.line, fmt::format("an integer of more than {} digits", kMaxDigits));
    node->value = Value::whole(digits);
    return node;
  }
  node->value = Value::integer(value);
  return node;
}

ExpressionPtr Parser::list_or_dict() {
  const bool dict = is_symbol("{");
  const std::string_view close = dict ? "}" : "]";
  auto node = make(dict ? ExpressionKind::dict : ExpressionKind::list, line());
  next();
  while (!is_symbol(close)) {
    if (!node->items.empty()) expect_symbol(",");
    if (is_symbol(close)) break;
    node->items.push_back(expression());
    if (!dict) continue;
    expect_symbol(":");
    node->items.push_back(expression());
  }
  expect_symbol(close);
  return finish(std::move(node));
}

bool Parser::at_tuple_end(TupleEnd end) const {
  if (peek().type == TokenType::variable_end || peek().type == TokenType::block_end || is_symbol(")"))
    return true;
  return (end == TupleEnd::in && is_name("in")) || (end == TupleEnd::recursive && is_name("recursive"));
}

ExpressionPtr Parser::tuple(TupleEnd end, bool with_conditional) {
  const Nesting nesting(*this);
  auto node = make(ExpressionKind::tuple, line());
  bool comma = false;
  while (!at_tuple_end(end)) {
    node->items.push_back(with_conditional ? expression() : disjunction());
    if (!skip_symbol(",")) break;
    comma = true;
  }
  if (!comma && !node->items.empty()) return std::move(node->items.front());
  if (node->items.empty() && end != TupleEnd::parenthesis) fail_expected("an expression");
  return finish(std::move(node));
}

ExpressionPtr Parser::postfix(ExpressionPtr node) {
  while (true)
    if (is_symbol(".") || is_symbol("["))
      node = subscript(std::move(node));
    else if (is_symbol("("))
      node = call(std::move(node));
    else
      return node;
}

ExpressionPtr Parser::subscript(ExpressionPtr node) {
  const int begin = line();
  if (skip_symbol(".")) {
    if (peek().type == TokenType::integer)
      return binary(ExpressionKind::item, begin, std::move(node), number());
    auto attribute = make(ExpressionKind::attribute, begin);
    attribute->text = take_name("a name or a number after '.'");
    attribute->a = std::move(node);
    return finish(std::move(attribute));
  }
  expect_symbol("[");
  auto item = make(ExpressionKind::item, begin);
  item->a = std::move(node);
  if (!is_symbol(":")) item->b = expression();
  if (is_symbol(",")) {
    auto key = make(ExpressionKind::tuple, begin);
    key->items.push_back(std::move(item->b));
    while (skip_symbol(","))
      if (!is_symbol("]")) key->items.push_back(expression());
    item->b = finish(std::move(key));
  } else if (skip_symbol(":")) {
    item->kind = ExpressionKind::slice;
    if (!is_symbol(":") && !is_symbol("]")) item->c = expression();
    if (skip_symbol(":") && !is_symbol("]")) item->d = expression();
  }
  expect_symbol("]");
  return finish(std::move(item));
}

ExpressionPtr Parser::filters_and_tests(ExpressionPtr node) {
  while (true)
    if (is_symbol("|"))
      node = filter_chain(std::move(node));
    else if (is_name("is"))
      node = test(std::move(node));
    else if (is_symbol("("))
      node = call(std::move(node));
    else
      return node;
}

ExpressionPtr Parser::filter_chain(ExpressionPtr node) {
  while (skip_symbol("|")) node = filter(std::move(node));
  return node;
}

std::string Parser::dotted_name() {
  std::string name = take_name("a name");
  while (skip_symbol(".")) name += "." + take_name("a name after '.'");
  return name;
}

ExpressionPtr Parser::filter(ExpressionPtr node) {
  auto applied = make(ExpressionKind::filter, line());
  applied->text = dotted_name();
  applied->filter = find_filter(applied->text);
  if (is_refused_filter(applied->text)) fail_at(applied->line, no_filter(applied->text));
  if (!applied->filter) unknown_.push_back({applied->line, no_filter(applied->text)});
  applied->a = std::move(node);
  if (is_symbol("(")) applied->arguments = call_arguments();
  return finish(std::move(applied));
}

ExpressionPtr Parser::test(ExpressionPtr node) {
  const int begin = line();
  expect_name("is");
  const bool negated = skip_name("not");
  auto applied = make(ExpressionKind::test, begin);
  applied->text = dotted_name();
  applied->test = find_test(applied->text);
  if (!applied->test) unknown_.push_back({begin, "No test named '" + applied->text + "'."});
  applied->a = std::move(node);
  const Token& token = peek();
  const bool starts_value =
      token.type == TokenType::text || token.type == TokenType::integer || token.type == TokenType::real ||
      is_symbol("[") || is_symbol("{") ||
      (token.type == TokenType::name && token.value != "else" && token.value != "or" && token.value != "and");
  if (is_symbol("(")) {
    applied->arguments = call_arguments();
  } else if (starts_value) {
    if (is_name("is")) fail_at(token.line, "tests with 'is' cannot be chained");
    applied->arguments.positional.push_back(postfix(primary()));
  }
  ExpressionPtr result = finish(std::move(applied));
  return negated ? binary(ExpressionKind::logical_not, begin, std::move(result), nullptr) : std::move(result);
}

ExpressionPtr Parser::call(ExpressionPtr node) {
  auto called = make(ExpressionKind::call, line());
  if (node->kind == ExpressionKind::attribute && is_refused_text_method(node->text))
    fail_at(called->line, "the method '" + node->text + "' of str is not supported");
  called->a = std::move(node);
  called->arguments = call_arguments();
  return finish(std::move(called));
}

CallArguments Parser::call_arguments() {
  CallArguments arguments;
  const int begin = line();
  const auto ensure = [&](bool valid) {
    if (!valid) fail_at(begin, "invalid order of arguments in a call");
  };
  expect_symbol("(");
  for (bool first = true; !is_symbol(")"); first = false) {
    if (!first) expect_symbol(",");
    if (is_symbol(")")) break;
    if (skip_symbol("*")) {
      ensure(!arguments.star && !arguments.double_star);
      arguments.star = expression();
    } else if (skip_symbol("**")) {
      ensure(!arguments.double_star);
      arguments.double_star = expression();
    } else if (peek().type == TokenType::name && is_symbol("=", 1)) {
      ensure(!arguments.double_star);
      std::string name = next().value;
      next();
      arguments.named.emplace_back(std::move(name), expression());
    } else {
      ensure(!arguments.star && !arguments.double_star && arguments.named.empty());
      arguments.positional.push_back(expression());
    }
  }
  expect_symbol(")");
  return arguments;
}

}  // namespace trl::text::jinja
