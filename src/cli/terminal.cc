#include "cli/terminal.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <system_error>

#include "cli/handles.h"
#include "cli/progress.h"

namespace trl::cli {

namespace {

int g_error = 0;  // errno of the first failed write

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

int width_at(std::string_view text, size_t at) {
  return is_wide(code_point(text.substr(at, bytes_of(text[at])))) ? 2 : 1;
}

// Returns whether to colour; NO_COLOR: no-color.org
bool coloured() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace

int columns(int descriptor) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

int characters(std::string_view text) {
  int count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

int width_of(std::string_view text) {
  int width = 0;
  for (size_t at = 0; at < text.size(); at += bytes_of(text[at])) width += width_at(text, at);
  return width;
}

std::string_view fitting(std::string_view text, int width) {
  size_t end = 0;
  for (int used = 0; end < text.size(); end += bytes_of(text[end])) {
    used += width_at(text, end);
    if (used > width && end > 0) break;
  }
  return text.substr(0, end);
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

bool print(std::string_view text) {
  if (g_error != 0) return false;
  clear_line();
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return true;
  g_error = errno != 0 ? errno : EIO;
  return false;
}

int with_output(int code) {
  if (g_error == 0 || g_error == EPIPE || code != 0) return code;
  spdlog::error("stdout: {}", std::generic_category().message(g_error));
  return kFailed;
}

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

void print_token(const TokenLine& token) {
  constexpr const char *kTrained = "\033[32m", *kOther = "\033[2m", *kPiece = "\033[36m";
  static const bool colours = coloured();
  const bool trained = token.trained.value_or(false);
  const char* const colour = token.trained ? (trained ? kTrained : kOther) : kPiece;
  print(fmt::format("{}\t{}{}{}{}\t{}\n", token.id, colours ? colour : "",
                    token.trained ? (trained ? "trained\t" : "-\t") : "", nlohmann::json(token.piece).dump(),
                    colours ? "\033[0m" : "", nlohmann::json(token.text).dump()));
}

}  // namespace trl::cli
