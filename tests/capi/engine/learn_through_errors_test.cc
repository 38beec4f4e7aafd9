// serve_share, where things go wrong: a run that breaks, stops or is taken up again, hosts that ask from
// several threads, and clients that keep what they have.
#include "engine/taught_run.h"

namespace {

using host::adapted;
using host::Error;
using host::happens;
using host::Json;
using host::kAsked;
using host::NamedAnswer;
using host::Questions;
using host::Settings;
using host::TaughtRun;
using host::with;
using host::with_share;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

const Settings kQuiet = {{"save_strategy", "no"}, {"logging_strategy", "no"}};

Json asked(trl_generator* g, const Settings& more = {}) {
  const size_t first = host::add(g, kAsked[0], with({{"generate.max_new_tokens", "3"}}, more));
  host::finish(g);
  return Json(host::taken(g, first));
}

// A run whose weights overflow: answers go on with the last version that is usable.
TEST(LearnThroughErrors, ABrokenAdapterIsNotAnsweredWith) {
  NEED_MODEL();
  for (const char* const swap : {"request", "token"}) {
    TaughtRun run(6, with(with(with_share(swap), kQuiet),
                          {{"learning_rate", "1e300"}, {"optim", "sgd"}, {"max_grad_norm", "0"}}));
    int64_t last = 0;
    for (int step = 0; step < 4; ++step) {
      trl_trainer_step(run.trainer.get(), nullptr, nullptr);
      const Json answer = asked(run.generator.get());
      EXPECT_EQ(answer["finish_reason"], "length") << answer.dump();
      const int64_t version = answer["weights"]["last_version"];
      EXPECT_GE(version, last);
      last = version;
    }
    EXPECT_EQ(last, 0);
  }
}

// A host that ends the call from an event, and calls again.
TEST(LearnThroughErrors, AnErrorOfTheHostEndsTheCallAndNotTheAnswers) {
  NEED_MODEL();
  TaughtRun run(6, with(with_share("token"), kQuiet));
  Questions client(run.generator.get());
  ASSERT_TRUE(happens([&] { return client.count() > 2; }));
  const auto fails = [](void*, int32_t event, const trl_metrics*) -> int32_t {
    return event == TRL_ON_STEP ? -77 : 0;
  };
  Error error;
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), fails, nullptr, error), TRL_E_CALLBACK);
  const size_t then = client.count();
  EXPECT_TRUE(happens([&] { return client.count() > then + 4; }));
  EXPECT_EQ(run.train(error), TRL_OK) << error.message();
  const size_t after = client.count();
  EXPECT_TRUE(happens([&] { return client.count() > after + 4; }));
  client.stop();
  EXPECT_EQ(client.answers().back().weights["last_version"], 6);
}

// A run is stopped and taken up again, both times beside answers: the files of a run alone, and versions go
// on.
TEST(LearnThroughErrors, ARunThatIsTakenUpAgainHasTheSameBytes) {
  NEED_MODEL();
  const Settings whole = {{"save_only_model", "false"}};
  TaughtRun alone(6, whole);
  ASSERT_EQ(alone.train(), TRL_OK);
  host::Scratch scratch;
  const host::Dataset rows = host::rows(host::read_file(host::golden("data/datasets/train_lm.jsonl")));
  const auto begun = [&](const Settings& more) {
    return host::trainer(adapted(scratch / "out", 6, with(with(whole, with_share("token")), more)),
                         rows.get());
  };
  const auto versions = [](host::Trainer& trainer, int steps) {
    const host::Model model = host::model_of(trainer.get());
    const host::Generator generator = host::generator_of(model.get());
    Questions client(generator.get());
    EXPECT_TRUE(happens([&] { return client.count() > 0; }));
    Error error;
    for (int i = 0; i < steps; ++i)
      EXPECT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
    const size_t then = client.count();
    EXPECT_TRUE(happens([&] { return client.count() > then + 4; }));
    client.stop();
    return std::pair<int64_t, int64_t>(client.answers().front().weights["version"],
                                       client.answers().back().weights["last_version"]);
  };
  {
    host::Trainer first = begun({});
    EXPECT_EQ(versions(first, 3), std::pair(int64_t{0}, int64_t{3}));
  }
  host::Trainer second = begun({{"resume_from_checkpoint", "true"}});
  EXPECT_EQ(versions(second, 3), std::pair(int64_t{3}, int64_t{6}));
  const auto of = [](const std::filesystem::path& out) {
    return host::read_file(out / "checkpoint-6/adapter_model.safetensors");
  };
  EXPECT_TRUE(of(scratch / "out") == of(alone.scratch / "out"));
}

