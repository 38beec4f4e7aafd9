#include "reward/math/boxed.h"

#include <algorithm>
#include <vector>

#include "reward/math/characters.h"

namespace trl::reward::math {

namespace {

constexpr size_t kNearBox = 10, kJoinedBox = 70;  // characters between two boxes
constexpr size_t kMaxBoxes = 64;                  // that are looked at

bool has_separator(std::string_view between) {
  if (between.find_first_of(",;") != kNone) return true;
  for (size_t at = 0; at < between.size();) {
    const std::string_view word = letters_at(between, at);
    if (word == "and" || word == "or") return true;
    at += std::max<size_t>(word.size(), 1);
  }
  return false;
}

bool belongs(std::string_view between, bool other_content) {
  const auto length = static_cast<size_t>(
      std::ranges::count_if(between, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  return length < kNearBox || (other_content && length < kJoinedBox && has_separator(between));
}

// Returns the place after the brace that closes the one at `open`, at most `limit`; npos: none.
size_t closing(std::string_view text, size_t open, size_t limit) {
  int depth = 0;
  for (size_t at = open; at < limit; ++at) {
    depth += text[at] == '{' ? 1 : text[at] == '}' ? -1 : 0;
    if (depth == 0) return at;
  }
  return kNone;
}

std::string collect(std::string_view text, bool all) {
  std::vector<std::string_view> found;  // from right to left
  size_t limit = text.size();           // the last box begins here
  for (size_t boxes = 0; boxes < kMaxBoxes; ++boxes) {
    const size_t boxed = limit == 0 ? kNone : text.rfind("\\boxed", limit - 1);
    const size_t framed = limit == 0 ? kNone : text.rfind("\\fbox", limit - 1);
    if (boxed == kNone && framed == kNone) break;
    const bool is_boxed = framed == kNone || (boxed != kNone && boxed > framed);
    const size_t begin = is_boxed ? boxed : framed;
    size_t open = begin + (is_boxed ? 6 : 5);
    while (open < limit && is_space(text[open])) ++open;
    if (open >= limit) break;
    const size_t end = text[open] == '{' ? closing(text, open, limit) : kNone;
    if (end == kNone) {  // without braces, or not closed: all that follows
      if (found.empty()) found.push_back(text.substr(open));
      break;
    }
    const std::string_view content = trimmed(text.substr(open + 1, end - open - 1));
    const bool repeated = !found.empty() && found.back() == content;
    if (!all && limit < text.size() && !belongs(text.substr(end + 1, limit - end - 1), !repeated)) break;
    if (!repeated) found.push_back(content);
    limit = begin;
  }
  if (found.empty()) return std::string(text);
  std::string out;
  for (size_t i = found.size(); i-- > 0;) out.append(found[i]).append(i > 0 ? "," : "");
  return out;
}

}  // namespace

std::string boxed_contents(std::string_view text) { return collect(text, true); }

std::string last_boxed(std::string_view text) { return collect(text, false); }

}  // namespace trl::reward::math
