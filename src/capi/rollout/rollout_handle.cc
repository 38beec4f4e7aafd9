// trl_rollout_*.
#include "capi/rollout/rollout_handle.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "capi/guard.h"

namespace trl::capi {

namespace {

// The value of a row that says why it has no reward.
constexpr const char* kFailure = "error";

class HostReward final : public reward::Reward {
 public:
  HostReward(std::string name, std::unique_ptr<HostFunction> function, std::optional<double> seconds)
      : name_(std::move(name)), function_(std::move(function)), seconds_(seconds) {}
  std::string_view name() const override { return name_; }

  void begin(const reward::RewardBatch& batch, std::span<const size_t> rows) override {
    if (calls_.empty()) ++generation_;
    Call& own = calls_.emplace_back();
    own.rows.assign(rows.begin(), rows.end());
    own.rollout = std::make_shared<run::HostRollout>(std::string(batch.moment.mode), batch.moment.step,
                                                     rows_of(batch, generation_));
    try {
      function_->begin(which(), own.rollout);
    } catch (const Error&) {
      own.failure = std::current_exception();
    }
  }
  void forget() override { calls_.clear(); }
  bool late() override {
    return std::ranges::any_of(calls_,
                               [](const Call& call) { return !call.failure && !call.rollout->finished(); });
  }

  reward::Rewards score(const reward::RewardBatch& batch) override {
    // Drops whatever a failed call left behind.
    metrics_.clear();
    extras_.clear();
    failures_.clear();
    if (calls_.empty()) {
      std::vector<size_t> all(batch.completions.size());
      std::iota(all.begin(), all.end(), size_t{0});
      begin(batch, all);
    }
    reward::Rewards rewards(batch.completions.size(), std::nan(""));
    for (const std::vector<Call> calls = std::exchange(calls_, {}); const Call& call : calls) {
      if (call.failure) std::rethrow_exception(call.failure);
      function_->finish(which(), *call.rollout, seconds_);
      take(call, rewards);
    }
    return rewards;
  }
  std::vector<std::pair<std::string, double>> metrics() override { return std::exchange(metrics_, {}); }
  reward::Columns extras() override { return std::exchange(extras_, {}); }
  std::vector<std::pair<size_t, std::string>> failures() override { return std::exchange(failures_, {}); }

 private:
  // Asks about some rows of a generation.
  struct Call {
    std::vector<size_t> rows;
    std::shared_ptr<run::HostRollout> rollout;
    std::exception_ptr failure = {};
  };

  std::string which() const { return fmt::format("reward {}", name_); }
  void take(const Call& call, reward::Rewards& rewards) {
    for (const auto& metric : call.rollout->metrics()) metrics_.push_back(metric);
    for (const auto& [name, values] : call.rollout->extras()) {
      if (name == kFailure) continue;
      std::vector<base::Json>& column = extras_[name];
      column.resize(rewards.size());
      for (size_t i = 0; i < values.size(); ++i) column[call.rows[i]] = values[i];
    }
    for (size_t i = 0; i < call.rows.size(); ++i) {
      const run::HostRow& row = call.rollout->rows()[i];
      if (const auto why = row.extras.find(kFailure); why != row.extras.end()) {
        failures_.emplace_back(call.rows[i], why->is_string() ? why->get<std::string>() : why->dump());
        continue;
      }
      if (!row.reward) {
        fail(Status::callback,
             "the {} set no reward for row {} of {}: set each of them, NaN for one that it does not score",
             which(), i, call.rows.size());
      }
      rewards[call.rows[i]] = *row.reward;
    }
  }
  static base::Json text_of(const reward::Completion& own) {
    return own.messages != nullptr ? *own.messages : base::Json(std::string(own.text));
  }
  static std::vector<run::HostRow> rows_of(const reward::RewardBatch& batch, int64_t generation) {
    std::vector<run::HostRow> rows;
    for (const reward::Completion& own : batch.completions) {
      run::HostRow& row = rows.emplace_back();
      row.row = own.row;
      if (own.prompt != nullptr) row.prompt = *own.prompt;
      if (own.columns != nullptr) row.columns = *own.columns;
      row.prompt_ids.assign(own.prompt_ids.begin(), own.prompt_ids.end());
      row.completion = engine::Completion{{own.ids.begin(), own.ids.end()}};
      row.text = text_of(own);
      row.details["generation"] = generation;
      if (own.other == nullptr) continue;
      row.details["other_completion"] = text_of(*own.other);
      row.details["other_completion_ids"] =
          std::vector<int32_t>(own.other->ids.begin(), own.other->ids.end());
    }
    return rows;
  }

