// UTF-8: validation and code points. Bytes are never replaced silently.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace trl::base {

inline constexpr size_t kValid = static_cast<size_t>(-1);

// Returns the offset of the first bad byte, or kValid. Surrogates and overlong forms are bad.
size_t find_invalid_utf8(std::string_view text);

// Decodes the code point at text[offset] and moves offset past it. text must be valid there.
char32_t next_code_point(std::string_view text, size_t& offset);
void append_utf8(std::string& out, char32_t code_point);
size_t count_code_points(std::string_view text);
// Replaces each maximal bad part with U+FFFD, as Rust and Python do.
std::string replace_invalid_utf8(std::string_view text);

// Makes foreign text one line for messages: replaces bad parts likewise and turns control characters and line
// ends into spaces.
std::string one_line(std::string_view text);

}  // namespace trl::base
