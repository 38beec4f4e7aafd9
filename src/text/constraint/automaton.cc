#include "text/constraint/automaton.h"

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"

namespace trl::text {

Automaton::Automaton(const PatternTree& tree, std::string_view key) : key_(key) {
  add({});
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
  const auto number = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back(node);
  alike_.push_back(number);
  return number;
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

// Returns the first node of a text of the tree that continues at `next`; kNone: there is no such text.
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
      for (auto part = tree.parts.rbegin(); part != tree.parts.rend(); ++part)
        all = either(compile(*part, next), all);
      return all;
    }
    case PatternTree::Kind::repeat:
      return tree.parts.size() > 1 ? separated(tree, next) : repeat(tree, next);
    case PatternTree::Kind::series:
      return series(tree, next);
    default:
      for (auto part = tree.parts.rbegin(); part != tree.parts.rend(); ++part) next = compile(*part, next);
      return next;
  }
}

// Returns a node from which a text continues at one of both.
uint32_t Automaton::either(uint32_t a, uint32_t b) {
  if (a == kNone || b == kNone) return a == kNone ? b : a;
  return add({.split = true, .next = a, .other = b});
}

// The copies of a part, which are made from the last one of a text to the first: a text of at most
// kAlikeBytes does not get through as many of them.
struct Automaton::Copies {
  Automaton& of;
  size_t count = 0, model = 0;

  template <class Make>
  uint32_t add(const Make& make) {
    const size_t begin = of.nodes_.size();
    const uint32_t made = make();
    if (++count == kAlikeBytes + 1) model = begin;
    if (count > kAlikeBytes + 1)
      for (size_t i = begin; i < of.nodes_.size(); ++i) of.alike_[i] = of.alike_[model + i - begin];
    return made;
  }
};

uint32_t Automaton::repeat(const PatternTree& tree, uint32_t next) {
  const PatternTree& part = tree.parts[0];
  uint32_t begin = next;
  if (tree.most == PatternTree::kUnlimited) {
    const uint32_t loop = add({.split = true, .other = next});
    const uint32_t body = compile(part, loop);
    nodes_[loop].next = body == kNone ? next : body;
    begin = loop;
  }
  Copies optional{*this}, needed{*this};
  for (uint32_t i = tree.least; i < tree.most && tree.most != PatternTree::kUnlimited; ++i)
    begin = optional.add([&] { return either(compile(part, begin), next); });
  for (uint32_t i = 0; i < tree.least; ++i) begin = needed.add([&] { return compile(part, begin); });
  return begin;
}

// Compiles a part that is repeated without end only once.
uint32_t Automaton::separated(const PatternTree& tree, uint32_t next) {
  const PatternTree &part = tree.parts[0], &mark = tree.parts[1];
  const bool endless = tree.most == PatternTree::kUnlimited;
  const uint32_t copies = endless ? tree.least : tree.most;
  uint32_t after = endless ? add({.split = true, .other = next}) : next;
  uint32_t begin = compile(part, after);
  if (endless) {
    const uint32_t again = compile(mark, begin);
    nodes_[after].next = again == kNone ? next : again;
  }
  Copies optional{*this}, needed{*this};
  for (uint32_t i = copies; i > 1; --i) {  // part number i begins there
    const bool ends = i > tree.least;
    begin = (ends ? optional : needed).add([&] {
      const uint32_t more = compile(mark, begin);
      return compile(part, ends ? either(more, next) : more);
    });
  }
  return begin;
}

uint32_t Automaton::series(const PatternTree& tree, uint32_t next) {
  uint32_t alone = next, behind = next;  // where a text continues before and after a first part
  for (size_t i = tree.parts.size(); i-- > 1;) {
    const PatternTree& part = tree.parts[i];
    const bool may_miss = part.kind == PatternTree::Kind::repeat && part.least == 0 && part.most == 1;
    const uint32_t here = compile(may_miss ? part.parts[0] : part, behind),
                   more = compile(tree.parts[0], here);
    alone = may_miss ? either(here, alone) : here;
    behind = may_miss ? either(more, behind) : more;
  }
  return alone;
}

}  // namespace trl::text