  const std::string name_;
  const std::unique_ptr<HostFunction> function_;
  const std::optional<double> seconds_;
  std::vector<Call> calls_;  // begun
  int64_t generation_ = 0;   // of those calls, counted from 1
  std::vector<std::pair<std::string, double>> metrics_;
  reward::Columns extras_;
  std::vector<std::pair<size_t, std::string>> failures_;
};

}  // namespace

namespace {

// A rollout that a thread has opened.
struct OpenedHere {
  const void* trainer;
  std::weak_ptr<run::HostRollout> rows;
  bool is_over() const {
    const auto held = rows.lock();
    return held == nullptr || held->finished();
  }
};

thread_local std::vector<OpenedHere> opened_here;

}  // namespace

std::shared_ptr<Rollout::Open> Rollout::open() const {
  const std::lock_guard lock(mutex_);
  if (!open_)
    fail(Status::invalid_argument, "the rollout is over: its function has returned, or has finished it");
  std::erase_if(opened_here,
                [&](const OpenedHere& one) { return one.is_over() || one.rows.lock() == open_->rows; });
  opened_here.push_back({trainer_, open_->rows});
  return open_;
}

bool Rollout::is_answered_here(const void* trainer) {
  return std::ranges::any_of(opened_here,
                             [&](const OpenedHere& one) { return one.trainer == trainer && !one.is_over(); });
}

void Rollout::end() {
  std::shared_ptr<Open> last;
  const std::lock_guard lock(mutex_);
  last.swap(open_);
}

void HostFunction::begin(const std::string& which, const std::shared_ptr<run::HostRollout>& rows) {
  open_.push_back(std::make_unique<trl_rollout>(std::make_shared<Rollout>(rows, trainer_)));
  trl_rollout* const given = open_.back().get();
  int32_t answer = -1;
  try {
    answer = call_host(which, [&] { return callback_.function(callback_.user_data.get(), given); });
    if (answer < 0) fail_callback(which, answer);
  } catch (const Error&) {
    end(std::prev(open_.end()));
    throw;
  }
  if (answer != TRL_LATER) rows->close();
}

void HostFunction::finish(const std::string& which, run::HostRollout& rows, std::optional<double> seconds) {
  const auto own = std::ranges::find_if(
      open_, [&](const Given& given) { return given->object->open()->rows.get() == &rows; });
  try {
    rows.wait(which, seconds);
  } catch (const Error&) {
    if (rows.finished()) end(own);
    throw;
  }
  end(own);
}

void HostFunction::end(std::vector<Given>::iterator given) {
  constexpr size_t kKept = 256;
  (*given)->object->end();
  over_.push_back(std::move(*given));
  open_.erase(given);
  if (over_.size() > kKept) over_.pop_front();
}

std::unique_ptr<reward::Reward> host_reward(std::string name, std::unique_ptr<HostFunction> function,
                                            std::optional<double> seconds) {
  return std::make_unique<HostReward>(std::move(name), std::move(function), seconds);
}

}  // namespace trl::capi

using namespace trl::capi;

size_t trl_rollout_count(const trl_rollout* rollout) noexcept {
  return answer(size_t{0}, [&] { return get(rollout, "rollout")->open()->rows->size(); });
}

trl_status trl_rollout_get(const trl_rollout* rollout, size_t index, const char** out_json,
                           trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_json, [&] {
    need(out_json, "out_json");
    const auto open = get(rollout, "rollout")->open();
    *out_json = open->texts.keep(trl::base::exact_text(open->rows->describe(index)));
  });
}

trl_status trl_rollout_set_reward(trl_rollout* rollout, size_t index, double reward,
                                  trl_error** error) noexcept {
  return guard<From::anywhere>(error,
                               [&] { get(rollout, "rollout")->open()->rows->set_reward(index, reward); });
}

trl_status trl_rollout_set_completion(trl_rollout* rollout, size_t index, const int32_t* ids, size_t count,
                                      const float* log_probs, const uint8_t* written, const char* columns,
                                      trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    const auto open = get(rollout, "rollout")->open();
    const auto given = elements(ids, count, "ids");
    trl::engine::Completion completion{{given.begin(), given.end()}};
    if (log_probs != nullptr) completion.log_probabilities.assign(log_probs, log_probs + count);
    if (written != nullptr) completion.written.assign(written, written + count);
    trl::base::Json extra = trl::base::Json::object();
    if (columns != nullptr) extra = trl::base::parse_json(columns, "columns");
    if (!extra.is_object()) trl::fail(trl::Status::format, "columns: give a JSON object");
    open->rows->set_completion(index, std::move(completion), extra);
  });
}

trl_status trl_rollout_log(trl_rollout* rollout, const char* name, double value, trl_error** error) noexcept {
  return guard<From::anywhere>(
      error, [&] { get(rollout, "rollout")->open()->rows->log(std::string(text(name, "name")), value); });
}

trl_status trl_rollout_set_value(trl_rollout* rollout, size_t index, const char* name, const char* json,
                                 trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    const auto open = get(rollout, "rollout")->open();
    const std::string given(text(name, "name"));
    open->rows->set_value(index, given, trl::base::parse_json(text(json, "json"), "json"));
  });
}

trl_status trl_rollout_finish(trl_rollout* rollout, const char* message, trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    std::optional<std::string> failure;
    if (message != nullptr) failure = trl::base::one_line(message);
    get(rollout, "rollout")->open()->rows->finish(std::move(failure));
  });
}
