// Rewards that come after the completions: the first forward of the update does not wait for them, and
// changes nothing.
#include <dlfcn.h>

#include <atomic>
#include <thread>

#include "engine/rewarded.h"

namespace {

using host::Error;
using host::grpo;
using host::Json;
using host::online_dpo;
using host::reward_all;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

constexpr const char* kCounts = TRL_TEST_PLUGINS "/counts.so";

// Answers on threads of its own, as soon as `waited` returns.
class Later {
 public:
  Later(host::Function reward, std::function<void()> waited)
      : reward_(std::move(reward)), waited_(std::move(waited)) {}
  ~Later() { join(); }
  int32_t answer(trl_rollout* rollout) {
    threads_.emplace_back([this, rollout] {
      waited_();
      reward_(rollout);
      Error error;
      EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK) << error.message();
    });
    return TRL_LATER;
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  const host::Function reward_;
  const std::function<void()> waited_;
  std::vector<std::thread> threads_;
};

TEST(LateRewards, TheFirstForwardDoesNotWaitForThem) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::atomic<int32_t>* forwards = nullptr;
  std::atomic<int32_t> before = 0;  // when the rewards were asked for
  std::atomic<int> waits = 0, worked = 0;
  Later later(reward_all, [&] {
    for (int i = 0; i < 3000 && *forwards == before; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    ++waits;
    worked += *forwards > before ? 1 : 0;
  });
  Rewarded run(grpo(scratch / "out", {{"attn_implementation", std::string("plugin:") + kCounts}}),
               [&](trl_rollout* rollout) {
                 before = forwards->load();
                 return later.answer(rollout);
               });
  void* const plugin = dlopen(kCounts, RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(plugin, nullptr);
  forwards = reinterpret_cast<std::atomic<int32_t>*>(dlsym(plugin, "counted_forwards"));
  ASSERT_NE(forwards, nullptr);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  later.join();
  EXPECT_EQ(waits, 3);
  EXPECT_EQ(worked, 3);
  dlclose(plugin);
}

// Those of odd targets are equal, so that their rows teach nothing.
int32_t reward_odd_targets_alike(trl_rollout* rollout) {
  Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
    const Json row = host::row_of(rollout, i);
    const bool equal = row["columns"]["target"].get<int>() % 2 == 1;
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, equal ? 1 : host::points(row), error), TRL_OK);
  }
  return TRL_OK;
}

// Gives the probability that the first of a pair is better.
int32_t judge(trl_rollout* rollout) {
  Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, i % 2 == 0 ? 0.9 : 0.1, error), TRL_OK);
  return TRL_OK;
}

struct LateCase {
  const char* name;
  Settings more;
  host::Function reward = reward_all;
  Settings (*base)(const std::string& output_dir, const Settings& more) = grpo;
};

void PrintTo(const LateCase& own, std::ostream* out) { *out << own.name; }

class LateRewardsOf : public testing::TestWithParam<LateCase> {};

TEST_P(LateRewardsOf, ChangeNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  const LateCase& own = GetParam();
  const auto weights = [&](const std::string& folder, const host::Function& reward) {
    Rewarded run(own.base(scratch / folder, own.more), reward);
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
    const auto adapter = scratch / folder / "adapter_model.safetensors";
    return host::read_safetensors(std::filesystem::exists(adapter) ? adapter
                                                                   : scratch / folder / "model.safetensors");
  };
  Later later(own.reward, [] { std::this_thread::sleep_for(std::chrono::milliseconds(30)); });
  EXPECT_EQ(weights("late", [&](trl_rollout* rollout) { return later.answer(rollout); }),
            weights("now", own.reward));
}

