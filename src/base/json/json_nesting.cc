// See json_nesting.h. Strings are searched, not walked byte by byte.
#include "base/json/json_nesting.h"

#include <cstdint>
#include <cstring>

namespace trl::base {

namespace {

// Returns nonzero if one of the eight bytes is this one.
uint64_t has_byte(uint64_t word, char byte) {
  constexpr uint64_t kOnes = 0x0101010101010101u;
  const uint64_t zero = word ^ (kOnes * static_cast<unsigned char>(byte));
  return (zero - kOnes) & ~zero & (kOnes << 7);
}

// Returns the first quote, backslash or line break from `at` on: the characters that matter inside a string.
size_t string_event(std::string_view text, size_t at) {
  for (; at + sizeof(uint64_t) <= text.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((has_byte(word, '"') | has_byte(word, '\\') | has_byte(word, '\n')) != 0) break;
  }
  while (at < text.size() && text[at] != '"' && text[at] != '\\' && text[at] != '\n') ++at;
  return at;
}

}  // namespace

size_t JsonNesting::next_event(std::string_view text, size_t at) const {
  return in_string && !escaped ? string_event(text, at) : at;
}

size_t find_deeper(std::string_view json, int limit) {
  JsonNesting nesting;
  for (size_t at = 0; (at = nesting.next_event(json, at)) < json.size(); ++at) {
    nesting.feed(json[at]);
    if (nesting.depth > limit) return at;
  }
  return std::string_view::npos;
}

}  // namespace trl::base
