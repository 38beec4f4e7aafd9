// The width of the output.
#pragma once
#include <string>
#include <string_view>

namespace trl::cli {

// Returns the columns of the terminal behind a file descriptor, asked again at each call; 80 if it is not a
// terminal.
int columns(int descriptor);

// Wraps text into lines of at most width characters, each after indent spaces except the first, which
// continues after `used` characters of its line. Words are not divided; no line break at the end.
std::string wrapped(std::string_view text, int indent, int width, int used);
inline std::string wrapped(std::string_view text, int indent, int width) {
  return std::string(static_cast<size_t>(indent), ' ') + wrapped(text, indent, width, indent);
}

int characters(std::string_view text);  // in UTF-8 text

std::string duration(double seconds);   // "2:03:04", "3:04"
std::string time_text(double seconds);  // "2 h 03 min", "14 min 20 s", "4 s"

}  // namespace trl::cli
