#include "base/text/nearest.h"

#include <algorithm>
#include <vector>

namespace trl::base {

namespace {
// Optimal string alignment distance: insert, delete, replace, swap of neighbours cost 1 each.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}
}  // namespace

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates, size_t limit) {
  std::string_view best;
  for (const std::string_view candidate : candidates) {
    const size_t d = distance(name, candidate);
    if (d >= limit) continue;
    best = candidate;
    limit = d;
  }
  return best;
}

std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates) {
  return nearest(name, candidates, std::min(std::max<size_t>(2, name.size() / 3) + 1, name.size()));
}

std::string join(std::span<const std::string_view> names, std::string_view separator) {
  std::string text;
  for (const std::string_view name : names) {
    if (!text.empty()) text += separator;
    text += name;
  }
  return text;
}

}  // namespace trl::base
