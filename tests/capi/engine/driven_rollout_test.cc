// Rollouts that the host writes with a generator of the trainer, while that waits for them.
#include <atomic>
#include <chrono>
#include <thread>

#include "engine/rewarded.h"

namespace {

using host::call;
using host::Error;
using host::Function;
using host::grpo;
using host::Json;
using host::reward_all;
using host::Rewarded;
using host::row_of;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// A generator of a trainer that writes its rows, with the draws of training. Groups have two rows.
class Driver {
 public:
  explicit Driver(trl_trainer* trainer, const Settings& more = {}) {
    generator_ = host::generator_of(trainer);
    for (int stream = 0; stream < 12; stream += 2) {
      const Settings own = {{"generate.temperature", "1"},
                            {"generate.max_new_tokens", "5"},
                            {"generate.num_return_sequences", "2"},
                            {"generate.stream", std::to_string(stream)}};
      options_.push_back(host::config(host::with(own, more)));
    }
  }
  trl_generator* get() const { return generator_.get(); }

  void write(trl_rollout* rollout) {
    Error error;
    std::vector<size_t> firsts;
    for (size_t i = 0; i < trl_rollout_count(rollout); i += 2) {
      const auto ids = row_of(rollout, i)["prompt_ids"].get<std::vector<int32_t>>();
      EXPECT_EQ(
          trl_generator_add(get(), nullptr, 0, ids.data(), ids.size(),
                            options_.at(made_++ % options_.size()).get(), &firsts.emplace_back(), error),
          TRL_OK)
          << error.message();
    }
    trl_status status = TRL_OK;
    while (status == TRL_OK) status = trl_generator_step(get(), nullptr, nullptr, error);
    EXPECT_EQ(status, TRL_END) << error.message();
    for (size_t group = 0; group < firsts.size(); ++group) take(rollout, 2 * group, firsts[group]);
  }

 private:
  void take(trl_rollout* rollout, size_t row, size_t first) {
    Error error;
    trl_completions* made = nullptr;
    EXPECT_EQ(trl_generator_take(get(), first, 2, &made, error), TRL_OK) << error.message();
    const host::Completions completions(made);
    for (size_t i = 0; i < 2; ++i) {
      size_t count = 0;
      const int32_t* const ids = trl_completions_tokens(made, i, &count);
      EXPECT_EQ(trl_rollout_set_completion(rollout, row + i, ids, count, nullptr, nullptr, nullptr, error),
                TRL_OK)
          << error.message();
    }
  }

  host::Generator generator_;
  std::vector<host::Config> options_;  // of each group, in order
  size_t made_ = 0;
};

// A run whose rollouts a function writes.
struct DrivenRun {
  DrivenRun(const Settings& settings, Function reward, const Settings& of_driver = {})
      : run(settings, std::move(reward)), driver(run.trainer.get(), of_driver) {}
  ~DrivenRun() {
    if (later.joinable()) later.join();
  }
  trl_status train(Function function) {
    write = std::move(function);
    EXPECT_EQ(trl_trainer_set_rollout(run.trainer.get(), call, &write, nullptr, run.error), TRL_OK);
    return run.train();
  }
  int32_t write_later(trl_rollout* rollout) {
    if (later.joinable()) later.join();
    later = std::thread([this, rollout] {
      driver.write(rollout);
      Error error;
      EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK) << error.message();
    });
    return TRL_LATER;
  }

  Function write = {};  // outlives the trainer
  Rewarded run;
  Driver driver;
  std::thread later = {};
};

// The ids that rewards saw, and the weights at the end.
struct DrivenResult {
  std::vector<Json> ids = {};
  std::map<std::string, host::Tensor> weights = {};
  bool operator==(const DrivenResult&) const = default;
};

Function note_ids(DrivenResult& result) {
  return [&result](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      result.ids.push_back(row_of(rollout, i)["completion_ids"]);
    return reward_all(rollout);
  };
}

void save_weights(Rewarded& run, const std::string& folder, DrivenResult& result) {
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK) << run.error.message();
  result.weights = host::read_safetensors(folder + "/model.safetensors");
}

