#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace trl::cli {

int columns(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int characters(std::string_view text) {
  int count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

std::string wrapped(std::string_view text, int indent, int width, int used) {
  std::string out;
  bool begins = true;  // the line has no word yet
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    const int length = characters(word);
    if (!begins && used + 1 + length > width) {
      out += "\n" + std::string(static_cast<size_t>(indent), ' ');
      used = indent;
      begins = true;
    }
    if (!begins) out += ' ';
    out += word;
    used += length + !begins;
    begins = false;
  }
  return out;
}

std::string duration(double seconds) {
  const int64_t total = std::llround(seconds);
  if (total >= 3600) return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

std::string time_text(double seconds) {
  const int64_t total = std::llround(seconds);
  if (total < 1) return fmt::format("{:.2g} s", seconds);
  if (total < 60) return fmt::format("{} s", total);
  if (total < 3600 && total % 60 == 0) return fmt::format("{} min", total / 60);
  if (total < 3600) return fmt::format("{} min {} s", total / 60, total % 60);
  return fmt::format("{} h {:02} min", total / 3600, total / 60 % 60);
}

}  // namespace trl::cli
