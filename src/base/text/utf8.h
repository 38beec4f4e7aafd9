// UTF-8: validation and code points. Bytes are never replaced silently.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::base {

inline constexpr size_t kValid = static_cast<size_t>(-1);

size_t find_invalid_utf8(
    std::string_view text);  // offset of the first bad byte, or kValid (surrogates, overlong: bad)

// Decodes the code point at text[offset] and moves offset past it. text must be valid there.
char32_t next_code_point(std::string_view text, size_t& offset);
void append_utf8(std::string& out, char32_t code_point);
size_t count_code_points(std::string_view text);
std::string replace_invalid_utf8(
    std::string_view text);  // each maximal bad part becomes U+FFFD, as Rust and Python do

// Foreign text as one line for messages: the same, and control characters and line ends become spaces.
std::string one_line(std::string_view text);

}  // namespace trl::base
