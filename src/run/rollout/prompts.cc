#include "run/rollout/prompts.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text/number.h"

namespace trl::run {

Prompts::Prompts(std::unique_ptr<data::PromptList> list, std::unique_ptr<PromptOrder> order,
                 std::unique_ptr<PromptOrder> others)
    : list_(std::move(list)), order_(std::move(order)), others_(std::move(others)) {}

void Prompts::settle() {
  if (settled_) return;
  order_->set_rows(list_->size());
  if (others_) others_->set_rows(list_->size());
  settled_ = true;
}

int64_t Prompts::generations() {
  settle();
  return order_->generations();
}

int64_t Prompts::completions(int64_t first, int64_t generations) {
  settle();
  const int64_t all = order_->generations();
  if (all == 0) return 0;
  const auto before = [&](int64_t number) {
    return number / all * order_->completions(all) + order_->completions(number % all);
  };
  return before(first + generations) - before(first);
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
  answers_.clear();
  std::map<int64_t, size_t> places;  // of the first completion of each row
  for (const int64_t row : rows) {
    const auto [known, first] = places.emplace(row, columns_.size());
    if (!first) {
      rows_.row_ids.push_back(rows_.row_ids[known->second]);
      rows_.ids.push_back(rows_.ids[known->second]);
      columns_.push_back(columns_[known->second]);
      answers_.push_back(answers_[known->second]);
      continue;
    }
    data::PromptExample prompt = (*list_)[row];
    rows_.row_ids.push_back(prompt.source_row);
    rows_.ids.push_back(std::move(prompt.prompt_ids));
    answers_.push_back(std::move(prompt.completion_ids));
    columns_.push_back(std::make_shared<const base::Json>(base::Json::parse(prompt.row)));
  }
  for (const std::vector<int32_t>& answer : answers_) rows_.items += std::ssize(answer);
  ++generation_;
  return true;
}

void Prompts::redraw(std::span<const size_t> rows, size_t group) {
  for (size_t i = 0; i < rows.size(); i += group) {
    const int64_t all = others_->generations();
    others_->start_epoch(redrawn_ / all);
    give(rows.subspan(i, group), (*list_)[others_->generation(redrawn_ % all).front()]);
    ++redrawn_;
  }
}

// Prompts are in the order of the dataset.
bool Prompts::give(std::span<const size_t> rows, int64_t source_row) {
  int64_t below = 0, above = count();
  while (below < above) {
    const int64_t middle = (below + above) / 2;
    const data::PromptExample prompt = (*list_)[middle];
    if (prompt.source_row == source_row) {
      give(rows, prompt);
      return true;
    }
    if (prompt.source_row < source_row)
      below = middle + 1;
    else
      above = middle;
  }
  return false;
}

void Prompts::give(std::span<const size_t> rows, const data::PromptExample& prompt) {
  const auto columns = std::make_shared<const base::Json>(base::Json::parse(prompt.row));
  for (const size_t row : rows) {
    rows_.row_ids[row] = prompt.source_row;
    rows_.ids[row] = prompt.prompt_ids;
    columns_[row] = columns;
  }
}

void need_generation(Prompts& prompts, const config::OnlineArguments& online) {
  if (prompts.generations() > 0) return;
  fail_key("dataset_name",
           "dataset_name: it has {}, and a generation takes {} (its {} completions are {} of each): give "
           "more prompts, or a smaller generation",
           base::quantity(prompts.count(), "prompt"), online.prompts_per_generation,
           online.generation_batch_size, online.num_generations);
}

}  // namespace trl::run
