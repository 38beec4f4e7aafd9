#include "config/warnings.h"

#include <algorithm>

#include "config/option.h"

namespace trl::config {

std::vector<std::string> by_reason(const std::vector<std::string>& warnings) {
  struct Line {
    std::string keys, reason;
  };
  std::vector<Line> lines;
  for (const std::string& warning : warnings) {
    const size_t colon = std::min(warning.find(": "), warning.size());
    if (colon == warning.size() || find_option(warning.substr(0, colon)) == nullptr) {
      lines.push_back({"", warning});  // from a file, with its place
      continue;
    }
    const std::string key = warning.substr(0, colon), reason = warning.substr(colon + 2);
    const auto same = std::find_if(lines.begin(), lines.end(), [&](const Line& line) {
      return !line.keys.empty() && line.reason == reason;
    });
    if (same == lines.end())
      lines.push_back({key, reason});
    else
      same->keys += ", " + key;
  }
  std::vector<std::string> out;
  for (const Line& line : lines)
    out.push_back(line.keys.empty() ? line.reason : line.keys + ": " + line.reason);
  return out;
}

}  // namespace trl::config
