// A regular expression as a tree, which the parsers of patterns and of JSON schemas make, and the automaton
// reads.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "text/constraint/character_set.h"

namespace trl::text {

struct PatternTree {
  // sequence: of its parts; without any, the empty text. choice: one of them. repeat: of the first part; a
  // second one is between two of these. series: the parts after the first one, which is between them;
  // those that are a repeat from 0 to 1 may be missing. begin, end: anchors, which only a parser's own tree
  // has.
  enum class Kind : uint8_t { characters, sequence, choice, repeat, series, begin, end };
  static constexpr uint32_t kUnlimited = UINT32_MAX;

  Kind kind = Kind::sequence;
  std::shared_ptr<const CharacterSet> characters = nullptr;  // which several trees may have
  std::vector<PatternTree> parts = {};
  uint32_t least = 0, most = 0;  // of a repeat

  static PatternTree of(CharacterSet set) {
    return shared(std::make_shared<const CharacterSet>(std::move(set)));
  }
  static PatternTree shared(std::shared_ptr<const CharacterSet> set) {
    return {.kind = Kind::characters, .characters = std::move(set)};
  }
  static PatternTree literal(std::string_view text);  // valid UTF-8
  static PatternTree sequence(std::vector<PatternTree> parts);
  static PatternTree choice(std::vector<PatternTree> parts);
  static PatternTree repeat(PatternTree part, uint32_t least, uint32_t most);
  static PatternTree maybe(PatternTree part) { return repeat(std::move(part), 0, 1); }
  static PatternTree separated(PatternTree part, PatternTree mark, uint32_t least,
                               uint32_t most);  // least > 0
  static PatternTree series(PatternTree mark, std::vector<PatternTree> parts);
};

}  // namespace trl::text
