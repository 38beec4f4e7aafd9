#include "text/tokenizer/score_merges.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <unordered_set>

#include "base/text/utf8.h"

namespace trl::text {

namespace {
struct Merge {
  float score;
  size_t left;  // characters
  size_t right;
  size_t token;
  size_t cut;  // position in bytes
};
}  // namespace

std::vector<std::pair<std::string_view, std::string_view>> merges_of_scores(
    const std::vector<std::string>& tokens, const std::vector<float>& scores) {
  const std::unordered_set<std::string_view> known(tokens.begin(), tokens.end());
  std::vector<Merge> merges;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const std::string_view token = tokens[i];
    const size_t length = base::count_code_points(token);
    size_t left = 0;
    for (size_t cut = 0; left + 1 < length;) {
      base::next_code_point(token, cut);
      ++left;
      if (known.contains(token.substr(0, cut)) && known.contains(token.substr(cut)))
        merges.push_back({scores[i], left, length - left, i, cut});
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tie(a.score, a.left, a.right) > std::tie(b.score, b.left, b.right);
  });
  std::vector<std::pair<std::string_view, std::string_view>> pairs;
  pairs.reserve(merges.size());
  for (const Merge& merge : merges) {
    const std::string_view token = tokens[merge.token];
    pairs.emplace_back(token.substr(0, merge.cut), token.substr(merge.cut));
  }
  return pairs;
}

}  // namespace trl::text