// Threads of the host ask and train at once, each with a generator of its own; some come and go.
TEST(LearnThroughErrors, ManyThreadsAndGenerators) {
  NEED_MODEL();
  TaughtRun run(8, with(with_share("token"), kQuiet));
  std::vector<host::Generator> generators;
  for (int i = 0; i < 2; ++i) generators.push_back(host::generator_of(run.model.get()));
  std::atomic<bool> over{false};
  std::thread visitor([&] {
    while (!over) {
      const host::Generator own = host::generator_of(run.model.get());
      const size_t first = host::add(own.get(), kAsked[2], {{"generate.max_new_tokens", "9"}});
      Error error;
      EXPECT_GE(trl_generator_step(own.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      EXPECT_EQ(trl_generator_cancel(own.get(), first, 1, error), TRL_OK) << error.message();
    }
  });
  {
    Questions one(generators[0].get()), two(generators[1].get());
    Error error;
    EXPECT_EQ(run.train(error), TRL_OK) << error.message();
    EXPECT_TRUE(happens([&] { return one.count() > 2 && two.count() > 2; }));
  }
  over = true;
  visitor.join();
}

// Conversations that are kept hold the versions they had; with all of them held a newer one waits.
TEST(LearnThroughErrors, KeptConversationsHoldTheirVersions) {
  NEED_MODEL();
  TaughtRun run(6, with(with(with_share("request"), kQuiet), {{"serve_versions", "2"}}));
  const Settings keeps = {{"generate.keep", "true"}, {"generate.ignore_eos", "true"}};
  std::vector<size_t> kept;
  Error error;
  const auto version_of = [&](size_t number) {
    return host::taken(run.generator.get(), number)["weights"]["last_version"];
  };
  for (int step = 0; step < 4; ++step) {
    kept.push_back(
        host::add(run.generator.get(), kAsked[1], with({{"generate.max_new_tokens", "2"}}, keeps)));
    host::finish(run.generator.get());
    ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, error), TRL_OK) << error.message();
  }
  EXPECT_EQ(version_of(kept[0]), 0);
  EXPECT_EQ(version_of(kept[1]), 1);
  EXPECT_EQ(version_of(kept[2]), 1);  // both copies are held
  EXPECT_EQ(version_of(kept[3]), 1);
  EXPECT_EQ(trl_generator_cancel(run.generator.get(), kept[0], 1, error), TRL_OK) << error.message();
  EXPECT_EQ(asked(run.generator.get())["weights"]["version"], 4);
  for (size_t i = 1; i < kept.size(); ++i)
    EXPECT_EQ(trl_generator_cancel(run.generator.get(), kept[i], 1, error), TRL_OK) << error.message();
}

// Two runs in one process, each beside its own answers, are as each alone.
TEST(LearnThroughErrors, SeveralTrainers) {
  NEED_MODEL();
  TaughtRun alone(5), one(5, with_share()), two(5, with_share("token"));
  ASSERT_EQ(alone.train(), TRL_OK);
  {
    Questions first(one.generator.get()), second(two.generator.get());
    std::thread other([&] { EXPECT_EQ(two.train(), TRL_OK); });
    EXPECT_EQ(one.train(), TRL_OK);
    other.join();
    EXPECT_TRUE(happens([&] { return first.count() > 2 && second.count() > 2; }));
  }
  EXPECT_TRUE(one.weights() == alone.weights());
  EXPECT_TRUE(two.weights() == alone.weights());
}

// What a constraint and prompt lookup do is the same beside training, and a failed request fails alone.
TEST(LearnThroughErrors, ConstrainedAnswersBesideTraining) {
  NEED_MODEL();
  TaughtRun run(1000, with(with_share("token"), kQuiet));
  std::thread training([&] { EXPECT_EQ(run.train(), TRL_E_CANCELLED); });
  const Settings lookup = {{"generate.speculative_config", "{method: ngram, num_speculative_tokens: 4}"}};
  for (int i = 0; i < 5; ++i) {
    const Json answer = asked(run.generator.get(), with({{"generate.regex", "[0-9]{2,3}-x"},
                                                         {"generate.max_new_tokens", "20"},
                                                         {"generate.temperature", "1"},
                                                         {"generate.seed", std::to_string(i)}},
                                                        lookup));
    EXPECT_EQ(answer["finish_reason"], "stop") << answer.dump();
    const std::string text = answer["text"];
    EXPECT_TRUE(text.ends_with("-x")) << text;
    const Json failed =
        asked(run.generator.get(), {{"generate.regex", "[0-9]{2}"}, {"generate.allowed_token_ids", "[70]"}});
    EXPECT_EQ(failed["finish_reason"], "abort") << failed.dump();
  }
  trl_trainer_cancel(run.trainer.get());
  training.join();
}

}  // namespace
