#include "text/constraint/lazy_dfa.h"

#include <algorithm>

namespace trl::text {

namespace {

constexpr int kPlaceBits = 16;

LazyDfa::Item item_at(uint32_t node, uint16_t place) { return uint64_t{node} << kPlaceBits | place; }

uint64_t hash_of(const std::vector<LazyDfa::Item>& items, bool first) {
  uint64_t hash = first ? 0x9E3779B97F4A7C15u : 0xCBF29CE484222325u;
  for (const LazyDfa::Item item : items) {
    hash = (hash ^ item) * 0x9FB21C651E98DF25u;
    hash ^= hash >> 32;
  }
  return hash;
}

}  // namespace

LazyDfa::LazyDfa(Automaton automaton) : automaton_(std::move(automaton)), seen_(Automaton::kMostNodes * 2) {
  clear();
}

void LazyDfa::clear() {
  states_.assign(2, nullptr);  // kUnknown and kDead
  numbers_.clear();
  ++table_;
  bytes_ = 0;
}

// Adds the items of a node, and of all that are reached from it without a byte.
void LazyDfa::enter(uint32_t node) {
  open_.assign(1, node);  // nothing is left of a call that ran out of memory
  while (!open_.empty()) {
    const uint32_t here = open_.back();
    open_.pop_back();
    if (seen_[here] == mark_) continue;
    seen_[here] = mark_;
    ++work_;
    const Automaton::Node& one = automaton_.node(here);
    if (!one.split) {
      found_.push_back(item_at(here, 0));
      continue;
    }
    open_.push_back(one.other);
    open_.push_back(one.next);
  }
}

uint32_t LazyDfa::find_or_add(std::vector<Item> items, bool first) {
  const uint64_t hash = hash_of(items, first);
  const auto [begin, end] = numbers_.equal_range(hash);
  for (auto one = begin; one != end; ++one) {
    const State& state = *states_[one->second];
    if (state.first == first && state.items == items) return one->second;
  }
  const auto made = std::make_shared<State>();
  made->matches = std::ranges::binary_search(items, item_at(Automaton::kMatch, 0));
  made->items = std::move(items);
  made->first = first;
  made->table = table_;
  made->number = static_cast<uint32_t>(states_.size());
  states_.push_back(made);
  numbers_.emplace(hash, made->number);  // after it is there: either may run out of memory
  bytes_ += sizeof(State) + made->items.size() * sizeof(Item) + 64;
  work_ += 64;
  return made->number;
}

std::shared_ptr<LazyDfa::State> LazyDfa::start(bool first) {
  ++mark_;
  found_.clear();
  enter(automaton_.start());
  std::ranges::sort(found_);
  return states_[find_or_add(found_, first)];
}

std::shared_ptr<LazyDfa::State> LazyDfa::current(const State& state) {
  return states_[state.table == table_ ? state.number : find_or_add(state.items, state.first)];
}

std::shared_ptr<LazyDfa::State> LazyDfa::alike(const State& state) {
  std::vector<Item> items = state.items;
  for (Item& item : items)
    item = item_at(automaton_.alike(static_cast<uint32_t>(item >> kPlaceBits)), static_cast<uint16_t>(item));
  std::ranges::sort(items);
  items.erase(std::ranges::unique(items).begin(), items.end());
  return states_[find_or_add(std::move(items), state.first)];
}

uint32_t LazyDfa::compute(uint32_t number, uint8_t byte) {
  const std::shared_ptr<State> state = states_[number];
  ++mark_;
  found_.clear();
  work_ += state->items.size();
  for (const Item item : state->items) {
    const auto node = static_cast<uint32_t>(item >> kPlaceBits);
    if (node == Automaton::kMatch) continue;
    const Automaton::Node& one = automaton_.node(node);
    const uint16_t place = automaton_.set(one.set).next(static_cast<uint16_t>(item), byte);
    if (place == ByteSteps::kDone)
      enter(one.next);
    else if (place != ByteSteps::kNone)
      found_.push_back(item_at(node, place));
  }
  std::ranges::sort(found_);
  const uint32_t next = found_.empty() ? kDead : find_or_add(found_, false);
  state->next[byte] = next;
  return next;
}

}  // namespace trl::text
