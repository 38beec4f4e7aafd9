// serve_share: generators of a trainer's model answer while it trains, from copies of its adapter after
// single steps. tests/run.sh --slow runs these under ThreadSanitizer, too.
#include <cstdlib>

#include "engine/taught_run.h"

namespace {

using host::adapted;
using host::Error;
using host::happens;
using host::Json;
using host::kAsked;
using host::NamedAnswer;
using host::Questions;
using host::TaughtRun;
using host::with_share;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

int swaps() {
  const char* const wanted = std::getenv("TRL_TEST_SWAPS");
  return wanted != nullptr ? std::atoi(wanted) : 20;
}

// The answers of the model with an adapter of a checkpoint; version 0: without one, as it begins.
std::vector<std::vector<int32_t>> saved_answers(const std::filesystem::path& out, int64_t version) {
  host::Model model = host::open_model(host::golden("models/qwen2"), {{"dtype", "float32"}});
  Error error;
  if (version > 0) {
    const std::string path = out / ("checkpoint-" + std::to_string(version));
    EXPECT_EQ(trl_model_add_adapter(model.get(), "saved", path.c_str(), error), TRL_OK) << error.message();
    EXPECT_EQ(trl_model_use_adapter(model.get(), "saved", error), TRL_OK) << error.message();
  }
  const host::Generator generator = host::generator_of(model.get());
  std::vector<std::vector<int32_t>> all;
  for (const char* const prompt : kAsked) {
    const size_t first = host::add(generator.get(), prompt,
                                   {{"generate.max_new_tokens", "8"}, {"generate.ignore_eos", "true"}});
    host::finish(generator.get());
    all.push_back(host::taken(generator.get(), first)["token_ids"].get<std::vector<int32_t>>());
  }
  return all;
}

// Neither run nor answers notice each other: losses and files are those of a run alone, and an answer is that
// of the saved adapter whose version it names.
TEST(LearnWhileServing, RunAndAnswersAreAsAlone) {
  NEED_MODEL();
  TaughtRun alone(20), beside(20, with_share());
  ASSERT_EQ(alone.train(), TRL_OK);
  Questions client(beside.generator.get());
  ASSERT_TRUE(happens([&] { return client.count() > 2; }));
  Error error;
  EXPECT_EQ(beside.train(error), TRL_OK) << error.message();
  const size_t then = client.count();
  EXPECT_TRUE(happens([&] { return client.count() > then + 4; }));
  client.stop();
  EXPECT_EQ(beside.losses(), alone.losses());
  EXPECT_EQ(alone.losses().size(), 20u);
  EXPECT_TRUE(beside.weights() == alone.weights());
  std::map<int64_t, std::vector<std::vector<int32_t>>> expected;
  for (const NamedAnswer& answer : client.answers()) {
    EXPECT_EQ(answer.weights["adapter"], "default");
    const int64_t version = answer.weights["version"];
    EXPECT_EQ(answer.weights["last_version"], version);
    if (!expected.contains(version)) expected[version] = saved_answers(beside.scratch / "out", version);
    EXPECT_EQ(answer.ids, expected[version][answer.prompt]) << version;
  }
  EXPECT_TRUE(expected.contains(0));
  EXPECT_TRUE(expected.contains(20));
  EXPECT_GT(expected.size(), 2u);
}

// Each step's adapter is taken over by requests that run. TRL_TEST_SWAPS: how many.
TEST(LearnWhileServing, ManySwapsWithoutALostRequest) {
  NEED_MODEL();
  const int steps = swaps();
  TaughtRun run(steps,
                host::with(with_share("token"), {{"save_strategy", "no"}, {"logging_strategy", "no"}}));
  Questions client(run.generator.get());
  ASSERT_TRUE(happens([&] { return client.count() > 0; }));
  Error error;
  int64_t version = 0;
  for (int step = 0; step < steps; ++step) {
    ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
    const size_t then = client.count();
    EXPECT_TRUE(happens([&] { return client.count() >= then + 3; }));  // two may be older
  }
  client.stop();
  bool within = false;
  std::map<int64_t, int> seen;
  for (const NamedAnswer& answer : client.answers()) {
    EXPECT_EQ(answer.ids.size(), 8u);
    const int64_t first = answer.weights["version"], last = answer.weights["last_version"];
    EXPECT_LE(first, last);
    EXPECT_GE(last, version);  // two at a time may end in another order
    version = std::max(version, last - 1);
    within |= first < last;
    ++seen[last];
  }
  EXPECT_TRUE(within);
  EXPECT_TRUE(seen.contains(steps));
  EXPECT_GE(std::ssize(seen), steps);
}

TEST(LearnWhileServing, AnswersComeWithinAStep) {
  NEED_MODEL();
  TaughtRun run(2, with_share());
  struct Held {
    std::atomic<bool> in_step{false}, goes_on{false};
    static int32_t on_event(void* data, int32_t event, const trl_metrics*) {
      auto* const self = static_cast<Held*>(data);
      if (event != TRL_ON_STEP) return 0;
      self->in_step = true;
      EXPECT_TRUE(happens([self] { return self->goes_on.load(); }));
      return 0;
    }
  } held;
  std::thread training(
      [&] { EXPECT_EQ(trl_trainer_train(run.trainer.get(), Held::on_event, &held, nullptr), TRL_OK); });
  ASSERT_TRUE(happens([&] { return held.in_step.load(); }));
  const size_t first = host::add(run.generator.get(), kAsked[0], {{"generate.max_new_tokens", "3"}});
  host::finish(run.generator.get());
  EXPECT_EQ(host::taken(run.generator.get(), first)["weights"]["version"], 1);
  held.goes_on = true;
  training.join();
}

// A pause holds the step and the answers; a cancel ends the call that trains, and answers go on.
TEST(LearnWhileServing, PauseAndCancel) {
  NEED_MODEL();
  TaughtRun run(100000, host::with(with_share(), {{"save_strategy", "no"}, {"logging_strategy", "no"}}));
  Error error;
  std::thread training([&] { EXPECT_EQ(run.train(error), TRL_E_CANCELLED); });
  Questions client(run.generator.get());
  ASSERT_TRUE(happens([&] { return client.count() > 2; }));
  trl_trainer_pause(run.trainer.get());
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const size_t paused = client.count();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_EQ(client.count(), paused);
  trl_trainer_resume(run.trainer.get());
  EXPECT_TRUE(happens([&] { return client.count() > paused + 2; }));
  trl_trainer_cancel(run.trainer.get());
  training.join();
  const size_t cancelled = client.count();
  EXPECT_TRUE(happens([&] { return client.count() > cancelled + 2; }));
  client.stop();
}

// Handles may be destroyed in any order; what is left goes on.
TEST(LearnWhileServing, DestroyedInAnyOrder) {
  NEED_MODEL();
  for (int order = 0; order < 3; ++order) {
    TaughtRun run(2, with_share());
    ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, nullptr), TRL_OK);
    const size_t first = host::add(run.generator.get(), kAsked[1], {{"generate.max_new_tokens", "3"}});
    ASSERT_EQ(trl_generator_step(run.generator.get(), nullptr, nullptr, nullptr), TRL_OK);
    if (order == 0) run.trainer.reset();
    if (order == 1) run.model.reset();
    if (order == 2) {
      run.generator.reset();
      run.generator = host::generator_of(run.model.get());
      continue;
    }
    host::finish(run.generator.get());
    EXPECT_EQ(host::taken(run.generator.get(), first)["weights"]["version"], 1);
  }
}

