// Cancelling and pausing a trainer from other threads: at any moment, within a step, and without a trace.
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;
using Clock = std::chrono::steady_clock;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Steps of some ten milliseconds.
struct LongRun {
  host::Scratch scratch;
  host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  host::Trainer trainer;
  explicit LongRun(const char* max_steps)
      : trainer(host::trainer(host::with(host::tiny(scratch / "out"), {{"per_device_train_batch_size", "32"},
                                                                       {"per_device_eval_batch_size", "32"},
                                                                       {"gradient_checkpointing", "true"},
                                                                       {"save_strategy", "no"},
                                                                       {"report_to", "none"},
                                                                       {"max_steps", max_steps}}),
                              rows.get(), rows.get())) {}
  Json log() const {
    Json log = host::state(trainer.get())["log_history"];
    for (Json& record : log) {
      for (const char* timing : {"train_runtime", "train_samples_per_second", "train_steps_per_second"})
        record.erase(timing);
    }
    return log;
  }
  std::string weights() const {
    EXPECT_EQ(trl_trainer_save(trainer.get(), (scratch / "saved").c_str(), nullptr, nullptr), TRL_OK);
    return host::read_file(scratch / "saved" / "model.safetensors");
  }
};

void wait(int64_t microseconds) { std::this_thread::sleep_for(std::chrono::microseconds(microseconds)); }

// What a thread asks for within a call of another.
template <class Body>
std::thread later(int64_t microseconds, Body body) {
  return std::thread([microseconds, body] {
    wait(microseconds);
    body();
  });
}

TEST(Interrupt, CancelsAtAnyMomentLeaveNoTrace) {
  NEED_MODEL();
  LongRun run("12"), whole("12");
  ASSERT_EQ(trl_trainer_train(whole.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  std::mt19937 random(3);
  int cancelled = 0;
  Error error;
  for (trl_status status = TRL_OK; status != TRL_END;) {
    const int64_t step = host::state(run.trainer.get())["global_step"];
    std::thread other = later(std::uniform_int_distribution<int64_t>(0, 20000)(random),
                              [&] { trl_trainer_cancel(run.trainer.get()); });
    status = trl_trainer_step(run.trainer.get(), nullptr, error);
    other.join();
    if (status == TRL_E_CANCELLED) {
      ++cancelled;
      EXPECT_EQ(host::state(run.trainer.get())["global_step"], step);
    } else {
      ASSERT_GE(status, TRL_OK) << error.message();
    }
    if (cancelled > 60) {  // on a slow machine no step would ever be done
      ASSERT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, nullptr) == TRL_E_CANCELLED
                    ? trl_trainer_train(run.trainer.get(), nullptr, nullptr, nullptr)
                    : TRL_OK,
                TRL_OK);
      break;
    }
  }
  EXPECT_GE(cancelled, 1);
  EXPECT_EQ(run.log(), whole.log());
  EXPECT_TRUE(run.weights() == whole.weights());
}

TEST(Interrupt, ACancelAfterTheEndChangesNothing) {
  NEED_MODEL();
  LongRun run("2");
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  trl_trainer_cancel(run.trainer.get());
  Error error;
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  trl_trainer_cancel(run.trainer.get());
  EXPECT_EQ(trl_trainer_evaluate(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  trl_trainer_cancel(run.trainer.get());
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_END) << error.message();
}

TEST(Interrupt, ACancelEndsAnEvaluationAndASave) {
  NEED_MODEL();
  LongRun run("2");
  Error error;
  trl_trainer_cancel(run.trainer.get());
  EXPECT_EQ(trl_trainer_evaluate(run.trainer.get(), nullptr, nullptr, error), TRL_E_CANCELLED);
  EXPECT_EQ(trl_trainer_evaluate(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  const std::string target = run.scratch / "saved";
  trl_trainer_cancel(run.trainer.get());
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), target.c_str(), nullptr, error), TRL_E_CANCELLED);
  EXPECT_FALSE(std::filesystem::exists(target));
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), target.c_str(), nullptr, error), TRL_OK) << error.message();
}

// A host that is late with its request can have a short call take it.
TEST(Interrupt, ACancelEndsTheNextCallHoweverShortItIs) {
  NEED_MODEL();
  LongRun run("2");
  const auto reward = [](void*, trl_rollout*) -> int32_t { return 0; };
  Error error;
  trl_trainer_cancel(run.trainer.get());
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 0);  // takes no request
  EXPECT_EQ(trl_trainer_add_reward(run.trainer.get(), "points", reward, nullptr, nullptr, error),
            TRL_E_CANCELLED);
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
}

int32_t count_steps(void* data, int32_t event, const trl_metrics*) {
  if (event == TRL_ON_STEP) ++*static_cast<std::atomic<int>*>(data);
  return 0;
}

