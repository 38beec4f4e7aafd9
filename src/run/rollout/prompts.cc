#include "run/rollout/prompts.h"

#include <algorithm>

namespace trl::run {

Prompts::Prompts(std::unique_ptr<data::PromptList> list, const data::RepeatOptions& order, int64_t most)
    : list_(std::move(list)), options_(order), most_(most) {}

void Prompts::settle() {
  if (order_) return;
  options_.rows = list_->size();
  order_ = std::make_unique<data::RepeatOrder>(options_);
}

int64_t Prompts::generations() {
  settle();
  const int64_t once = order_->size() / options_.repeat_count;
  return (once + most_ - 1) / most_;
}

int64_t Prompts::longest() {
  int64_t most = 0;
  for (int64_t row = 0; row < count(); ++row) most = std::max(most, std::ssize((*list_)[row].prompt_ids));
  return most;
}

void Prompts::start(int64_t epoch, int64_t generation) {
  settle();
  order_->start_epoch(epoch);
  generation_ = generation;
}

bool Prompts::next() {
  const int64_t repeats = options_.repeat_count, begin = generation_ * most_ * repeats;
  const int64_t end = std::min(begin + most_, order_->size());
  if (begin >= end) return false;
  rows_ = {};
  columns_.clear();
  int64_t before = -1;
  for (int64_t at = begin; at < end; ++at) {
    const int64_t row = (*order_)[at];
    if (row == before) {
      rows_.row_ids.push_back(rows_.row_ids.back());
      rows_.ids.push_back(rows_.ids.back());
      columns_.push_back(columns_.back());
      continue;
    }
    before = row;
    data::PromptExample prompt = (*list_)[row];
    rows_.row_ids.push_back(prompt.source_row);
    rows_.ids.push_back(std::move(prompt.prompt_ids));
    columns_.push_back(std::make_shared<const base::Json>(base::Json::parse(prompt.row)));
  }
  ++generation_;
  return true;
}

}  // namespace trl::run
