// See repeat_order.h.
#include "data/batch/repeat_order.h"

#include <numeric>

#include "base/error.h"

namespace trl::data {

RepeatOrder::RepeatOrder(const RepeatOptions& options) : options_(options), generator_(options.seed) {
  for (const int64_t count :
       {options_.num_generations, options_.prompts_per_generation_batch, options_.repeat_count})
    if (count < 1)
      fail(Status::invalid_argument, "order of prompts: a count of {}: at least 1 is accepted", count);
  start_epoch(0);
}

void RepeatOrder::start_epoch(int64_t epoch) {
  if (!options_.shuffle) {
    prompts_.resize(static_cast<size_t>(options_.rows));
    std::iota(prompts_.begin(), prompts_.end(), 0);
    return;
  }
  if (epoch < drawn_) {
    generator_ = base::TorchGenerator(options_.seed);
    drawn_ = 0;
  }
  for (; drawn_ <= epoch; ++drawn_) draw();
}

void RepeatOrder::draw() {
  if (!options_.by_loader) {
    prompts_ = base::randperm(options_.rows, generator_);
    return;
  }
  generator_.random_int64();
  base::TorchGenerator own(static_cast<uint64_t>(generator_.random_int64()));
  prompts_ = base::randperm(options_.rows, own);
}

int64_t RepeatOrder::size() const {
  const int64_t group = options_.prompts_per_generation_batch;
  return options_.rows / group * group * options_.num_generations * options_.repeat_count;
}

int64_t RepeatOrder::operator[](int64_t at) const {
  const int64_t group = options_.prompts_per_generation_batch;
  const int64_t once = group * options_.num_generations;
  const int64_t prompt = at / (once * options_.repeat_count) * group + at % once / options_.num_generations;
  return prompts_[static_cast<size_t>(prompt)];
}

}  // namespace trl::data
