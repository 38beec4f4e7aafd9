#include "run/rollout/host_rollout.h"

#include "base/error.h"
#include "base/interrupt.h"
#include "run/rollout/json_number.h"

namespace trl::run {

HostRow prompt_row(const engine::PromptRows& prompts, size_t row, const base::Json& all) {
  HostRow out{prompts.row_ids[row], all.value("prompt", base::Json()), all, prompts.ids[row]};
  out.columns.erase("prompt");
  return out;
}

namespace {

// Makes numbers that are not finite null, as JSON has none.
void drop_nonfinite(base::Json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) value = nullptr;
  if (value.is_structured())
    for (base::Json& item : value) drop_nonfinite(item);
}

}  // namespace

HostRow& HostRollout::row_at(size_t index) {
  if (finished_) fail(Status::invalid_argument, "the rollout is finished: its rows cannot be set any more");
  if (index >= rows_.size())
    fail(Status::invalid_argument, "index {}: the rollout has {} rows", index, rows_.size());
  return rows_[index];
}

base::Json HostRollout::describe(size_t index) const {
  const std::lock_guard lock(mutex_);
  if (index >= rows_.size())
    fail(Status::invalid_argument, "index {}: the rollout has {} rows", index, rows_.size());
  const HostRow& own = rows_[index];
  base::Json json = {{"mode", mode_},
                     {"step", step_},
                     {"row", own.row},
                     {"prompt", own.prompt},
                     {"prompt_ids", own.prompt_ids},
                     {"columns", own.columns}};
  for (const auto& [name, value] : own.details.items()) json[name] = value;
  if (!own.text.is_null()) {
    json["completion"] = own.text;
    json["completion_ids"] = own.completion->ids;
  }
  drop_nonfinite(json);
  return json;
}

void HostRollout::set_reward(size_t index, double reward) {
  const std::lock_guard lock(mutex_);
  HostRow& own = row_at(index);
  if (own.text.is_null() || !answer_.empty())
    fail(Status::invalid_argument, "these rows have no completions to reward");
  if (own.reward) fail(Status::invalid_argument, "index {}: its reward was set before", index);
  own.reward = reward;
}

void HostRollout::set_completion(size_t index, engine::Completion completion, const base::Json& columns) {
  for (size_t i = 0; i < completion.log_probabilities.size(); ++i) {
    if (!is_log_probability(static_cast<double>(completion.log_probabilities[i])))
      fail(Status::invalid_argument,
           "index {}: log_probs[{}]: {} is not accepted: give a number up to 0, or NaN if it is not known",
           index, i, completion.log_probabilities[i]);
  }
  const std::lock_guard lock(mutex_);
  HostRow& own = row_at(index);
  if (!answer_.empty()) fail(Status::invalid_argument, "these rows take no completions: set {}", answer_);
  if (own.completion) fail(Status::invalid_argument, "index {}: it has a completion", index);
  own.completion = std::move(completion);
  for (const auto& [name, value] : columns.items()) own.columns[name] = value;
}

void HostRollout::log(std::string name, double value) {
  const std::lock_guard lock(mutex_);
  metrics_.emplace_back(std::move(name), value);
}

void HostRollout::set_value(size_t index, const std::string& name, base::Json value) {
  const std::lock_guard lock(mutex_);
  HostRow& own = row_at(index);
  if (!answer_.empty() && name != answer_)
    fail(Status::invalid_argument, "index {}: {} is not a value of this question: set {}", index, name,
         answer_);
  own.extras[name] = std::move(value);
}

const base::Json& HostRollout::needed(size_t index) const {
  const auto found = rows_.at(index).extras.find(answer_);
  if (found != rows_[index].extras.end()) return *found;
  fail(Status::callback, "the host's tools set no {} for row {} of {}: set each of them", answer_, index,
       rows_.size());
}

reward::Columns HostRollout::extras() const {
  reward::Columns columns;
  for (size_t i = 0; i < rows_.size(); ++i) {
    for (const auto& [name, value] : rows_[i].extras.items()) {
      columns[name].resize(rows_.size());
      columns[name][i] = value;
    }
  }
  return columns;
}

double HostRollout::age() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - made_).count();
}

void HostRollout::end() {
  if (finished_) return;
  finished_ = true;
  took_ = age();
}

void HostRollout::finish(std::optional<std::string> failure) {
  const std::lock_guard lock(mutex_);
  if (finished_) fail(Status::invalid_argument, "the rollout was finished before");
  end();
  failure_ = std::move(failure);
  changed_.notify_all();
}

void HostRollout::close() {
  const std::lock_guard lock(mutex_);
  end();
}

bool HostRollout::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

void HostRollout::wait(const std::string& which, std::optional<double> seconds) {
  std::unique_lock lock(mutex_);
  while (!finished_ && !(seconds && age() > *seconds)) {
    changed_.wait_for(lock, std::chrono::milliseconds(10));
    if (finished_) break;
    lock.unlock();
    base::poll();
    lock.lock();
  }
  if (seconds && (!finished_ || took_ > *seconds)) {
    throw Error(Status::callback,
                fmt::format("the {} did not answer within reward_timeout: {} seconds", which, *seconds),
                "reward_timeout");
  }
  if (failure_) fail(Status::callback, "the {} failed{}{}", which, failure_->empty() ? "" : ": ", *failure_);
}

}  // namespace trl::run
