#include "serve/rewarded_run.h"

#include "support/abi.h"

namespace trl::bench {

namespace {

trl_trainer* open_trainer_of(const Json& options, int64_t rows) {
  std::string text;
  for (int64_t row = 0; row < rows; ++row)
    text += Json({{"prompt", "Tell me of day " + std::to_string(row) + " by the sea:"}}).dump() + "\n";
  return open_trainer_on(options, text, false);
}

}  // namespace

RewardedRun::RewardedRun(const Json& options, int64_t rows) : trainer_(open_trainer_of(options, rows)) {
  TRL_CHECK(trl_trainer_add_reward(trainer_, "points", reward, this, nullptr, &error));
}

double RewardedRun::step() {
  const double begin = now();
  TRL_CHECK(trl_trainer_step(trainer_, &metrics_, &error));
  return now() - begin;
}

double RewardedRun::metric(const char* name) const {
  double value = 0;
  if (trl_metrics_get(metrics_, name, &value) != TRL_OK)
    throw std::runtime_error(std::string("the step has no metric ") + name);
  return value;
}

// Gives as many points as the sum of the ids leaves.
int32_t RewardedRun::reward(void* self, trl_rollout* rollout) {
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
    const char* text = nullptr;
    if (trl_rollout_get(rollout, i, &text, nullptr) != TRL_OK) return TRL_E_INTERNAL;
    Json ids = Json::parse(text).at("completion_ids");
    int64_t sum = 0;
    for (const Json& id : ids) sum += id.get<int64_t>();
    static_cast<RewardedRun*>(self)->ids_.push_back(std::move(ids));
    if (trl_rollout_set_reward(rollout, i, static_cast<double>(sum % 7), nullptr) != TRL_OK)
      return TRL_E_INTERNAL;
  }
  return TRL_OK;
}

}  // namespace trl::bench
