#include "text/constraint/token_constraint.h"

#include <algorithm>
#include <new>
#include <utility>

namespace trl::text {

namespace {

constexpr std::string_view kTooComplex =
    "the pattern is too complex: too many of its parts may follow this text; repeat less, or make "
    "alternatives "
    "begin differently";

std::vector<uint64_t> bits_of(const std::vector<int32_t>& ids, size_t vocabulary) {
  std::vector<uint64_t> words((vocabulary + 63) / 64);
  for (const int32_t id : ids) words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  return words;
}

}  // namespace

bool AllowedIds::contains(int32_t id) const {
  if (words.empty()) return std::ranges::binary_search(few, id);
  const auto word = static_cast<size_t>(id) / 64;
  return id >= 0 && word < words.size() && (words[word] >> (id % 64) & 1) != 0;
}

TokenConstraint::TokenConstraint(const PatternTree& tree, std::string_view key,
                                 std::shared_ptr<const TokenTrie> trie)
    : dfa_(Automaton(tree, key)), trie_(std::move(trie)) {
  stack_.resize(std::max(trie_->nodes(false).deepest, trie_->nodes(true).deepest) + 1);
}

Constraint::Place TokenConstraint::start() noexcept try {
  const std::lock_guard lock(mutex_);
  return dfa_.start(trie_->differs_first());
} catch (const std::bad_alloc&) {
  return nullptr;
}

std::shared_ptr<const AllowedIds> TokenConstraint::allowed(const Place& place, std::string_view& why) noexcept
    try {
  if (place == nullptr) {
    why = kNoMemory;
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  if (dfa_.bytes() > kMostBytes / 2) dfa_.clear();
  const std::shared_ptr<State> state = dfa_.current(state_of(place));
  if (state->allowed == nullptr) state->allowed = walk(*state, why);
  return state->allowed;
} catch (const std::bad_alloc&) {
  why = kNoMemory;
  return nullptr;
}

// null: there is too much to look at.
std::shared_ptr<const AllowedIds> TokenConstraint::walk(const State& state, std::string_view& why) {
  const TokenTrie::Nodes& nodes = trie_->nodes(state.first);
  const uint64_t most = dfa_.work() + kMostWork;
  std::vector<int32_t> ids;
  stack_[0] = state.number;
  for (size_t i = 0; i < nodes.byte.size();) {
    const size_t depth = nodes.depth[i];
    const uint32_t next = dfa_.next(stack_[depth - 1], nodes.byte[i]);
    if (next == LazyDfa::kDead) {
      i = nodes.after[i];
      continue;
    }
    if (dfa_.work() > most || dfa_.bytes() > kMostBytes) {
      why = kTooComplex;
      return nullptr;
    }
    stack_[depth] = next;
    ids.insert(ids.end(), nodes.ids.begin() + nodes.first[i], nodes.ids.begin() + nodes.first[i + 1]);
    ++i;
  }
  auto allowed = std::make_shared<AllowedIds>();
  allowed->end = state.matches;
  if (ids.size() > AllowedIds::kFew) {
    allowed->words = bits_of(ids, trie_->vocabulary());
  } else {
    std::ranges::sort(ids);
    allowed->few = std::move(ids);
  }
  dfa_.charge(sizeof(AllowedIds) + allowed->words.size() * 8 + allowed->few.size() * 4);
  return allowed;
}

Constraint::Place TokenConstraint::after(const Place& place, int32_t id) noexcept try {
  if (place == nullptr) return nullptr;
  const std::lock_guard lock(mutex_);
  const State& from = state_of(place);
  const std::string_view text = trie_->bytes(id, from.first);
  if (text.empty()) return nullptr;
  uint32_t state = dfa_.current(from)->number;
  for (const char byte : text) {
    state = dfa_.next(state, static_cast<uint8_t>(byte));
    if (state == LazyDfa::kDead) return nullptr;
  }
  return dfa_.at(state);
} catch (const std::bad_alloc&) {
  return nullptr;
}

// Only the end of a match is left.
bool TokenConstraint::is_over(const Place& place) noexcept {
  return place != nullptr && state_of(place).matches && state_of(place).items.size() == 1;
}

}  // namespace trl::text