TEST(Interrupt, AThousandPausesLeaveNoTrace) {
  NEED_MODEL();
  LongRun run("150"), whole("150");
  ASSERT_EQ(trl_trainer_train(whole.trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  std::atomic<int> steps{0};
  std::thread training(
      [&] { EXPECT_EQ(trl_trainer_train(run.trainer.get(), count_steps, &steps, nullptr), TRL_OK); });
  std::mt19937 random(5);
  int pauses = 0;
  for (; pauses < 1000 && steps < 150; ++pauses) {
    trl_trainer_pause(run.trainer.get());
    if (pauses % 2 == 0) trl_trainer_pause(run.trainer.get());  // pausing twice is pausing once
    wait(std::uniform_int_distribution<int64_t>(0, 300)(random));
    trl_trainer_resume(run.trainer.get());
    wait(std::uniform_int_distribution<int64_t>(0, 600)(random));
  }
  training.join();
  EXPECT_EQ(pauses, 1000);
  EXPECT_EQ(run.log(), whole.log());
  EXPECT_TRUE(run.weights() == whole.weights());
}

TEST(Interrupt, APauseHoldsUntilItIsTakenBack) {
  NEED_MODEL();
  LongRun run("100000");
  std::atomic<int> steps{0};
  trl_trainer_pause(run.trainer.get());  // before the call: it holds from its beginning
  std::atomic<trl_status> status{TRL_OK};
  std::thread training([&] { status = trl_trainer_train(run.trainer.get(), count_steps, &steps, nullptr); });
  wait(100000);
  EXPECT_EQ(steps, 0);
  trl_trainer_resume(run.trainer.get());
  for (int i = 0; i < 1000 && steps < 3; ++i) wait(5000);
  EXPECT_GE(steps, 3);
  trl_trainer_pause(run.trainer.get());
  wait(100000);
  const int held = steps;
  wait(200000);
  EXPECT_EQ(steps, held);
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], held);
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, nullptr), TRL_E_BUSY);
  const auto begin = Clock::now();
  trl_trainer_cancel(run.trainer.get());  // ends what is held
  training.join();
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(2));
  EXPECT_EQ(status, TRL_E_CANCELLED);
  Error error;  // the pause is still there, and holds no save
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  std::thread resuming = later(50000, [&] { trl_trainer_resume(run.trainer.get()); });
  EXPECT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
  resuming.join();
}

int32_t count_tokens(void* tokens, size_t, int32_t, const char*, size_t, double) {
  ++*static_cast<std::atomic<int>*>(tokens);
  return 0;
}

host::Config new_tokens(const char* count) {
  return host::config({{"generate.max_new_tokens", count}, {"generate.ignore_eos", "true"}});
}

// Counts on until at least `tokens`, if nothing holds it.
int tokens_after(const std::atomic<int>& count, int tokens) {
  for (int i = 0; i < 1000 && count < tokens; ++i) wait(5000);
  return count;
}

TEST(Interrupt, APauseHoldsAGenerationOfTheTrainer) {
  NEED_MODEL();
  LongRun run("1");
  const host::Generator generator = host::generator_of(run.trainer.get());
  const host::Config many = new_tokens("1000000");
  const char* const prompts[] = {"The small kernel"};
  std::atomic<int> tokens{0};
  std::thread generating([&] {
    EXPECT_EQ(trl_generator_generate(generator.get(), prompts, nullptr, 1, many.get(), count_tokens, &tokens,
                                     nullptr, nullptr),
              TRL_E_CANCELLED);
  });
  EXPECT_GE(tokens_after(tokens, 3), 3);
  trl_trainer_pause(run.trainer.get());
  wait(100000);
  const int held = tokens;
  wait(200000);
  EXPECT_EQ(tokens, held);
  trl_trainer_resume(run.trainer.get());
  EXPECT_GT(tokens_after(tokens, held + 3), held);
  trl_trainer_pause(run.trainer.get());
  wait(50000);
  trl_trainer_cancel(run.trainer.get());  // ends what is held
  generating.join();
  trl_trainer_resume(run.trainer.get());
}

// Requests are taken meanwhile; their tokens are those of a generation that was not held.
TEST(Interrupt, APauseHoldsAStepOfAGenerator) {
  NEED_MODEL();
  LongRun run("1");
  const host::Generator generator = host::generator_of(run.trainer.get());
  const host::Config few = new_tokens("12");
  const std::vector<int32_t> ids = {1, 2, 3};
  Error error;
  std::vector<std::vector<int32_t>> texts;
  for (const bool pauses : {false, true}) {
    if (pauses) trl_trainer_pause(run.trainer.get());
    size_t first = 0;
    ASSERT_EQ(
        trl_generator_add(generator.get(), nullptr, 0, ids.data(), ids.size(), few.get(), &first, error),
        TRL_OK)
        << error.message();
    std::atomic<int> tokens{0};
    std::thread stepping([&] {
      while (trl_generator_step(generator.get(), count_tokens, &tokens, nullptr) == TRL_OK) {
      }
    });
    if (pauses) {
      wait(200000);
      EXPECT_EQ(tokens, 0);
      trl_trainer_resume(run.trainer.get());
    }
    stepping.join();
    trl_completions* taken = nullptr;
    ASSERT_EQ(trl_generator_take(generator.get(), first, 1, &taken, error), TRL_OK) << error.message();
    size_t count = 0;
    const int32_t* const made = trl_completions_tokens(taken, 0, &count);
    texts.emplace_back(made, made + count);
    trl_completions_destroy(taken);
  }
  EXPECT_EQ(texts[0].size(), 12u);
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(Interrupt, DestroyingAPausedTrainerEndsWhatIsHeld) {
  NEED_MODEL();
  LongRun run("100000");
  std::atomic<int> steps{0};
  trl_trainer* const trainer = run.trainer.release();
  std::thread training(
      [&] { EXPECT_EQ(trl_trainer_train(trainer, count_steps, &steps, nullptr), TRL_E_CANCELLED); });
  for (int i = 0; i < 1000 && steps < 1; ++i) wait(5000);
  trl_trainer_pause(trainer);
  wait(50000);
  trl_trainer_destroy(trainer);
  training.join();
}

}  // namespace
