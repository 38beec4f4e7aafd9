// Long texts, and texts of which parts are marked.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace trl::text {

inline std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

// The text with these parts of it between guillemets.
inline std::string marked(const std::string& text, const std::vector<std::pair<size_t, size_t>>& parts) {
  std::string out;
  size_t at = 0;
  for (const auto& [begin, end] : parts) {
    out += text.substr(at, begin - at) + "\xC2\xAB" + text.substr(begin, end - begin) + "\xC2\xBB";
    at = end;
  }
  return out + text.substr(at);
}

}  // namespace trl::text
