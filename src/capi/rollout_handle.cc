// trl_rollout_*.
#include "capi/rollout_handle.h"

#include <cmath>

#include "capi/guard.h"

namespace trl::capi {

namespace {

class HostReward final : public reward::Reward {
 public:
  HostReward(std::string name, std::unique_ptr<HostFunction> function, std::optional<double> seconds)
      : name_(std::move(name)), function_(std::move(function)), seconds_(seconds) {}
  std::string_view name() const override { return name_; }

  reward::Rewards score(const reward::RewardBatch& batch) override {
    const auto rollout =
        std::make_shared<run::HostRollout>(std::string(batch.moment.mode), batch.moment.step, rows_of(batch));
    const std::string which = fmt::format("reward {}", name_);
    function_->call(which, rollout, seconds_);
    metrics_ = rollout->metrics();
    extras_ = rollout->extras();
    reward::Rewards rewards;
    for (const run::HostRow& row : rollout->rows()) {
      if (!row.reward) {
        fail(Status::callback,
             "the {} set no reward for row {} of {}: set each of them, NaN for one that it does not score",
             which, rewards.size(), rollout->size());
      }
      rewards.push_back(*row.reward);
    }
    return rewards;
  }
  std::vector<std::pair<std::string, double>> metrics() override { return std::exchange(metrics_, {}); }
  reward::Columns extras() override { return std::exchange(extras_, {}); }

 private:
  static std::vector<run::HostRow> rows_of(const reward::RewardBatch& batch) {
    std::vector<run::HostRow> rows;
    for (const reward::Completion& own : batch.completions) {
      run::HostRow& row = rows.emplace_back();
      row.row = own.row;
      if (own.prompt != nullptr) row.prompt = *own.prompt;
      if (own.columns != nullptr) row.columns = *own.columns;
      row.prompt_ids.assign(own.prompt_ids.begin(), own.prompt_ids.end());
      row.completion = engine::Completion{{own.ids.begin(), own.ids.end()}};
      row.text = own.messages != nullptr ? *own.messages : base::Json(std::string(own.text));
    }
    return rows;
  }

  const std::string name_;
  const std::unique_ptr<HostFunction> function_;
  const std::optional<double> seconds_;
  std::vector<std::pair<std::string, double>> metrics_;
  reward::Columns extras_;
};

}  // namespace

void HostFunction::call(const std::string& which, const std::shared_ptr<run::HostRollout>& rows,
                        std::optional<double> seconds) {
  auto handle = std::make_unique<trl_rollout>(std::make_shared<Rollout>(rows));
  trl_rollout* const given = handle.get();
  late_.push_back(std::move(handle));
  const int32_t answer =
      call_host(which, [&] { return callback_.function(callback_.user_data.get(), given); });
  if (answer < 0) fail_callback(which, answer);
  if (answer != TRL_LATER) rows->close();
  rows->wait(which, seconds);
  late_.back()->retire();
  late_.pop_back();
}

std::unique_ptr<reward::Reward> host_reward(std::string name, std::unique_ptr<HostFunction> function,
                                            std::optional<double> seconds) {
  return std::make_unique<HostReward>(std::move(name), std::move(function), seconds);
}

}  // namespace trl::capi

using namespace trl::capi;

size_t trl_rollout_count(const trl_rollout* rollout) noexcept {
  return answer(size_t{0}, [&] { return get(rollout, "rollout")->rows->size(); });
}

trl_status trl_rollout_get(const trl_rollout* rollout, size_t index, const char** out_json,
                           trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_json, [&] {
    need(out_json, "out_json");
    const auto shared = get(rollout, "rollout");
    *out_json = shared->texts.keep(shared->rows->describe(index).dump());
  });
}

trl_status trl_rollout_set_reward(trl_rollout* rollout, size_t index, double reward,
                                  trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] { get(rollout, "rollout")->rows->set_reward(index, reward); });
}

trl_status trl_rollout_set_completion(trl_rollout* rollout, size_t index, const int32_t* ids, size_t count,
                                      const float* log_probs, const uint8_t* written, const char* columns,
                                      trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    const auto shared = get(rollout, "rollout");
    if (count > 0) need(ids, "ids");
    trl::engine::Completion completion{{ids, ids + count}};
    if (log_probs != nullptr) completion.log_probabilities.assign(log_probs, log_probs + count);
    if (written != nullptr) completion.written.assign(written, written + count);
    trl::base::Json extra = trl::base::Json::object();
    if (columns != nullptr) extra = trl::base::parse_json(columns, "columns");
    if (!extra.is_object()) trl::fail(trl::Status::format, "columns: give a JSON object");
    shared->rows->set_completion(index, std::move(completion), extra);
  });
}

trl_status trl_rollout_log(trl_rollout* rollout, const char* name, double value, trl_error** error) noexcept {
  return guard<From::anywhere>(
      error, [&] { get(rollout, "rollout")->rows->log(std::string(text(name, "name")), value); });
}

trl_status trl_rollout_set_value(trl_rollout* rollout, size_t index, const char* name, const char* json,
                                 trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    const auto shared = get(rollout, "rollout");
    const std::string given(text(name, "name"));
    shared->rows->set_value(index, given, trl::base::parse_json(text(json, "json"), "json"));
  });
}

trl_status trl_rollout_finish(trl_rollout* rollout, const char* message, trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    get(rollout, "rollout")->rows->finish(message == nullptr ? std::string() : std::string(message));
  });
}
