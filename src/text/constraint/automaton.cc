#include "text/constraint/automaton.h"

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"

namespace trl::text {

Automaton::Automaton(const PatternTree& tree, std::string_view key) : key_(key) {
  nodes_.emplace_back();
  start_ = compile(tree, kMatch);
  if (start_ == kNone) fail_key(key, "{}: no text matches the pattern; give one that some text does", key);
  numbers_.clear();
  known_.clear();
}

// Counts steps, too: parts that need no node may be repeated as often.
void Automaton::count_step() {
  if (steps_ % 256 == 0) base::poll();
  if (++steps_ > 4 * kMostNodes || nodes_.size() > kMostNodes)
    fail_key(key_,
             "{}: the pattern is too large: with all repetitions it has more than {} parts; shorten it, or "
             "repeat less",
             key_, kMostNodes);
}

uint32_t Automaton::add(const Node& node) {
  nodes_.push_back(node);
  return static_cast<uint32_t>(nodes_.size() - 1);
}

uint32_t Automaton::number_of(const std::shared_ptr<const CharacterSet>& set) {
  const auto known = known_.find(set.get());
  if (known != known_.end()) return known->second;
  base::poll();
  const auto [found, is_new] = numbers_.try_emplace(*set, static_cast<uint32_t>(sets_.size()));
  if (is_new) places_ += sets_.emplace_back(*set).places();
  if (places_ > kMostPlaces)
    fail_key(
        key_,
        "{}: the pattern is too large: its classes need more than {} places within characters; use fewer "
        "different ones",
        key_, kMostPlaces);
  known_.emplace(set.get(), found->second);
  return found->second;
}

// Returns where a text of the tree begins that goes on at `next`; kNone: there is no such text.
uint32_t Automaton::compile(const PatternTree& tree, uint32_t next) {
  count_step();
  if (next == kNone) return kNone;
  switch (tree.kind) {
    case PatternTree::Kind::characters: {
      const uint32_t set = number_of(tree.characters);
      return sets_[set].empty() ? kNone : add({.next = next, .set = set});
    }
    case PatternTree::Kind::choice: {
      uint32_t all = kNone;
      for (auto part = tree.parts.rbegin(); part != tree.parts.rend(); ++part) {
        const uint32_t one = compile(*part, next);
        if (one == kNone) continue;
        all = all == kNone ? one : add({.split = true, .next = one, .other = all});
      }
      return all;
    }
    case PatternTree::Kind::repeat:
      return repeat(tree, next);
    default:
      for (auto part = tree.parts.rbegin(); part != tree.parts.rend(); ++part) next = compile(*part, next);
      return next;
  }
}

uint32_t Automaton::repeat(const PatternTree& tree, uint32_t next) {
  const PatternTree& part = tree.parts[0];
  uint32_t begin = next;
  if (tree.most == PatternTree::kUnlimited) {
    const uint32_t loop = add({.split = true, .other = next});
    const uint32_t body = compile(part, loop);
    nodes_[loop].next = body == kNone ? next : body;
    begin = loop;
  }
  for (uint32_t i = tree.least; i < tree.most && tree.most != PatternTree::kUnlimited; ++i) {
    const uint32_t body = compile(part, begin);
    if (body != kNone) begin = add({.split = true, .next = body, .other = next});
  }
  for (uint32_t i = 0; i < tree.least; ++i) begin = compile(part, begin);
  return begin;
}

}  // namespace trl::text
