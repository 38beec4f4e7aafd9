#include "run/rollout/prompts.h"

#include <algorithm>
#include <map>

namespace trl::run {

Prompts::Prompts(std::unique_ptr<data::PromptList> list, std::unique_ptr<PromptOrder> order)
    : list_(std::move(list)), order_(std::move(order)) {}

void Prompts::settle() {
  if (settled_) return;
  order_->set_rows(list_->size());
  settled_ = true;
}

int64_t Prompts::generations() {
  settle();
  return order_->generations();
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
  const std::vector<int64_t> rows = order_->generation(generation_);
  if (rows.empty()) return false;
  rows_ = {};
  columns_.clear();
  std::map<int64_t, size_t> places;  // of the first completion of each row
  for (const int64_t row : rows) {
    const auto [known, first] = places.emplace(row, columns_.size());
    if (!first) {
      rows_.row_ids.push_back(rows_.row_ids[known->second]);
      rows_.ids.push_back(rows_.ids[known->second]);
      columns_.push_back(columns_[known->second]);
      continue;
    }
    data::PromptExample prompt = (*list_)[row];
    rows_.row_ids.push_back(prompt.source_row);
    rows_.ids.push_back(std::move(prompt.prompt_ids));
    columns_.push_back(std::make_shared<const base::Json>(base::Json::parse(prompt.row)));
  }
  ++generation_;
  return true;
}

}  // namespace trl::run
