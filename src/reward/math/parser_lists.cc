#include <algorithm>
#include <optional>
#include <utility>

#include "reward/math/parser.h"
#include "reward/math/real_set.h"

namespace trl::reward::math {

namespace {

std::optional<Relation> relation_of(const Token& token) {
  constexpr std::pair<std::string_view, Relation> kSigns[] = {
      {"=", Relation::equal}, {"<", Relation::less}, {">", Relation::greater}};
  constexpr std::pair<std::string_view, Relation> kCommands[] = {
      {"leq", Relation::less_equal},
      {"geq", Relation::greater_equal},
      {"neq", Relation::unequal},
      {"in", Relation::equal}};  // x \in {1, 2} says that x is 1 or 2
  if (token.type == TokenType::sign) {
    for (const auto& [text, relation] : kSigns)
      if (token.text == text) return relation;
  } else if (token.type == TokenType::command) {
    for (const auto& [text, relation] : kCommands)
      if (token.text == text) return relation;
  }
  return std::nullopt;
}

Node one_or_set(std::vector<Node> nodes) {
  return nodes.size() == 1 ? std::move(nodes[0]) : node_of(Kind::finite_set, std::move(nodes));
}

bool is_relation(const Node& node) { return node.kind == Kind::relation; }

// x = 1, 2 says that x is in {1, 2}.
bool is_list_of_values(const std::vector<Node>& nodes) {
  const Node& first = nodes[0];
  return nodes.size() > 1 && is_relation(first) && first.relations.size() == 1 &&
         first.relations[0] == Relation::equal && first.children[0].kind == Kind::symbol &&
         std::none_of(nodes.begin() + 1, nodes.end(), is_relation);
}

Node value_list(std::vector<Node> nodes) {
  Node equation = std::move(nodes[0]);
  nodes[0] = std::move(equation.children[1]);
  equation.children[1] = node_of(Kind::finite_set, std::move(nodes));
  return equation;
}

}  // namespace

Node Parser::answer() {
  std::vector<Nodes> all = lists();
  if (peek().type != TokenType::end) throw Unreadable();
  if (all.size() == 1) return is_list_of_values(all[0]) ? value_list(std::move(all[0])) : one_or_set(all[0]);
  Node out = node_of(Kind::finite_set, {});
  const bool flat = std::ranges::all_of(all, [](const Nodes& nodes) { return nodes.size() == 1; });
  for (Nodes& nodes : all)
    out.children.push_back(flat ? std::move(nodes[0]) : node_of(Kind::tuple, std::move(nodes)));
  return out;
}

std::vector<Parser::Nodes> Parser::lists() {
  std::vector<Nodes> out;
  do {
    out.push_back(list());
    if (out.size() > kMaxElements) throw Unreadable();
  } while (take_sign(";"));
  return out;
}

Parser::Nodes Parser::list() {
  Nodes out;
  do {
    element(out);
    if (out.size() > kMaxElements) throw Unreadable();
  } while (take_sign(","));
  return out;
}

Parser::Nodes Parser::values() {
  const auto sign = [this] { return take_command("pm"); };
  if (sign()) {
    const Node value = checked(sum());
    return {negated(value), value};
  }
  Node left = union_of_sets();
  if (!sign()) return {std::move(left)};
  left = checked(std::move(left));
  const Node right = checked(sum());
  return {node_of(Kind::add, {left, right}), node_of(Kind::add, {left, negated(right)})};
}

void Parser::element(Nodes& out) {
  Nodes first = values();
  if (first.size() > 1) {
    out.insert(out.end(), first.begin(), first.end());
    return;
  }
  Node relation = node_of(Kind::relation, std::move(first));
  while (true) {
    if (take_command("approx")) {
      const Node value = one_or_set(values());
      if (relation.relations.empty() && is_name(relation.children[0])) relation.children[0] = value;
      continue;
    }
    const std::optional<Relation> sign = relation_of(peek());
    if (!sign) break;
    const bool in = next().is(TokenType::command, "in");
    relation.children.push_back(one_or_set(values()));
    relation.relations.push_back(*sign);
    if (in && !is_set(relation.children.back())) throw Unreadable();
  }
  out.push_back(relation.relations.empty() ? std::move(relation.children[0]) : std::move(relation));
}

Node Parser::union_of_sets() {
  Node left = intersection_of_sets();
  while (at_command("cup") || at_command("setminus")) {
    const Kind kind = next().text == "cup" ? Kind::set_union : Kind::difference;
    Node right = intersection_of_sets();
    if (!is_set(left) || !is_set(right)) throw Unreadable();
    link();
    left = node_of(kind, {std::move(left), std::move(right)});
  }
  return left;
}

Node Parser::intersection_of_sets() {
  Node left = sum();
  while (take_command("cap")) {
    Node right = sum();
    if (!is_set(left) || !is_set(right)) throw Unreadable();
    link();
    left = node_of(Kind::intersection, {std::move(left), std::move(right)});
  }
  return left;
}

Node Parser::group(std::string_view open) {
  const bool braces = open == "{" || open == "\\{";
  if (braces && take_sign(open == "{" ? "}" : "\\}")) return node_of(Kind::finite_set, {});
  Nodes all;
  bool semicolons = false;
  for (Nodes& nodes : lists()) {
    semicolons = semicolons || !all.empty();
    all.insert(all.end(), nodes.begin(), nodes.end());
  }
  if (all.size() > kMaxElements) throw Unreadable();
  if (braces) {
    expect_sign(open == "{" ? "}" : "\\}");
    // {x} is a group; \{x\} a set of one
    return open == "{" ? one_or_set(std::move(all)) : node_of(Kind::finite_set, std::move(all));
  }
  const bool left_open = open == "(";
  const bool right_open = at_sign(")");
  if (!right_open && !at_sign("]")) throw Unreadable();
  next();
  const bool pair = all.size() == 2 && !semicolons;
  if (left_open != right_open && !pair) throw Unreadable();
  if (all.size() == 1) return std::move(all[0]);
  Node out = node_of(pair ? Kind::interval : Kind::tuple, std::move(all));
  out.left_open = left_open;
  out.right_open = right_open;
  if (pair && !can_be_interval(out)) out.kind = Kind::tuple;
  return out;
}

}  // namespace trl::reward::math
