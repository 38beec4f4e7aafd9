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

struct TooComplex {};

AllowedIds allowed_ids(std::vector<int32_t> ids, size_t vocabulary, bool end) {
  AllowedIds allowed;
  allowed.end = end;
  if (ids.size() > AllowedIds::kFew) {
    allowed.words.resize((vocabulary + 63) / 64);
    for (const int32_t id : ids) allowed.words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  } else {
    std::ranges::sort(ids);
    allowed.few = std::move(ids);
  }
  return allowed;
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
  stack_.resize(trie_->deepest() + 1);
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
  if (state->allowed == nullptr) state->allowed = find_allowed(*state);
  return state->allowed;
} catch (const TooComplex&) {
  why = kTooComplex;
  return nullptr;
} catch (const std::bad_alloc&) {
  why = kNoMemory;
  return nullptr;
}

// Short texts are looked at once for all states that are alike, long ones for each.
std::shared_ptr<const AllowedIds> TokenConstraint::find_allowed(const State& state) {
  most_work_ = dfa_.work() + kMostWork;
  const std::shared_ptr<State> alike = dfa_.alike(state);
  if (alike->short_ids == nullptr)
    alike->short_ids = keep(allowed_ids(walk(*alike, false), trie_->vocabulary(), state.matches));
  const std::vector<int32_t> longer = walk(state, true);
  if (longer.empty()) return alike->short_ids;
  AllowedIds all = *alike->short_ids;
  if (all.words.empty()) {
    all.few.insert(all.few.end(), longer.begin(), longer.end());
    return keep(allowed_ids(std::move(all.few), trie_->vocabulary(), all.end));
  }
  for (const int32_t id : longer) all.words[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  return keep(std::move(all));
}

std::vector<int32_t> TokenConstraint::walk(const State& state, bool longer) {
  const TokenTrie::Nodes& nodes = trie_->nodes(state.first, longer);
  std::vector<int32_t> ids;
  stack_[0] = state.number;
  for (size_t i = 0; i < nodes.byte.size();) {
    const size_t depth = nodes.depth[i];
    const uint32_t next = dfa_.next(stack_[depth - 1], nodes.byte[i]);
    if (next == LazyDfa::kDead) {
      i = nodes.after[i];
      continue;
    }
    if (dfa_.work() > most_work_ || dfa_.bytes() > kMostBytes) throw TooComplex();
    stack_[depth] = next;
    ids.insert(ids.end(), nodes.ids.begin() + nodes.first[i], nodes.ids.begin() + nodes.first[i + 1]);
    ++i;
  }
  return ids;
}

std::shared_ptr<const AllowedIds> TokenConstraint::keep(AllowedIds allowed) {
  dfa_.charge(sizeof(AllowedIds) + allowed.words.size() * 8 + allowed.few.size() * 4);
  return std::make_shared<const AllowedIds>(std::move(allowed));
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