INSTANTIATE_TEST_SUITE_P(
    , LateRewardsOf,
    testing::Values(
        LateCase{"grpo", {}}, LateCase{"rows_that_teach_nothing", {}, reward_odd_targets_alike},
        LateCase{"rloo", {{"method", "rloo"}}}, LateCase{"of_pairs", {}, reward_all, online_dpo},
        LateCase{"ppo", {}, reward_all, host::ppo},
        LateCase{"a_judge", {{"judge", "points"}}, judge, online_dpo},
        LateCase{"a_window_of_several_micro_batches",
                 {{"per_device_train_batch_size", "2"}, {"gradient_accumulation_steps", "2"}}},
        LateCase{
            "several_updates",
            {{"per_device_train_batch_size", "2"}, {"steps_per_generation", "2"}, {"num_iterations", "2"}}},
        LateCase{"windows_across_generations",
                 {{"per_device_train_batch_size", "2"},
                  {"gradient_accumulation_steps", "3"},
                  {"steps_per_generation", "2"}}},
        LateCase{"sequences", {{"importance_sampling_level", "sequence"}, {"max_tokens_per_pass", "24"}}},
        LateCase{"recomputed", {{"gradient_checkpointing", "true"}, {"bf16", "true"}, {"beta", "0.1"}}},
        LateCase{"offloaded", {{"activation_offloading", "true"}}},
        LateCase{"an_adapter_with_dropout", {{"use_peft", "true"}, {"lora_dropout", "0.5"}}}),
    [](const auto& own) { return std::string(own.param.name); });

// Two functions, each of which answers when both were asked.
void asks_both(Settings settings) {
  std::atomic<int> asked = 0, answered_early = 0;
  const auto waits = [&] {
    for (int i = 0; i < 3000 && asked % 2 != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    answered_early += asked % 2 == 0 ? 1 : 0;
  };
  Later later(reward_all, waits);
  const host::Function ask = [&](trl_rollout* rollout) {
    ++asked;
    return later.answer(rollout);
  };
  Rewarded run(settings, ask);
  host::Function second = ask;
  ASSERT_EQ(trl_trainer_add_reward(run.trainer.get(), "second", host::call, &second, nullptr, run.error),
            TRL_OK);
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, run.error), TRL_OK) << run.error.message();
  later.join();
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(answered_early, 2);
}

TEST(LateRewards, AllFunctionsAreAskedBeforeOneIsAwaited) {
  NEED_MODEL();
  const host::Scratch scratch;
  asks_both(grpo(scratch / "grpo"));
  asks_both(online_dpo(scratch / "online_dpo"));
  asks_both(host::ppo(scratch / "ppo"));
}

// A step whose rewards failed after its first forward begins again as if there had been none.
TEST(LateRewards, AFailureLeavesNothing) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto weights = [&](const char* folder, const host::Function& reward, bool fails) {
    Rewarded run(grpo(scratch / folder), reward);
    if (fails) {
      EXPECT_EQ(run.train(), TRL_E_CALLBACK);
    }
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
    return host::read_safetensors(scratch / folder / "model.safetensors");
  };
  std::atomic<int> calls = 0;
  std::vector<std::thread> threads;
  const auto fails_once = [&](trl_rollout* rollout) {
    const bool fails = ++calls == 2;
    threads.emplace_back([rollout, fails] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      Error error;
      if (!fails) reward_all(rollout);
      EXPECT_EQ(trl_rollout_finish(rollout, fails ? "out of order" : nullptr, error), TRL_OK);
    });
    return int32_t{TRL_LATER};
  };
  EXPECT_EQ(weights("late", fails_once, true), weights("now", reward_all, false));
  for (std::thread& thread : threads) thread.join();
}

// A thread whose answer the step waits for is told so instead of waiting for the end of the step.
TEST(LateRewards, AnAnswerCannotWaitForAGeneratorOfItsTrainer) {
  NEED_MODEL();
  const host::Scratch scratch;
  trl_generator* used = nullptr;
  std::atomic<int> refused = 0;
  std::vector<std::thread> threads;
  Rewarded run(grpo(scratch / "out", {{"max_steps", "2"}}), [&](trl_rollout* rollout) {
    threads.emplace_back([&, rollout] {
      Error error;
      EXPECT_GT(trl_rollout_count(rollout), 0u);
      EXPECT_EQ(trl_generator_step(used, nullptr, nullptr, error), TRL_E_BUSY);
      EXPECT_TRUE(error.names("trl_rollout_finish")) << error.message();
      ++refused;
      reward_all(rollout);
      EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK) << error.message();
    });
    return int32_t{TRL_LATER};
  });
  const host::Generator generator = host::generator_of(run.trainer.get());
  used = generator.get();
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(trl_generator_step(used, nullptr, nullptr, run.error), TRL_END) << run.error.message();
}

}  // namespace
