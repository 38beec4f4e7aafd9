#include "run/rollout/prompt_order.h"

#include <algorithm>

#include "base/arithmetic/divide.h"

namespace trl::run {

namespace {

class Repeated final : public PromptOrder {
 public:
  Repeated(const data::RepeatOptions& options, int64_t most, bool drop_last)
      : options_(options), most_(most), drop_last_(drop_last) {}

  void set_rows(int64_t rows) override {
    options_.rows = rows;
    order_ = std::make_unique<data::RepeatOrder>(options_);
  }
  int64_t generations() override { return drop_last_ ? once() / most_ : base::divide_up(once(), most_); }
  int64_t completions(int64_t generations) override { return std::min(generations * most_, once()); }
  void start_epoch(int64_t epoch) override { order_->start_epoch(epoch); }
  std::vector<int64_t> generation(int64_t number) override {
    if (number >= generations()) return {};
    const int64_t begin = number * most_ * options_.repeat_count;
    const int64_t end = std::min(begin + most_, order_->size());
    std::vector<int64_t> rows;
    for (int64_t at = begin; at < end; ++at) rows.push_back((*order_)[at]);
    return rows;
  }

 private:
  int64_t once() const { return order_->size() / options_.repeat_count; }

  data::RepeatOptions options_;
  const int64_t most_;
  const bool drop_last_;
  std::unique_ptr<data::RepeatOrder> order_;
};

class Sampled final : public PromptOrder {
 public:
  Sampled(const data::OrderOptions& options, int64_t copies) : options_(options), copies_(copies) {
    options_.may_be_empty = true;  // a run that has no generation is refused as all of them are
  }

  void set_rows(int64_t rows) override { options_.rows = rows; }
  int64_t generations() override { return data::batches_per_epoch(options_); }
  int64_t completions(int64_t generations) override {
    return std::min(generations * options_.batch_size, options_.rows) * copies_;
  }
  void start_epoch(int64_t epoch) override { order_ = data::EpochOrder(options_, epoch); }
  std::vector<int64_t> generation(int64_t number) override {
    if (number >= order_.size()) return {};
    const std::vector<int64_t> once = order_.batch(number);
    std::vector<int64_t> rows;
    for (int64_t copy = 0; copy < copies_; ++copy) rows.insert(rows.end(), once.begin(), once.end());
    return rows;
  }

 private:
  data::OrderOptions options_;
  const int64_t copies_;
  data::EpochOrder order_;
};

}  // namespace

std::unique_ptr<PromptOrder> repeated_prompts(const data::RepeatOptions& order, int64_t most,
                                              bool drop_last) {
  return std::make_unique<Repeated>(order, most, drop_last);
}

std::unique_ptr<PromptOrder> sampled_prompts(const data::OrderOptions& order, int64_t copies) {
  return std::make_unique<Sampled>(order, copies);
}

}  // namespace trl::run
