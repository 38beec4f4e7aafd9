// An automaton with one state at a time, whose states are made when a text first leads to them.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/constraint/automaton.h"
#include "text/constraint/constraint.h"

namespace trl::text {

// exclusive.
class LazyDfa {
 public:
  // A place of the pattern: a node, and how far its character is read.
  using Item = uint64_t;
  struct State {
    std::vector<Item> items;  // ascending
    bool first = false;       // no text yet, which some tokenizers write otherwise
    bool matches = false;
    uint64_t table = 0;  // that its number and `next` are of
    uint32_t number = 0;
    std::array<uint32_t, 256> next = {};  // kUnknown: not computed yet
    std::shared_ptr<const AllowedIds> allowed = nullptr;
    std::shared_ptr<const AllowedIds> short_ids = nullptr;  // of texts of at most Automaton::kAlikeBytes
  };
  static constexpr uint32_t kUnknown = 0, kDead = 1;

  explicit LazyDfa(Automaton automaton);

  std::shared_ptr<State> start(bool first);
  // Returns the state with the same items in the table as it is now: the table may have been cleared.
  std::shared_ptr<State> current(const State& state);
  // Returns the state from which the same texts of at most Automaton::kAlikeBytes can go on, for all such
  // states the same one as far as it shows.
  std::shared_ptr<State> alike(const State& state);
  uint32_t next(uint32_t state, uint8_t byte) {
    const uint32_t known = states_[state]->next[byte];
    return known != kUnknown ? known : compute(state, byte);
  }
  const std::shared_ptr<State>& at(uint32_t number) const { return states_[number]; }
  // Counts what belongs to a state, too.
  void charge(size_t bytes) { bytes_ += bytes; }
  size_t bytes() const { return bytes_; }
  uint64_t work() const { return work_; }  // places that were looked at
  void clear();

 private:
  uint32_t compute(uint32_t state, uint8_t byte);
  void enter(uint32_t node);
  uint32_t find_or_add(std::vector<Item> items, bool first);

  const Automaton automaton_;
  std::vector<std::shared_ptr<State>> states_;
  std::unordered_multimap<uint64_t, uint32_t> numbers_;  // by hash
  uint64_t table_ = 1;
  size_t bytes_ = 0;
  uint64_t work_ = 0;
  // While a step is computed.
  std::vector<uint32_t> seen_, open_;
  uint32_t mark_ = 0;
  std::vector<Item> found_;
};

}  // namespace trl::text
