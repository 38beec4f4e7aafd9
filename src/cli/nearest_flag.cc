#include "cli/nearest_flag.h"

#include <algorithm>

namespace trl::cli {

namespace {

// Levenshtein's.
size_t distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t corner = row[0]++;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, corner + (a[i - 1] != b[j - 1])});
      corner = above;
    }
  }
  return row.back();
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