TEST(DrivenRollouts, HaveTheTokensAndWeightsOfTheTrainersOwn) {
  NEED_MODEL();
  for (const char* const bf16 : {"false", "true"}) {
    SCOPED_TRACE(bf16);
    const host::Scratch scratch;
    const auto settings = [&](const char* folder) { return grpo(scratch / folder, {{"bf16", bf16}}); };
    DrivenResult own;
    Rewarded alone(settings("own"), note_ids(own));
    ASSERT_EQ(alone.train(), TRL_OK) << alone.error.message();
    save_weights(alone, scratch / "own", own);
    EXPECT_EQ(own.ids.size(), 12u);

    DrivenResult inside;
    DrivenRun first(settings("inside"), note_ids(inside));
    ASSERT_EQ(first.train([&](trl_rollout* rollout) {
      first.driver.write(rollout);
      return int32_t{TRL_OK};
    }),
              TRL_OK)
        << first.run.error.message();
    save_weights(first.run, scratch / "inside", inside);
    EXPECT_EQ(inside, own);

    DrivenResult later;
    DrivenRun second(settings("later"), note_ids(later));
    ASSERT_EQ(second.train([&](trl_rollout* rollout) { return second.write_later(rollout); }), TRL_OK)
        << second.run.error.message();
    save_weights(second.run, scratch / "later", later);
    EXPECT_EQ(later, own);
  }
}

TEST(DrivenRollouts, MayBeWrittenByABlockingCall) {
  NEED_MODEL();
  const host::Scratch scratch;
  DrivenRun driven(grpo(scratch / "out", {{"max_steps", "1"}}), reward_all);
  const auto few = host::config({{"generate.max_new_tokens", "5"}});
  ASSERT_EQ(driven.train([&](trl_rollout* rollout) {
    Error error;
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const auto text = row_of(rollout, i)["prompt"].get<std::string>();
      const char* const prompt = text.c_str();
      trl_completions* made = nullptr;
      EXPECT_EQ(trl_generator_generate(driven.driver.get(), &prompt, nullptr, 1, few.get(), nullptr, nullptr,
                                       &made, error),
                TRL_OK)
          << error.message();
      const host::Completions completions(made);
      size_t count = 0;
      const int32_t* const ids = trl_completions_tokens(made, 0, &count);
      EXPECT_GT(count, 0u);
      trl_rollout_set_completion(rollout, i, ids, count, nullptr, nullptr, nullptr, nullptr);
    }
    return int32_t{TRL_OK};
  }),
            TRL_OK)
      << driven.run.error.message();
}

int64_t workspace_of_now(trl_runtime* runtime) {
  int64_t bytes = 0;
  EXPECT_EQ(trl_runtime_memory(runtime, "workspace", &bytes, nullptr, nullptr), TRL_OK);
  return bytes;
}

// Also those of completions that are kept.
TEST(DrivenRollouts, GiveKeysAndValuesBackBeforeTheUpdate) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Runtime runtime = host::runtime();
  int64_t written = 0, rewarded = 0;
  const Function reward = [&](trl_rollout* rollout) {
    rewarded = workspace_of_now(runtime.get());
    return reward_all(rollout);
  };
  DrivenRun driven(grpo(scratch / "out"), reward, {{"generate.keep", "true"}});
  ASSERT_EQ(driven.train([&](trl_rollout* rollout) {
    driven.driver.write(rollout);
    written = workspace_of_now(runtime.get());
    return int32_t{TRL_OK};
  }),
            TRL_OK)
      << driven.run.error.message();
  EXPECT_LT(rewarded, written);
}

