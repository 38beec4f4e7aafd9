// Feeds the characters of a text to a parser that knows nothing of interrupts: polls once per kPiece
// characters, and so never in a short text.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>

#include "base/interrupt.h"

namespace trl::base {

// An input iterator that polls at the end of each piece, at which a parser compares it with the end anyway.
class PolledText {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  static PolledText begin(std::string_view text) { return {text.data(), first_piece(text)}; }
  static PolledText end(std::string_view text) { return {text.data() + text.size(), nullptr}; }
  const char& operator*() const { return *at_; }
  PolledText& operator++() {
    ++at_;
    return *this;
  }
  PolledText operator++(int) {
    const PolledText before = *this;
    ++at_;
    return before;
  }
  bool operator==(const PolledText& end) const { return at_ == end.at_; }
  bool operator!=(const PolledText& end) { return at_ != piece_end_ || next_piece(end.at_); }

 private:
  static constexpr std::ptrdiff_t kPiece = 1 << 18;
  PolledText(const char* at, const char* piece_end) : at_(at), piece_end_(piece_end) {}
  static const char* first_piece(std::string_view text) {
    return text.data() + std::min(kPiece, std::ssize(text));
  }
  bool next_piece(const char* end) {
    if (at_ == end) return false;
    poll();
    piece_end_ = at_ + std::min(kPiece, end - at_);
    return true;
  }
  const char* at_;
  const char* piece_end_;
};

}  // namespace trl::base
