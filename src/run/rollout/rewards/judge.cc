#include "run/rollout/rewards/judge.h"

#include <cmath>
#include <utility>

#include "base/error.h"

namespace trl::run {

namespace {

class Judge final : public reward::Reward {
 public:
  explicit Judge(std::unique_ptr<reward::Reward> function) : function_(std::move(function)) {}
  std::string_view name() const override { return function_->name(); }

  void begin(const reward::RewardBatch& batch, std::span<const size_t> rows) override {
    function_->begin({pairs_of(batch), batch.moment}, rows.first(rows.size() / 2));
  }
  void forget() override { function_->forget(); }
  bool late() override { return function_->late(); }
  reward::Rewards score(const reward::RewardBatch& batch) override {
    const size_t count = batch.completions.size() / 2;
    const reward::Rewards first = function_->score({pairs_of(batch), batch.moment});
    reward::Rewards out(2 * count, std::nan(""));
    for (size_t i = 0; i < count; ++i) {
      if (first[i] < 0 || first[i] > 1)
        fail(Status::callback,
             "the judge {} gave {} for pair {}: give the probability that the first completion is better, "
             "from 0 to 1, or NaN",
             name(), first[i], i);
      if (std::isnan(first[i]) || first[i] == 0.5) continue;
      out[i] = first[i] > 0.5 ? 1 : 0;
      out[count + i] = 1 - out[i];
    }
    return out;
  }
  std::vector<std::pair<std::string, double>> metrics() override { return function_->metrics(); }
  std::vector<std::pair<size_t, std::string>> failures() override { return function_->failures(); }
  // Values for a pair are those of both completions.
  reward::Columns extras() override {
    reward::Columns columns = function_->extras();
    for (auto& [name, column] : columns) {
      const std::vector<base::Json> first = column;
      column.insert(column.end(), first.begin(), first.end());
    }
    return columns;
  }

 private:
  // Returns the first completions, each with the second of its pair, of which there is one for each.
  static std::vector<reward::Completion> pairs_of(const reward::RewardBatch& batch) {
    const size_t count = batch.completions.size() / 2;
    std::vector<reward::Completion> pairs(batch.completions.begin(),
                                          batch.completions.begin() + static_cast<std::ptrdiff_t>(count));
    for (size_t i = 0; i < count; ++i) pairs[i].other = &batch.completions[count + i];
    return pairs;
  }

  const std::unique_ptr<reward::Reward> function_;
};

}  // namespace

std::unique_ptr<reward::Reward> judge_of_pairs(std::unique_ptr<reward::Reward> function) {
  return std::make_unique<Judge>(std::move(function));
}

}  // namespace trl::run
