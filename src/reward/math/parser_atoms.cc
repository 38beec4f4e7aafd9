#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "config/table/option_value.h"
#include "reward/math/parser.h"

namespace trl::reward::math {

namespace {

// \text{12} and \text{-3} are numbers.
std::optional<Node> number_in_words(std::string_view word) {
  const bool minus = word.starts_with('-');
  std::optional<Number> number = parse_number(word.substr(minus ? 1 : 0));
  if (!number) return std::nullopt;
  number->negative = minus;
  return number_node(*number);
}

}  // namespace

Token Parser::next() { return peek().type == TokenType::end ? peek() : tokens_[at_++]; }

bool Parser::take_sign(std::string_view text) { return at_sign(text) && ++at_ > 0; }

bool Parser::take_command(std::string_view name) { return at_command(name) && ++at_ > 0; }

void Parser::expect_sign(std::string_view text) {
  if (!take_sign(text)) throw Unreadable();
}

std::string Parser::source(size_t from, size_t to) const {
  std::string out;
  for (size_t i = from; i < to; ++i) {
    out += config::in_small_letters(tokens_[i].text);
    out += config::in_small_letters(tokens_[i].word);
  }
  return out;
}

Node Parser::atom() {
  const Token& token = peek();
  const bool plain = dialect_ == Dialect::plain;
  if (token.type == TokenType::number) return number();
  if (token.type == TokenType::sign) {
    if (take_sign("(")) return group("(");
    if (plain) throw Unreadable();
    if (take_sign("|")) return between("abs", "|");
    for (const std::string_view open : {"[", "{", "\\{"})
      if (take_sign(open)) return group(open);
  }
  if (plain) throw Unreadable();
  if (token.type == TokenType::letter) return letter();
  if (token.type == TokenType::command) return command();
  if (token.type == TokenType::word) {
    const Token word = next();
    if (std::optional<Node> number = number_in_words(word.word)) return *number;
    return symbol(config::in_small_letters(word.word));
  }
  if (token.type == TokenType::accent) {
    const Token accent = next();
    if (accent.text == "mathbb") return name_node(Kind::named_set, accent.word);
    return symbol(fmt::format("{}{{{}}}", accent.text, config::in_small_letters(accent.word)));
  }
  throw Unreadable();
}

Node Parser::number() {
  std::optional<Number> number = parse_number(next().text);
  if (!number) throw Unreadable();
  Node node = number_node(std::move(*number));
  if (dialect_ == Dialect::plain) return node;
  subscript();  // of the base in which it is written: compared as digits
  return take_sign("%") ? node_of(Kind::percent, {std::move(node)}) : node;
}

Node Parser::letter() {
  const std::string name(next().text);
  if (name == "e" && !at_sign("_")) return name_node(Kind::constant, "e");
  if (name == "I") return name_node(Kind::constant, "i");
  return symbol(config::in_small_letters(name));
}

std::string Parser::subscript() {
  if (!take_sign("_")) return {};
  const size_t from = at_;
  if (!take_sign("{")) {
    if (next().type == TokenType::end) throw Unreadable();
    return "_" + source(from, at_);
  }
  for (int depth = 1; depth > 0;) {
    const Token token = next();
    if (token.type == TokenType::end) throw Unreadable();
    if (token.type == TokenType::sign) depth += token.text == "{" ? 1 : token.text == "}" ? -1 : 0;
  }
  return "_" + source(from + 1, at_ - 1);
}

Node Parser::symbol(const std::string& name) { return name_node(Kind::symbol, name + subscript()); }

Node Parser::called(const Node& name) {
  const size_t from = at_;
  next();
  const Token& first = peek();
  const bool value_first = first.type == TokenType::number || first.type == TokenType::letter ||
                           first.type == TokenType::word || first.type == TokenType::command;
  const bool fraction_first = at_command("frac");
  Node arguments = group("(");
  Node application = name_node(Kind::application, name.name + source(from, at_));
  const bool several = arguments.kind == Kind::interval || arguments.kind == Kind::tuple;
  if (several && arguments.left_open && arguments.right_open) {
    application.children = std::move(arguments.children);
    return application;
  }
  const Kind kind = arguments.kind == Kind::power ? arguments.children[0].kind : arguments.kind;
  const bool single = kind == Kind::number || kind == Kind::symbol || kind == Kind::constant;
  if (value_first && !fraction_first && single) {
    application.children.push_back(std::move(arguments));
    return application;
  }
  ahead_ = checked(std::move(arguments));
  return name;
}

Node Parser::braced() {
  expect_sign("{");
  Node node = checked(sum());
  expect_sign("}");
  return node;
}

Node Parser::first_digit() {
  if (dialect_ != Dialect::lenient) throw Unreadable();
  if (peek().type == TokenType::letter) return letter();
  if (peek().type != TokenType::number || !parse_number(peek().text.substr(0, 1))) throw Unreadable();
  const std::string_view digit = peek().text.substr(0, 1);
  if (peek().text.size() > 1)
    tokens_[at_].text.remove_prefix(1);
  else
    next();
  return number_node(*parse_number(digit));
}

Node Parser::between(std::string_view function, std::string_view close) {
  const bool bars = close == "|";
  bars_ += bars ? 1 : 0;
  Node inner = checked(sum());
  bars_ -= bars ? 1 : 0;
  if (!(bars ? take_sign(close) : take_command(close))) throw Unreadable();
  return function_node(std::string(function), {std::move(inner)});
}

}  // namespace trl::reward::math
