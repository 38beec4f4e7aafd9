// Between the end of a step and the next generation the training thread never sleeps.
#include <sys/resource.h>

#include <algorithm>
#include <thread>

#include "engine/rewarded.h"

namespace between_steps_test {
namespace {

using host::Error;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// How often this thread has slept: for a lock, another thread, a disk or a time.
int64_t sleeps() {
  rusage use{};
  EXPECT_EQ(getrusage(RUSAGE_THREAD, &use), 0);
  return use.ru_nvcsw;
}

struct Watched {
  std::thread::id thread = std::this_thread::get_id();
  int64_t at_end = -1;                // of the step before; -1: there is none
  std::vector<int64_t> between = {};  // sleeps between a step and the next generation
};

int32_t on_event(void* watched, int32_t event, const trl_metrics*) {
  if (event == TRL_ON_STEP) static_cast<Watched*>(watched)->at_end = sleeps();
  return 0;
}

void write(trl_rollout* rollout) {
  Error error;
  for (size_t row = 0; row < trl_rollout_count(rollout); ++row) {
    const int32_t ids[] = {10, 11 + static_cast<int32_t>(row)};
    EXPECT_EQ(trl_rollout_set_completion(rollout, row, ids, 2, nullptr, nullptr, nullptr, error), TRL_OK)
        << error.message();
  }
}

// The system may let one sleep for a page of a file: most do not.
TEST(BetweenSteps, NothingWaits) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const Settings& own : {Settings{}, Settings{{"use_peft", "true"}, {"lora_r", "4"}}}) {
    Watched watched;
    host::Function writes = [&](trl_rollout* rollout) {
      if (watched.at_end >= 0) watched.between.push_back(sleeps() - watched.at_end);
      EXPECT_EQ(std::this_thread::get_id(), watched.thread);
      write(rollout);
      return int32_t{TRL_OK};
    };
    const Settings many = {{"max_steps", "12"}};
    Rewarded run(host::grpo(scratch / std::to_string(own.size()), host::with(many, own)), host::reward_all);
    ASSERT_EQ(trl_trainer_set_rollout(run.trainer.get(), host::call, &writes, nullptr, run.error), TRL_OK)
        << run.error.message();
    ASSERT_EQ(trl_trainer_train(run.trainer.get(), on_event, &watched, run.error), TRL_OK)
        << run.error.message();
    ASSERT_EQ(watched.between.size(), 11u);
    std::ranges::sort(watched.between);
    EXPECT_EQ(watched.between[5], 0) << testing::PrintToString(watched.between);
  }
}

}  // namespace
}  // namespace between_steps_test
