#include <optional>
#include <utility>

#include "reward/math/names.h"
#include "reward/math/parser.h"

namespace trl::reward::math {

namespace {

// Appends a factor, or the factors of a product, in the order in which they are written.
void append_factor(std::vector<Node>& factors, Node node) {
  if (node.kind != Kind::multiply) return factors.push_back(std::move(node));
  for (Node& child : node.children) factors.push_back(std::move(child));
}

Node product_of(Node left, Node right) {
  Node out = node_of(Kind::multiply, {});
  append_factor(out.children, std::move(left));
  append_factor(out.children, std::move(right));
  return out;
}

// Returns the sum of an integer and the fraction that follows it: 2\frac{1}{3}.
std::optional<Node> mixed(const Node& whole, const Node& rest) {
  if (whole.kind != Kind::number || rest.kind != Kind::number || rest.number.denominator == 1)
    return std::nullopt;
  const std::optional<Number> number = mixed_number(whole.number, rest.number);
  return number ? std::optional(number_node(*number)) : std::nullopt;
}

}  // namespace

Node negated(Node node) {
  if (node.kind != Kind::number) return product_of(number_node(integer(-1)), checked(std::move(node)));
  node.number.negative = !node.number.negative;
  return node;
}

Node quotient(Node upper, Node lower) {
  if (upper.kind == Kind::number && lower.kind == Kind::number)
    if (std::optional<Number> number = fraction(upper.number, lower.number)) return number_node(*number);
  return node_of(Kind::divide, {std::move(upper), std::move(lower)});
}

void Parser::link() {
  if (++links_ > kMaxLinks) throw Unreadable();
}

Node Parser::sum() {
  if (++depth_ > kMaxDepth) throw Unreadable();
  Node left = product();
  while (at_sign("+") || at_sign("-")) {
    const bool minus = next().text == "-";
    Node right = product();
    if (minus) right = negated(std::move(right));
    left = checked(std::move(left));
    if (left.kind != Kind::add) left = node_of(Kind::add, {std::move(left)});
    left.children.push_back(checked(std::move(right)));
  }
  --depth_;
  return left;
}

Node Parser::products(bool functions) {
  Node left = signed_product(functions);
  while (true) {
    const bool times = take_sign("*") || take_command("times") || take_command("cdot");
    const bool remainder = !times && take_command("mod");
    if (!times && !remainder && !take_sign("/") && !take_sign(":") && !take_command("div")) return left;
    Node right = checked(signed_product(functions));
    left = checked(std::move(left));
    link();
    if (times)
      left = product_of(std::move(left), std::move(right));
    else if (remainder)
      left = function_node("mod", {std::move(left), std::move(right)});
    else
      left = quotient(std::move(left), std::move(right));
  }
}

Node Parser::signed_product(bool functions) {
  bool minus = false;
  while (at_sign("+") || at_sign("-")) minus = (next().text == "-") != minus;
  Node node = factors(functions);
  return minus ? negated(std::move(node)) : node;
}

Node Parser::factors(bool functions) {
  std::vector<Node> all = {factor()};
  while (factor_follows(functions)) all.push_back(factor());
  if (all.size() == 1) return std::move(all[0]);
  if (all.size() == 2)
    if (std::optional<Node> sum = mixed(all[0], all[1])) return std::move(*sum);
  Node out = node_of(Kind::multiply, {});
  for (Node& node : all) append_factor(out.children, checked(std::move(node)));
  return out;
}

bool Parser::factor_follows(bool functions) const {
  if (dialect_ == Dialect::plain) return false;
  if (ahead_) return true;
  const Token& token = peek();
  switch (token.type) {
    case TokenType::number:
    case TokenType::letter:
    case TokenType::word:
    case TokenType::accent:
      return true;
    case TokenType::sign:
      return token.text == "(" || token.text == "{" || token.text == "[" || (token.text == "|" && bars_ == 0);
    case TokenType::command:
      return begins_factor(token.text) && (functions || !is_function_name(token.text));
    default:
      return false;
  }
}

Node Parser::factor() {
  if (++depth_ > kMaxDepth) throw Unreadable();
  const TokenType type = peek().type;
  const bool named = type == TokenType::letter || type == TokenType::word || type == TokenType::command;
  const bool is_new = !ahead_;
  Node base = is_new ? atom() : *std::exchange(ahead_, std::nullopt);
  if (is_new && named && base.kind == Kind::symbol && at_sign("(")) base = Node(called(base));
  powers(base);
  while (!ahead_ && take_sign("!")) {
    link();
    base = function_node("factorial", {checked(std::move(base))});
    powers(base);
  }
  --depth_;
  return base;
}

bool Parser::take_power() {
  if (take_sign("^")) return true;
  const bool stars = dialect_ == Dialect::plain && at_sign("*") && tokens_[at_ + 1].is(TokenType::sign, "*");
  at_ += stars ? 2 : 0;
  return stars;
}

void Parser::powers(Node& base) {
  while (!ahead_ && take_power()) {
    if (take_command("circ")) continue;  // degrees are numbers
    if (at_sign("{") && tokens_[at_ + 1].is(TokenType::command, "circ") &&
        tokens_[at_ + 2].is(TokenType::sign, "}")) {
      at_ += 3;
      continue;
    }
    link();
    Node raised = checked(std::move(base));
    base = node_of(Kind::power, {std::move(raised), exponent()});
  }
}

Node Parser::exponent() {
  if (dialect_ == Dialect::plain) {
    const bool minus = take_sign("-");
    Node node = checked(factor());
    return minus ? negated(std::move(node)) : node;
  }
  if (at_sign("{")) return braced();
  if (dialect_ == Dialect::lenient && take_sign("(")) {
    Node node = checked(sum());
    expect_sign(")");
    return node;
  }
  const Token& token = peek();
  const bool simple = token.type == TokenType::number || token.type == TokenType::letter ||
                      token.type == TokenType::word || token.type == TokenType::accent ||
                      token.is(TokenType::command, "pi") || token.is(TokenType::command, "infty") ||
                      (token.type == TokenType::command && is_symbol_name(token.text));
  if (!simple) throw Unreadable();
  return checked(atom());
}

}  // namespace trl::reward::math