// Adapters of the host come and go beside a step; the trained one and the model alone have names.
TEST(LearnWhileServing, OtherAdapters) {
  NEED_MODEL();
  TaughtRun before(1), run(2, with_share());
  ASSERT_EQ(before.train(), TRL_OK);
  Error error;
  const std::string saved = before.scratch / "out/checkpoint-1";
  EXPECT_EQ(trl_model_add_adapter(run.model.get(), "other", saved.c_str(), error), TRL_OK) << error.message();
  EXPECT_EQ(trl_model_add_adapter(run.model.get(), "default", saved.c_str(), error), TRL_E_INVALID_ARGUMENT);
  const auto weights_with = [&](const char* adapter) {
    const size_t first = host::add(run.generator.get(), kAsked[0],
                                   {{"generate.max_new_tokens", "3"}, {"generate.adapter", adapter}});
    host::finish(run.generator.get());
    return host::taken(run.generator.get(), first)["weights"];
  };
  EXPECT_EQ(weights_with("other"),
            nlohmann::json({{"adapter", "other"}, {"version", nullptr}, {"last_version", nullptr}}));
  EXPECT_EQ(weights_with("default")["version"], 0);
  EXPECT_TRUE(weights_with("none")["adapter"].is_null());
  size_t none = 0;
  EXPECT_EQ(trl_generator_add(run.generator.get(), "a", 1, nullptr, 0,
                              host::config({{"generate.adapter", "default-0"}}).get(), &none, error),
            TRL_E_NOT_FOUND);
  EXPECT_EQ(trl_model_remove_adapter(run.model.get(), "other", error), TRL_OK) << error.message();
}

// Weights that requests are answered with stay as they are; a merged model is saved all the same.
TEST(LearnWhileServing, FrozenWeightsStay) {
  NEED_MODEL();
  TaughtRun run(2, with_share());
  ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, nullptr), TRL_OK);
  Questions client(run.generator.get());
  Error error;
  for (int i = 0; i < 3; ++i) {
    const std::string merged = run.scratch / "merged";
    EXPECT_EQ(trl_trainer_save(run.trainer.get(), merged.c_str(),
                               host::config({{"save.kind", "merged"}}).get(), error),
              TRL_OK)
        << error.message();
  }
  EXPECT_TRUE(happens([&] { return client.count() > 6; }));
  client.stop();
  const auto expected = saved_answers(run.scratch / "out", 1);
  for (const NamedAnswer& answer : client.answers()) EXPECT_EQ(answer.ids, expected[answer.prompt]);
}

TEST(LearnWhileServing, WhatCannotBeServedIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  const std::vector<std::pair<host::Settings, const char*>> cases = {
      {{{"use_peft", "false"}}, "use_peft: false, because all weights change in each step"},
      {{{"memory_budget", "4GiB"}}, "contradicts memory_budget"},
      {{{"fused_kernels", "off"}}, "contradicts fused_kernels: off"},
      {{{"lora_modules_to_save", "[lm_head]"}}, "needs an adapter that only adds terms"},
  };
  for (const auto& [more, why] : cases) {
    trl_trainer* made = nullptr;
    Error error;
    const host::Settings all = host::with(adapted(scratch / "out", 2, with_share()), more);
    EXPECT_EQ(trl_trainer_create(nullptr, host::config(all).get(), rows.get(), nullptr, &made, error),
              TRL_E_INVALID_CONFIG);
    EXPECT_EQ(error.key(), "serve_share") << error.message();
    EXPECT_TRUE(error.names(why)) << error.message();
    trl_trainer_destroy(made);
  }
}

}  // namespace
