#include "cli/nearest_flag.h"

#include <algorithm>

namespace trl::cli {

namespace {

// How many letters are missing, added, others or instead of their neighbour.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j < last.size(); ++j) last[j] = j;
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
  return last.back();
}

}  // namespace

std::string nearest_flag(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  size_t least = std::min<size_t>(3, (word.size() + 1) / 2);
  for (const std::string& name : names) {
    const size_t d = distance(word, name);
    if (d >= least) continue;
    least = d;
    best = name;
  }
  return best;
}

}  // namespace trl::cli
