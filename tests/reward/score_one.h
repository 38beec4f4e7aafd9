// The score of a single completion.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "reward/batch.h"
#include "reward/named_reward.h"

namespace trl::test {

inline double score_text(reward::Reward& reward, std::string_view text,
                         const base::Json& columns = base::Json::object()) {
  const reward::Completion completion{.text = text, .columns = &columns};
  return reward.score({{&completion, 1}}).at(0);
}

inline double score_ids(reward::Reward& reward, const std::vector<int32_t>& ids) {
  const reward::Completion completion{.ids = ids};
  return reward.score({{&completion, 1}}).at(0);
}

// Of accuracy_reward.
inline double accuracy(std::string_view solution, std::string_view text) {
  return score_text(*reward::named_reward("accuracy_reward"), text, {{"solution", solution}});
}

}  // namespace trl::test
