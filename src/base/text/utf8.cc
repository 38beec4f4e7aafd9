#include "base/text/utf8.h"

#include <algorithm>
#include <cstring>

namespace trl::base {

namespace {
struct Step {
  size_t length;  // bytes of a valid sequence, or of the maximal bad part
  bool valid;
};

// Reads well-formed sequences by the table of the Unicode standard (table 3-7); a bad part ends before the
// first byte that could not continue it.
Step step(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {1, true};
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {1, false};
  }
  for (size_t i = 1; i < length; ++i) {
    if (at + i >= text.size() || byte(at + i) < low || byte(at + i) > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}
}  // namespace

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    uint64_t word = 0;  // eight bytes of ASCII at once
    if (at + sizeof word <= text.size()) {
      std::memcpy(&word, text.data() + at, sizeof word);
      if ((word & 0x8080808080808080u) == 0) {
        at += sizeof word;
        continue;
      }
    }
    const Step s = step(text, at);
    if (!s.valid) return at;
    at += s.length;
  }
  return kValid;
}

char32_t next_code_point(std::string_view text, size_t& offset) {
  const auto lead = static_cast<unsigned char>(text[offset++]);
  if (lead < 0x80) return lead;
  const int more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
  char32_t value = lead & (0x3F >> more);
  for (int i = 0; i < more && offset < text.size(); ++i)
    value = (value << 6) | (static_cast<unsigned char>(text[offset++]) & 0x3F);
  return value;
}

void append_utf8(std::string& out, char32_t c) {
  const auto push = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    push(c);
  } else if (c < 0x800) {
    push(0xC0 | (c >> 6));
    push(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    push(0xE0 | (c >> 12));
    push(0x80 | ((c >> 6) & 0x3F));
    push(0x80 | (c & 0x3F));
  } else {
    push(0xF0 | (c >> 18));
    push(0x80 | ((c >> 12) & 0x3F));
    push(0x80 | ((c >> 6) & 0x3F));
    push(0x80 | (c & 0x3F));
  }
}

size_t count_code_points(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Step s = step(text, at);
    if (s.valid)
      out.append(text.substr(at, s.length));
    else
      out.append("\xEF\xBF\xBD");
    at += s.length;
  }
  return out;
}

std::string one_line(std::string_view text) {
  const std::string valid = replace_invalid_utf8(text);
  std::string out;
  for (size_t at = 0; at < valid.size();) {
    const char32_t c = next_code_point(valid, at);
    const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x2028 || c == 0x2029;
    append_utf8(out, control ? U' ' : c);
  }
  return out;
}

}  // namespace trl::base