// Afterwards another thread waits for the end of the step.
TEST(DrivenRollouts, EndWithTheirFinish) {
  NEED_MODEL();
  const host::Scratch scratch;
  int finished = 0;
  std::atomic<int> waited{0};
  std::vector<std::thread> threads;
  DrivenRun driven(grpo(scratch / "out"), reward_all);
  std::vector<Driver> others;
  for (int i = 0; i < 3; ++i) others.emplace_back(driven.run.trainer.get());
  ASSERT_EQ(driven.train([&](trl_rollout* rollout) {
    Error error;
    driven.driver.write(rollout);
    EXPECT_EQ(trl_rollout_finish(rollout, nullptr, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_generator_step(driven.driver.get(), nullptr, nullptr, error), TRL_E_BUSY);
    EXPECT_TRUE(error.names("called inside a callback")) << error.message();
    threads.emplace_back([&waited, other = others.at(static_cast<size_t>(finished)).get()] {
      Error own;
      EXPECT_EQ(trl_generator_step(other, nullptr, nullptr, own), TRL_END) << own.message();
      ++waited;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // it waits before the next rollout is open
    ++finished;
    return int32_t{TRL_OK};
  }),
            TRL_OK)
      << driven.run.error.message();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(finished, 3);
  EXPECT_EQ(waited, 3);
  Error error;
  EXPECT_EQ(trl_generator_step(driven.driver.get(), nullptr, nullptr, error), TRL_END) << error.message();
}

// Everything else is refused in the function, as in any other one.
TEST(DrivenRollouts, AllowOnlyGeneratorsOfTheirTrainer) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  trl_generator* made = nullptr;
  ASSERT_EQ(trl_generator_create(model.get(), nullptr, &made, nullptr), TRL_OK);
  const host::Generator of_model(made);
  const Rewarded other(grpo(scratch / "other"), reward_all);
  const Driver of_other(other.trainer.get());
  DrivenRun driven(grpo(scratch / "out", {{"max_steps", "1"}}), [&](trl_rollout* rollout) {
    Error error;
    EXPECT_EQ(trl_generator_step(driven.driver.get(), nullptr, nullptr, error), TRL_E_BUSY);
    EXPECT_TRUE(error.names("called inside a callback")) << error.message();
    return reward_all(rollout);
  });
  ASSERT_EQ(driven.train([&](trl_rollout* rollout) {
    Error error;
    trl_trainer* const trainer = driven.run.trainer.get();
    EXPECT_EQ(trl_trainer_step(trainer, nullptr, error), TRL_E_BUSY);
    EXPECT_TRUE(error.names("trl_rollout_*")) << error.message();
    const host::Model same = host::model_of(trainer);
    trl_generator* another = nullptr;
    EXPECT_EQ(trl_generator_create(same.get(), nullptr, &another, error), TRL_E_BUSY);
    EXPECT_EQ(trl_generator_step(of_model.get(), nullptr, nullptr, error), TRL_E_BUSY);
    EXPECT_EQ(trl_generator_step(of_other.get(), nullptr, nullptr, error), TRL_E_BUSY);
    driven.driver.write(rollout);
    return int32_t{TRL_OK};
  }),
            TRL_OK)
      << driven.run.error.message();
}

// Within the function of one generator's tokens no other may work. One on another thread waits, whatever it
// is for, and does not disturb the function that writes the rollout.
TEST(DrivenRollouts, AreWrittenByOneThreadAtATime) {
  NEED_MODEL();
  const host::Scratch scratch;
  DrivenRun driven(grpo(scratch / "out", {{"max_steps", "1"}}), reward_all);
  const Driver second(driven.run.trainer.get());
  static std::atomic<int> tokens;
  static std::atomic<bool> waited;
  static std::thread other_thread;
  tokens = 0;
  waited = false;
  const auto on_token = [](void* data, size_t, int32_t, const char*, size_t, double) -> int32_t {
    auto* const other = static_cast<trl_generator*>(data);
    Error error;
    EXPECT_EQ(trl_generator_step(other, nullptr, nullptr, error), TRL_E_BUSY);
    EXPECT_TRUE(error.names("called inside a callback")) << error.message();
    if (tokens++ == 0) {
      other_thread = std::thread([other] {
        Error own;
        EXPECT_EQ(trl_generator_step(other, nullptr, nullptr, own), TRL_END) << own.message();
        waited = true;
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_FALSE(waited);
    return 0;
  };
  const auto few = host::config({{"generate.max_new_tokens", "2"}, {"generate.ignore_eos", "true"}});
  ASSERT_EQ(driven.train([&](trl_rollout* rollout) {
    const char* const prompt = "one";
    Error error;
    EXPECT_EQ(trl_generator_generate(driven.driver.get(), &prompt, nullptr, 1, few.get(), on_token,
                                     second.get(), nullptr, error),
              TRL_OK)
        << error.message();
    driven.driver.write(rollout);
    return int32_t{TRL_OK};
  }),
            TRL_OK)
      << driven.run.error.message();
  if (other_thread.joinable()) other_thread.join();
  EXPECT_EQ(tokens, 2);
}

// The generator's call ends with the trainer's, which can be tried again.
TEST(DrivenRollouts, EndWhenTheTrainerIsCancelled) {
  NEED_MODEL();
  const host::Scratch scratch;
  DrivenRun driven(grpo(scratch / "out", {{"max_steps", "1"}}), reward_all);
  const auto cancel = [](void* trainer, size_t, int32_t, const char*, size_t, double) -> int32_t {
    trl_trainer_cancel(static_cast<trl_trainer*>(trainer));
    return 0;
  };
  const auto many = host::config({{"generate.max_new_tokens", "100000"}, {"generate.ignore_eos", "true"}});
  EXPECT_EQ(driven.train([&](trl_rollout*) {
    driven.later = std::thread([&] {
      const char* const prompt = "one";
      Error error;
      EXPECT_EQ(trl_generator_generate(driven.driver.get(), &prompt, nullptr, 1, many.get(), cancel,
                                       driven.run.trainer.get(), nullptr, error),
                TRL_E_CANCELLED)
          << error.message();
    });
    return int32_t{TRL_LATER};
  }),
            TRL_E_CANCELLED)
      << driven.run.error.message();
  EXPECT_EQ(driven.train([&](trl_rollout* rollout) { return driven.write_later(rollout); }), TRL_OK)
      << driven.run.error.message();
}

}  // namespace
