// A batch of completions and the rewards that score it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"

namespace trl::reward {

// Views, which live as long as the call that gets them.
struct Completion {
  std::string_view text = {};            // without special tokens; any bytes
  const base::Json* messages = nullptr;  // of a conversation: a list of {"role", "content"}; null: plain text
  std::span<const int32_t> ids = {};     // of its tokens, up to the first end token
  std::span<const int32_t> prompt_ids = {};
  int64_t row = 0;                      // of the prompt, in the dataset
  const base::Json* prompt = nullptr;   // a string, or a list of messages
  const base::Json* columns = nullptr;  // the other columns of the prompt's row, as an object
  const Completion* other = nullptr;    // the second completion of a pair that is judged
};

// When completions are scored.
struct Moment {
  std::string_view mode = "train";  // or eval
  int64_t step = 0;                 // updates done before
};

struct RewardBatch {
  std::span<const Completion> completions = {};
  Moment moment = {};
};

// One number for each completion. NaN is TRL's None: the reward does not score this completion.
using Rewards = std::vector<double>;

// Values for each completion that a record of them shows, by name; null: none.
using Columns = std::map<std::string, std::vector<base::Json>>;

// Counts since the reward was made, for a warning.
struct Unread {
  // Solutions without an answer, or with one that cannot be read.
  int64_t solutions = 0;
  // Completions with an answer that cannot be read: it counts as correct only if the solution has the same
  // text.
  int64_t completions = 0;
};

// exclusive: one call at a time.
class Reward {
 public:
  virtual ~Reward() = default;
  // The name of its metrics, rewards/NAME/mean: __name__ of TRL's function.
  virtual std::string_view name() const = 0;
  // Asks for the rewards of these rows of a generation, if that may be done before score(), which then gives
  // them with those of all rows.
  virtual void begin(const RewardBatch&, std::span<const size_t> /*rows*/) {}
  virtual void forget() {}               // what was begun: there will be other completions
  virtual bool late() { return false; }  // whether rewards that were asked for are still to come
  // Throws Error that names the completion (from 0) and the column for a row that cannot be scored.
  virtual Rewards score(const RewardBatch& batch) = 0;
  virtual Unread unread() const { return {}; }
  // Gives metrics of the last batch, once.
  virtual std::vector<std::pair<std::string, double>> metrics() { return {}; }
  virtual Columns extras() { return {}; }  // likewise
  // Likewise gives the rows of the last batch that could not be scored, with the reasons; their rewards are
  // NaN.
  virtual std::vector<std::pair<size_t, std::string>> failures() { return {}; }
};

}  // namespace trl::reward
