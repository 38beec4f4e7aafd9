// A pattern as an automaton over bytes with several places at once (Thompson 1968).
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "text/constraint/byte_steps.h"
#include "text/constraint/pattern_tree.h"

namespace trl::text {

class Automaton {
 public:
  static constexpr uint32_t kMostNodes = 50000;
  static constexpr size_t kMostPlaces = 32768;  // within characters, of all sets: 16 MB
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kMatch = 0;  // the node where a match ends
  static constexpr uint32_t kAlikeBytes = 16;

  // split: continues at both nodes without a byte. characters: a character of the set, then `next`.
  struct Node {
    bool split = false;
    uint32_t next = kNone, other = kNone;
    uint32_t set = 0;
  };

  // From every node a match can be reached. Throws Error(invalid_config) of the key for a pattern that is too
  // large, or that no text matches.
  Automaton(const PatternTree& tree, std::string_view key);
  uint32_t start() const { return start_; }
  const Node& node(uint32_t i) const { return nodes_[i]; }
  // A node from which the same texts of at most kAlikeBytes can go on: of the copies of a part that is
  // repeated often, all but the last are alike.
  uint32_t alike(uint32_t i) const { return alike_[i]; }
  const ByteSteps& set(uint32_t i) const { return sets_[i]; }

 private:
  uint32_t add(const Node& node);
  uint32_t compile(const PatternTree& tree, uint32_t next);
  struct Copies;
  uint32_t either(uint32_t a, uint32_t b);
  uint32_t repeat(const PatternTree& tree, uint32_t next);
  uint32_t separated(const PatternTree& tree, uint32_t next);
  uint32_t series(const PatternTree& tree, uint32_t next);
  uint32_t number_of(const std::shared_ptr<const CharacterSet>& set);
  void count_step();

  std::string_view key_;  // while it is made
  uint32_t steps_ = 0;
  std::map<const CharacterSet*, uint32_t> known_;  // the numbers of sets that trees share
  std::map<CharacterSet, uint32_t> numbers_;
  size_t places_ = 0;
  std::vector<Node> nodes_;
  std::vector<uint32_t> alike_;  // by node
  std::vector<ByteSteps> sets_;
  uint32_t start_;
};

}  // namespace trl::text
