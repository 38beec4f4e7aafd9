// What a callback throws in the middle of training and generating.
#include <cfenv>
#include <stdexcept>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "engine/run.h"

namespace {

using host::Error;

struct ThrowingLog {
  bool throws = false;
  static void write(void* data, int32_t, const char*, const char*, size_t) {
    if (static_cast<ThrowingLog*>(data)->throws) throw std::runtime_error("the disk is full");
  }
};

struct ThrowingSession {
  host::Scratch scratch;
  ThrowingLog log;
  host::Runtime runtime = host::runtime();
  host::Dataset rows = host::rows(
      "{\"text\": \"one two three\"}\n{\"text\": \"four five six\"}\n{\"text\": \"seven\"}\n{\"text\": "
      "\"eight\"}\n");
  host::Trainer trainer;
  ThrowingSession() {
    EXPECT_EQ(trl_runtime_set_log(runtime.get(), ThrowingLog::write, &log, nullptr, nullptr), TRL_OK);
    trainer = host::trainer(host::with(host::tiny(scratch / "out", "models/llama"), {{"max_steps", "3"}}),
                            rows.get(), nullptr, runtime.get());
  }
};

TEST(CallbackThrows, AnEventStopsTheRun) {
  ThrowingSession run;
  const auto on_event = [](void*, int32_t kind, const trl_metrics* metrics) -> int32_t {
    if (kind == TRL_ON_STEP && host::metric(metrics, "step") == 2) throw std::runtime_error("no more");
    return 0;
  };
  Error error;
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), on_event, nullptr, error), TRL_E_CALLBACK);
  EXPECT_EQ(error.message(), "the host's event callback threw: no more");
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 2);
}

TEST(CallbackThrows, TheLogEndsTrainingAndTheTrainerStaysUsable) {
  ThrowingSession run;
  run.log.throws = true;
  Error error;
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, error), TRL_E_CALLBACK);
  EXPECT_EQ(error.message(), "the host's log callback threw: the disk is full");
  EXPECT_LT(host::state(run.trainer.get())["global_step"], 3);
  run.log.throws = false;
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(host::state(run.trainer.get())["global_step"], 3);
}

TEST(CallbackThrows, ATokenEndsGenerating) {
  ThrowingSession run;
  const host::Generator generator = host::generator_of(run.trainer.get());
  int calls = 0;
  const auto on_token = [](void* data, size_t, int32_t, const char*, size_t, double) -> int32_t {
    ++*static_cast<int*>(data);
    throw std::runtime_error("the screen is gone");
  };
  const char* const prompts[] = {"one", "two"};
  trl_completions* completions = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_generate(generator.get(), prompts, nullptr, 2, nullptr, on_token, &calls,
                                   &completions, error),
            TRL_E_CALLBACK);
  EXPECT_EQ(error.message(), "the host's token callback threw: the screen is gone");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(completions, nullptr);
}

double third_loss() {
  ThrowingSession run;
  double loss = 0;
  for (int step = 0; step < 3; ++step) {
    const trl_metrics* metrics = nullptr;
    Error error;
    EXPECT_EQ(trl_trainer_step(run.trainer.get(), &metrics, error), TRL_OK) << error.message();
    if (metrics != nullptr) loss = host::metric(metrics, "loss");
  }
  return loss;
}

// The first run starts the threads of its team; those of a host that rounds otherwise have its arithmetic
// too.
TEST(HostThread, ItsArithmeticChangesNoLoss) {
  const double plain = third_loss();
  for (const int rounding : {FE_UPWARD, FE_TOWARDZERO, FE_DOWNWARD}) {
    std::fesetround(rounding);
    const double loss = third_loss();
    const int after = std::fegetround();
    std::fesetround(FE_TONEAREST);
    EXPECT_EQ(after, rounding);
    EXPECT_EQ(loss, plain) << rounding;
  }
#if defined(__x86_64__)
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | 0x8040);  // denormals are flushed
  const double loss = third_loss();
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & 0x8040, 0x8040u);
  EXPECT_EQ(loss, plain);
#endif
}

}  // namespace
