#include "cli/word_wrap.h"

#include <cstdint>

namespace trl::cli {

namespace {

size_t bytes_of(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0xC0 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

uint32_t code_point(std::string_view character) {
  if (character.size() == 1) return static_cast<unsigned char>(character[0]);
  uint32_t code = static_cast<unsigned char>(character[0]) & (0xFFu >> (character.size() + 1));
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3Fu);
  return code;
}

// Returns whether code is an East Asian character or a picture: two columns, and a line may end on either
// side.
bool is_wide(uint32_t code) {
  return (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
         (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
         (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
         (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x1F300 && code <= 0x1FAFF) ||
         (code >= 0x20000 && code <= 0x3FFFD);
}

}  // namespace

// Writes the word that was held back, on a new line if it does not fit on this one.
void WordWrap::place(int width, std::string& out) {
  if (word_.empty()) return;
  if (used_ > 0 && used_ + spaces_ + length_ > width) {
    out += '\n';
    used_ = spaces_ = 0;
  }
  out += std::string(static_cast<size_t>(spaces_), ' ') + word_;
  used_ += spaces_ + length_;
  if (used_ > width) used_ = (used_ - 1) % width + 1;  // the terminal broke the line
  word_.clear();
  length_ = spaces_ = 0;
}

std::string WordWrap::add(std::string_view text, int width) {
  if (width <= 0) return std::string(text);
  width_ = width;
  std::string out;
  while (!text.empty()) {
    const std::string_view character = text.substr(0, bytes_of(text[0]));
    text.remove_prefix(character.size());
    const bool wide = is_wide(code_point(character));
    if (wide || character == " " || character == "\n") place(width, out);
    if (character == "\n") {
      out += '\n';
      used_ = spaces_ = 0;
    } else if (character == " ") {
      ++spaces_;
    } else {
      word_ += character;
      length_ += wide ? 2 : 1;
      if (wide || length_ >= width) place(width, out);
    }
  }
  return out;
}

std::string WordWrap::rest() {
  std::string out;
  place(width_, out);
  return out;
}

}  // namespace trl::cli
