// Implements parse() by recursive descent. Each method throws Unreadable for text outside the grammar.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reward/math/node.h"
#include "reward/math/parse.h"
#include "reward/math/token.h"

namespace trl::reward::math {

struct Unreadable {};

// Returns the node if it is an expression, which a sum, a product or a function can hold.
inline Node checked(Node node) {
  if (!is_expression(node)) throw Unreadable();
  return node;
}
Node negated(Node node);
Node quotient(Node upper, Node lower);  // of two integers: a fraction in lowest terms

class Parser {
 public:
  Parser(std::string_view latex, Dialect dialect) : tokens_(tokens_of(latex)), dialect_(dialect) {}
  Node answer();  // all of the text

 private:
  // parser_lists.cc: elements with commas and semicolons, relations, sets
  using Nodes = std::vector<Node>;
  std::vector<Nodes> lists();  // a, b; c, d
  Nodes list();                // a, b
  void element(Nodes& out);    // a relation, or one or two values: 1 \pm 2
  Nodes values();              // one or two values
  Node approximated(Node left, Nodes right);
  Node union_of_sets();
  Node intersection_of_sets();
  Node group(std::string_view open);  // ( ... ), [ ... ], { ... }, \{ ... \}

  // parser_terms.cc: arithmetic
  Node sum();
  Node product() { return products(true); }
  Node products(bool functions);
  Node signed_product(bool functions);
  Node factors(bool functions);  // 2x\sin y; without functions: the argument of \sin x, which ends at \cos
  bool factor_follows(bool functions) const;
  Node factor();      // with its powers and factorials
  bool take_power();  // the sign
  void powers(Node& base);
  Node exponent();

  // parser_atoms.cc and parser_commands.cc: numbers, symbols, groups, functions
  Node atom();
  Node number();
  Node letter();
  Node symbol(const std::string& name);  // with its subscript
  Node called(const Node& name);         // f(x); for x(x + 1) it leaves the group in ahead_ and returns x
  Node command();
  Node fraction_of();
  Node binomial();
  Node root();
  Node logarithm(std::string_view name);
  Node function(std::string_view name);
  Node function_argument();
  Node several_arguments(std::string_view name);
  Node between(std::string_view function, std::string_view close);  // |x|, \lfloor x \rfloor
  Node matrix();
  Node braced();            // {x}
  Node first_digit();       // of a number, leaving its other digits
  std::string subscript();  // _1, _{12}, or nothing

  // tokens
  const Token& peek() const { return tokens_[at_]; }
  bool at_sign(std::string_view text) const { return peek().is(TokenType::sign, text); }
  bool at_command(std::string_view name) const { return peek().is(TokenType::command, name); }
  Token next();
  bool take_sign(std::string_view text);
  bool take_command(std::string_view name);
  void expect_sign(std::string_view text);
  void link();                                       // counts one
  std::string source(size_t from, size_t to) const;  // text of tokens, in small letters

  std::vector<Token> tokens_;
  Dialect dialect_;
  size_t at_ = 0;
  std::optional<Node> ahead_;  // the next factor, already read
  int depth_ = 0;
  int links_ = 0;  // nodes of a/b/c and x!!, whose tree is deeper than the text
  int bars_ = 0;   // open |
};

}  // namespace trl::reward::math
