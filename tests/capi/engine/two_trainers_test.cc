// Two trainers at once, each on a thread of its own, in one process: each is what it is alone. tests/run.sh
// --slow runs these under ThreadSanitizer, too.
#include <array>
#include <atomic>
#include <thread>

#include "engine/requests.h"
#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// What a run was: its losses, and what its model completes afterwards.
struct Ran {
  std::vector<double> losses;
  std::vector<int32_t> completion;
  bool operator==(const Ran&) const = default;
};

Ran run(const std::string& model, const char* seed) {
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  const host::Trainer trainer =
      host::trainer(host::with(host::tiny(scratch / "out", model), {{"save_strategy", "no"},
                                                                    {"report_to", "none"},
                                                                    {"max_steps", "4"},
                                                                    {"seed", seed},
                                                                    {"train_sampling_strategy", "random"}}),
                    rows.get());
  Error error;
  EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  Ran ran;
  const Json state = host::state(trainer.get());
  for (const Json& record : state["log_history"])
    if (record.contains("loss")) ran.losses.push_back(record["loss"]);
  const host::Generator generator = host::generator_of(trainer.get());
  const char* const prompt = "The small kernel";
  const auto options = host::config({{"generate.max_new_tokens", "4"}, {"generate.ignore_eos", "true"}});
  trl_completions* made = nullptr;
  EXPECT_EQ(trl_generator_generate(generator.get(), &prompt, nullptr, 1, options.get(), nullptr, nullptr,
                                   &made, error),
            TRL_OK)
      << error.message();
  const host::Completions owned(made);
  size_t count = 0;
  const int32_t* const ids = made != nullptr ? trl_completions_tokens(made, 0, &count) : nullptr;
  ran.completion.assign(ids, ids + count);
  return ran;
}

TEST(TwoTrainers, OnTwoThreadsAreAsAlone) {
  NEED_MODEL();
  struct Of {
    const char *model, *seed;
  };
  const std::array<Of, 2> both = {{{"models/qwen2", "1"}, {"models/llama", "2"}}};
  std::array<Ran, 2> together, alone;
  std::vector<std::thread> threads;
  std::atomic<int> ready{0};
  for (size_t i = 0; i < both.size(); ++i) {
    threads.emplace_back([&, i] {
      for (++ready; ready < 2;) std::this_thread::yield();
      together[i] = run(both[i].model, both[i].seed);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < both.size(); ++i) {
    alone[i] = run(both[i].model, both[i].seed);
    EXPECT_EQ(together[i].losses.size(), 4u) << both[i].model;
    EXPECT_TRUE(together[i] == alone[i]) << both[i].model;
  }
}

// One trainer trains while another one is made, asked and destroyed, again and again.
TEST(TwoTrainers, OneComesAndGoesBesideTheOther) {
  NEED_MODEL();
  const host::Scratch scratch, others;
  const host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  const host::Trainer trainer =
      host::trainer(host::with(host::tiny(scratch / "out"),
                               {{"save_strategy", "no"}, {"report_to", "none"}, {"max_steps", "1000"}}),
                    rows.get());
  trl_status status = TRL_OK;
  std::thread trains([&] { status = trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr); });
  for (int round = 0; round < 3; ++round) {
    Error error;
    EXPECT_EQ(host::create_trainer(nullptr, others, error), TRL_OK) << error.message();
    EXPECT_GE(host::state(trainer.get())["global_step"].get<int64_t>(), 0);
  }
  trl_trainer_cancel(trainer.get());
  trains.join();
  EXPECT_TRUE(status == TRL_E_CANCELLED || status == TRL_OK) << status;
}

}  // namespace
