// A batch of completions and the rewards that score it.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace trl::reward {

// Views that live as long as the call that is given them.
struct Completion {
  std::string_view text = {};            // without special tokens; any bytes
  const base::Json* messages = nullptr;  // of a conversation: a list of {"role", "content"}; null: plain text
  std::span<const int32_t> ids = {};     // of its tokens, up to the first end token
  const base::Json* prompt = nullptr;    // a string, or a list of messages
  const base::Json* columns = nullptr;   // the other columns of the prompt's row, as an object
};

struct RewardBatch {
  std::span<const Completion> completions = {};
  int64_t step = 0;  // global_step of the trainer
};

// One for each completion; NaN: none, which TRL calls None. Such a completion is not scored.
using Rewards = std::vector<double>;

// Counts since the reward was made; for a warning.
struct Unread {
  int64_t solutions = 0;  // no answer in them, or one that cannot be read
  int64_t completions =
      0;  // an answer that cannot be read: it counts as correct only if it has the solution's text
};

// exclusive: one call at a time.
class Reward {
 public:
  virtual ~Reward() = default;
  // The name of its metrics, rewards/NAME/mean: __name__ of TRL's function.
  virtual std::string_view name() const = 0;
  // Throws Error that names the completion (from 0) and the column for a row that cannot be scored.
  virtual Rewards score(const RewardBatch& batch) = 0;
  virtual Unread unread() const { return {}; }
};

}  // namespace trl::reward
