// The classes of C++ with the engine.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <string_view>
#include <thread>

#include "bindings/cpp/engine.h"

namespace {

using cpp_test::error_of;
using cpp_test::Json;
using cpp_test::kModel;
using cpp_test::Oops;
using cpp_test::Run;

using CppTraining = Run;
using CppGeneration = Run;
using CppRewards = Run;

void reward_all(trl::Rollout rollout) {
  for (std::size_t i = 0; i < rollout.size(); ++i) rollout.set_reward(i, i % 2 == 0 ? 1.0 : 0.0);
}

TEST_F(CppTraining, EventsTellAndAreAnswered) {
  trl::Trainer trainer(config(), rows_, &rows_);
  std::vector<std::int32_t> kinds;
  EXPECT_TRUE(trainer.train([&](const trl::Event& event) -> std::int32_t {
    kinds.push_back(event.kind());
    EXPECT_EQ(event["max_steps"], 4);
    if (event.kind() == trl::EventKind::save) {
      EXPECT_TRUE(std::filesystem::is_directory(event.text("path")));
      EXPECT_EQ(event.text("completions"), "");
    }
    if (event.kind() != trl::EventKind::step) return 0;
    std::vector<std::string> names;
    for (const auto& [name, value] : event.metrics()) names.push_back(name);
    EXPECT_EQ(names.size(), event.metrics().size());
    EXPECT_NE(event.metrics().find("loss"), event.metrics().end());
    EXPECT_THROW(event["no such number"], std::out_of_range);
    return event["step"] == 2   ? trl::Answer::save | trl::Answer::evaluate
           : event["step"] == 3 ? trl::Answer::stop
                                : 0;
  }));
  EXPECT_EQ(std::ranges::count(kinds, trl::EventKind::step), 3);
  EXPECT_EQ(std::ranges::count(kinds, trl::EventKind::save), 1);
  EXPECT_GE(std::ranges::count(kinds, trl::EventKind::evaluate), 1);
  EXPECT_TRUE(trainer.train());
  EXPECT_FALSE(trainer.train());
  EXPECT_FALSE(trainer.step());
  EXPECT_EQ(Json::parse(trainer.describe()).at("global_step"), 4);
}

TEST_F(CppTraining, AnExceptionEndsTheCallAndTheNextOneResumes) {
  trl::Trainer trainer = this->trainer();
  const auto at_a_step = [](const trl::Event& event) {
    if (event.kind() == trl::EventKind::step) throw Oops(static_cast<int>(event["step"]));
  };
  for (int step = 1; step <= 2; ++step) {
    try {
      trainer.train(at_a_step);
      ADD_FAILURE();
    } catch (const Oops& oops) {
      EXPECT_EQ(oops.number, step);
    }
  }
  const trl::Error error = error_of([&] {
    trainer.train([](const trl::Event& event) { return event.kind() == trl::EventKind::step ? -7 : 0; });
  });
  EXPECT_EQ(error.status(), trl::Status::callback);
  EXPECT_EQ(error.callback_code(), -7);
  EXPECT_THROW(trainer.train([](const trl::Event&) { return std::int64_t{1} << 32; }), std::out_of_range);
  EXPECT_TRUE(trainer.train());
}

TEST_F(CppTraining, AnExceptionOfTheLogEndsARun) {
  trl::Runtime runtime;
  trl::Trainer trainer = this->trainer({{"max_steps", 10000}}, &runtime);
  int thrown = 0, events = 0;
  runtime.set_log([&](std::int32_t, trl::TextView, trl::TextView) {
    ++thrown;
    throw Oops(1);
  });
  EXPECT_THROW(trainer.train([&](const trl::Event&) { events += thrown; }), Oops);
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(events, 0);
  runtime.set_log(nullptr);
  // A handle that was made nevertheless is freed.
  runtime.set_log([](std::int32_t, trl::TextView, trl::TextView) { throw Oops(2); });
  EXPECT_THROW(this->trainer({}, &runtime), Oops);
}

TEST_F(CppTraining, TheLogHasLines) {
  trl::Runtime runtime;
  std::vector<std::string> lines;
  runtime.set_log([&](std::int32_t level, const std::string& component, std::string_view text) {
    if (level == trl::LogLevel::info) lines.push_back(component + ": " + std::string(text));
  });
  trainer({}, &runtime).train();
  EXPECT_FALSE(lines.empty());
  EXPECT_TRUE(Json::parse(runtime.describe()).contains("engine"));
}

TEST_F(CppTraining, IsCancelledAndPausedFromAnotherThread) {
  trl::Runtime runtime;
  trl::Trainer trainer = this->trainer({{"max_steps", 1000000}}, &runtime);
  for (const bool whole : {false, true}) {
    std::atomic<bool> begun{false};
    std::thread thread([&] {
      while (!begun) std::this_thread::yield();
      trainer.pause();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      trainer.resume();
      whole ? runtime.cancel() : trainer.cancel();
    });
    EXPECT_EQ(error_of([&] { trainer.train([&](const trl::Event&) { begun = true; }); }).status(),
              trl::Status::cancelled);
    thread.join();
  }
  EXPECT_TRUE(trainer.step());
}

TEST_F(CppTraining, StepsSavesResumesAndEvaluates) {
  trl::Trainer trainer(config({{"max_steps", 2}}), rows_, &rows_);
  EXPECT_EQ(trainer.step()["step"], 1);
  trainer.save(scratch_ / "checkpoint", {{"save.kind", "checkpoint"}});
  const double loss = trainer.step()["loss"];
  EXPECT_GT(trainer.evaluate()["eval_loss"], 0);
  trainer.save({{"save.kind", "model"}});
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "out/model.safetensors"));
  trl::Trainer resumed =
      this->trainer({{"max_steps", 2}, {"resume_from_checkpoint", scratch_ / "checkpoint"}});
  EXPECT_EQ(resumed.step()["loss"], loss);
  trl::Evaluator evaluator(config({{"model_name_or_path", scratch_ / "out"},
                                   {"sample_prompts", R"(["the"])"},
                                   {"sample_max_new_tokens", 2}}));
  EXPECT_GT(evaluator.evaluate(rows_)["eval_loss"], 0);
  EXPECT_EQ(Json::parse(evaluator.complete()).size(), 1u);
}

TEST_F(CppTraining, PlansAndChecks) {
  const trl::Profile plan = trl::plan(config(), &rows_);
  EXPECT_GT(Json::parse(plan.json).at("peak_bytes"), 0);
  EXPECT_NE(plan.text, "");
  const trl::Runtime runtime;
  trl::check(config(), &runtime);
  trl::check(config());
  const trl::Error error = error_of([&] {
    trl::check(config({{"resume_from_checkpoint", "/nowhere"}}), &runtime);
  });
  EXPECT_EQ(error.status(), trl::Status::not_found);
  EXPECT_EQ(error.key(), "resume_from_checkpoint");
}

TEST_F(CppTraining, AnyOrderOfDestruction) {
  std::array<int, 4> order{0, 1, 2, 3};
  const trl::Config run = config({{"max_steps", 100}});
  do {
    trl::Runtime runtime;
    auto at = std::make_shared<int>(0);
    trl::Dataset rows = trl::Dataset::from_callback(
        [at](trl::Record row) {
          row.set_text("text", "the kernel waits");
          return ++*at <= 4;
        },
        [at] { *at = 0; }, {}, &runtime);
    trl::Trainer trainer(run, rows, nullptr, &runtime);
    trl::Generator generator = trainer.generator();
    for (const int which : order) {
      if (which == 0) runtime.reset();
      if (which == 1) rows.reset();
      if (which == 2) trainer = trl::Trainer();
      if (which == 3) generator = trl::Generator();
      EXPECT_TRUE(!trainer || trainer.step());
      if (!generator) continue;
      EXPECT_EQ(generator.generate({"the"}, {{"generate.max_new_tokens", 1}}).size(), 1u);
    }
    EXPECT_EQ(at.use_count(), 1);
  } while (std::ranges::next_permutation(order).found);
}

TEST_F(CppTraining, AnExceptionOfRowsComesThroughCreate) {
  const trl::Dataset rows = trl::Dataset::from_callback([](trl::Record&) -> bool { throw Oops(5); }, [] {});
  EXPECT_THROW(trl::Trainer(config(), rows), Oops);
}

TEST_F(CppGeneration, PromptsTogether) {
  trl::Model model(kModel);
  trl::Generator generator = model.generator();
  std::vector<std::vector<std::int32_t>> seen(4);
  std::vector<std::vector<double>> logprobs(4);
  const trl::Completions completions =
      generator.generate({"the kernel", "a page"},
                         {{"generate.max_new_tokens", 4},
                          {"generate.num_return_sequences", 2},
                          {"generate.logprobs", 0},
                          {"generate.temperature", 1}},
                         [&](std::size_t completion, std::int32_t token, trl::TextView, double logprob) {
                           seen.at(completion).push_back(token);
                           logprobs.at(completion).push_back(logprob);
                         });
  ASSERT_EQ(completions.size(), 4u);
  std::size_t index = 0;
  for (const trl::Completion& completion : completions) {
    EXPECT_EQ(completion.token_ids, seen[index]);
    EXPECT_EQ(completion.finish_reason, "length");
    const Json details = Json::parse(completion.json);
    EXPECT_EQ(details.at("text"), completion.text);
    EXPECT_EQ(details.at("logprobs"), Json(logprobs[index++]));
  }
  EXPECT_THROW(completions[4], std::out_of_range);
  EXPECT_EQ(completions.begin()->text, completions[0].text);
}

TEST_F(CppGeneration, AResultEndsACompletionAndAnExceptionTheCall) {
  trl::Model model(kModel);
  const trl::Tokenizer tokenizer(kModel);
  trl::Generator generator = model.generator(&tokenizer);
  const trl::Options nine{{"generate.max_new_tokens", 9}};
  const auto ended = generator.generate(
      {"the"}, nine, [](std::size_t, std::int32_t, trl::TextView, double) { return true; });
  EXPECT_EQ(ended[0].token_ids.size(), 1u);
  EXPECT_THROW(generator.generate({"the"}, nine,
                                  [](std::size_t, std::int32_t, trl::TextView, double) { throw Oops(1); }),
               Oops);
  EXPECT_EQ(generator.generate({"the"}, nine)[0].token_ids.size(), 9u);
}

TEST_F(CppGeneration, Requests) {
  trl::Model model(kModel);
  trl::Generator generator = model.generator();
  const std::size_t first =
      generator.add("the kernel", {{"generate.max_new_tokens", 3}, {"generate.keep", true}});
  const std::size_t second =
      generator.add(std::vector<std::int32_t>{1, 2, 3}, {{"generate.max_new_tokens", 50}});
  std::size_t tokens = 0;
  while (tokens < 6)
    EXPECT_TRUE(generator.step([&](std::size_t, std::int32_t, trl::TextView, double) { ++tokens; }));
  EXPECT_EQ(generator.take(second)[0].finish_reason, "");
  EXPECT_EQ(generator.take(first)[0].finish_reason, "length");
  generator.extend(first, " waits", {{"generate.max_new_tokens", 2}});
  generator.cancel(second);
  while (generator.step()) continue;
  EXPECT_EQ(generator.take(first)[0].token_ids.size(), 2u);
  EXPECT_EQ(generator.take(second)[0].finish_reason, "cancelled");
  generator.extend(first, std::vector<std::int32_t>{4}, {{"generate.max_new_tokens", 1}});
  while (generator.step()) continue;
  EXPECT_EQ(generator.take(first)[0].token_ids.size(), 1u);
  generator.cancel(first);
  generator.release_memory();
  EXPECT_EQ(error_of([&] { generator.take(second); }).status(), trl::Status::not_found);
}

TEST_F(CppGeneration, WhatAFunctionThrowsInAStepEndsItsCompletionAlone) {
  trl::Model model(kModel);
  trl::Generator generator = model.generator();
  const trl::Options three{{"generate.max_new_tokens", 3}, {"generate.ignore_eos", true}};
  const std::size_t first = generator.add("the kernel", three), second = generator.add("a page", three),
                    third = generator.add("the lock", three);
  std::vector<std::size_t> told;
  const auto fail = [&](std::size_t completion, std::int32_t, trl::TextView, double) {
    told.push_back(completion);
    if (completion != third) throw Oops(static_cast<int>(completion));
  };
  try {
    generator.step(fail);
    FAIL() << "nothing was thrown";
  } catch (const Oops& oops) {
    EXPECT_EQ(oops.number, static_cast<int>(told.front()));  // the first that was thrown
  }
  while (generator.step(fail)) continue;
  std::sort(told.begin(), told.end());
  EXPECT_EQ(told, (std::vector<std::size_t>{first, second, third, third, third}));
  for (const std::size_t number : {first, second}) {
    const trl::Completion ended = generator.take(number)[0];
    EXPECT_EQ(ended.finish_reason, "cancelled");
    EXPECT_EQ(ended.token_ids.size(), 1u);
  }
  const trl::Completion whole = generator.take(third)[0];
  EXPECT_EQ(whole.finish_reason, "length");
  EXPECT_EQ(whole.token_ids.size(), 3u);
}

TEST_F(CppGeneration, Streams) {
  trl::Model model(kModel);
  trl::Generator generator = model.generator();
  const trl::Options options{{"generate.max_new_tokens", 6}};
  const trl::Completion whole = generator.generate({"the kernel"}, options)[0];
  std::vector<std::int32_t> ids;
  std::string text;
  for (const trl::Token& token : generator.stream("the kernel", options)) {
    ids.push_back(token.id);
    EXPECT_TRUE(std::isnan(token.log_probability));
    text += token.text;
  }
  EXPECT_EQ(ids, whole.token_ids);
  EXPECT_EQ(text, whole.text);
  {
    trl::Stream stream = generator.stream(std::vector<std::int32_t>{1, 2}, options);
    trl::Stream moved = std::move(stream);
    trl::Token token;
    EXPECT_TRUE(moved.next(token));
  }
  EXPECT_FALSE(generator.step());  // leaving a stream has ended its completion
}

TEST_F(CppGeneration, DescribesConvertsSavesAndScores) {
  trl::Model model(kModel);
  const Json described = Json::parse(model.describe());
  trl::convert(kModel, scratch_ / "model.gguf", {{"convert.type", "f32"}});
  trl::Model again(scratch_ / "model.gguf");
  EXPECT_EQ(Json::parse(again.describe()).at("parameters"), described.at("parameters"));
  again.save(scratch_ / "again");
  EXPECT_TRUE(std::filesystem::exists(scratch_ / "again/config.json"));
  EXPECT_EQ(error_of([&] { model.score({"text"}); }).status(), trl::Status::unsupported);
  EXPECT_EQ(error_of([] { trl::Model("/nowhere"); }).status(), trl::Status::not_found);

  const trl::Dataset pairs =
      trl::Dataset::from_buffer("jsonl", R"({"prompt": "one", "chosen": " two", "rejected": " four"}
{"prompt": "two", "chosen": " three", "rejected": " six"}
)");
  trl::Trainer trainer(config({{"method", "reward"}, {"max_steps", 1}}), pairs);
  trainer.train();
  trainer.save(scratch_ / "scorer");
  trl::Model scorer(scratch_ / "scorer");
  const std::vector<float> scores = scorer.score({"one two", std::string("one\0three", 9)});
  ASSERT_EQ(scores.size(), 2u);
  EXPECT_NEAR(scores[0], scorer.score({"one two"}, trl::TextForm::answer)[0], 1e-5);
  EXPECT_NE(scores[0], scores[1]);
}

TEST_F(CppGeneration, Adapters) {
  trl::Trainer trainer = this->trainer({{"use_peft", true}, {"lora_r", 2}, {"max_steps", 1}});
  trainer.train();
  trainer.save(scratch_ / "adapter");
  trl::Model trained = trainer.model();
  trained.add_adapter("other", scratch_ / "adapter");
  EXPECT_EQ(trainer.generator()
                .generate({"the"}, {{"generate.adapter", "other"}, {"generate.max_new_tokens", 1}})
                .size(),
            1u);
  trained.remove_adapter("other");
  trl::Model model(kModel);
  model.add_adapter("mine", scratch_ / "adapter");
  model.use_adapter("mine");
  model.merge_adapter("mine");
  model.merge_adapter(nullptr);
  model.use_adapter(nullptr);
  model.remove_adapter("mine");
  EXPECT_EQ(error_of([&] { model.use_adapter("mine"); }).status(), trl::Status::not_found);
}

TEST_F(CppRewards, AreSetAtOnceOrLater) {
  trl::Trainer trainer = online({{"logging_strategy", "steps"}, {"logging_steps", 1}});
  std::thread answering;
  trainer.add_reward("at_once", [](trl::Rollout& rollout) {
    std::size_t rows = 0;
    for (const std::string& row : rollout) {
      EXPECT_TRUE(Json::parse(row).at("columns").contains("target"));
      rollout.set_value(rows, "note", "\"row\"");
      rollout.set_reward(rows++, 1.0);
    }
    EXPECT_EQ(error_of([&] { rollout.set_reward(rows, 1.0); }).status(), trl::Status::invalid_argument);
    rollout.log("mine", 2.0);
  });
  trainer.add_reward("later", [&answering](trl::Rollout rollout) {
    if (answering.joinable()) answering.join();
    answering = std::thread([rollout]() mutable {
      for (std::size_t i = 0; i < rollout.size(); ++i) rollout.set_reward(i, 0.5);
      rollout.finish();
    });
    return trl::Status::later;
  });
  EXPECT_TRUE(trainer.train());
  answering.join();
  const Json record = Json::parse(trainer.describe()).at("log_history").at(0);
  EXPECT_EQ(record.at("rewards/later/mean"), 0.5);
  EXPECT_EQ(record.at("mine"), 2.0);
}

TEST_F(CppRewards, AnExceptionMayCountAsNone) {
  trl::Trainer trainer =
      online({{"on_reward_error", "none"}, {"logging_strategy", "steps"}, {"logging_steps", 1}});
  int asked = 0;
  trainer.add_reward("fails", [&asked](trl::Rollout) {
    ++asked;
    throw std::runtime_error("in a reward");
  });
  trainer.add_reward("reward", [](trl::Rollout rollout) { reward_all(rollout); });
  EXPECT_TRUE(trainer.train());
  EXPECT_EQ(asked, 2);
  EXPECT_EQ(Json::parse(trainer.describe()).at("log_history").at(1).at("rewards/reward/mean"), 0.5);

  trl::Trainer other = online();
  other.add_reward("fails", [](trl::Rollout) { throw std::runtime_error("in a reward"); });
  EXPECT_THROW(other.step(), std::runtime_error);
}

TEST_F(CppRewards, AnExceptionCanBeTriedAgain) {
  trl::Trainer trainer = online();
  bool fails = true;
  trainer.add_reward("reward", [&fails](trl::Rollout rollout) {
    if (std::exchange(fails, false)) throw Oops(3);
    reward_all(rollout);
  });
  EXPECT_THROW(trainer.step(), Oops);
  EXPECT_EQ(trainer.step()["step"], 1);

  trl::Trainer other = online();
  other.add_reward("reward", [](trl::Rollout rollout) {
    rollout.finish("the judge is away");
    return trl::Status::later;
  });
  const trl::Error error = error_of([&] { other.step(); });
  EXPECT_EQ(error.status(), trl::Status::callback);
  EXPECT_NE(std::string(error.what()).find("the judge is away"), std::string::npos);
}

TEST_F(CppRewards, AreFreedAlsoIfRefused) {
  const auto alive = std::make_shared<int>(0);
  const auto reward = [alive](trl::Rollout rollout) { reward_all(rollout); };
  {
    trl::Trainer trainer = online();
    trainer.add_reward("reward", reward);
    EXPECT_EQ(error_of([&] { trainer.add_reward("reward", reward); }).status(), trl::Status::invalid_config);
    EXPECT_EQ(alive.use_count(), 3);
  }
  EXPECT_EQ(error_of([&] { trainer().add_reward("reward", reward); }).status(),
            trl::Status::invalid_argument);
  EXPECT_EQ(alive.use_count(), 2);
}

TEST_F(CppRewards, TheHostWritesCompletions) {
  std::vector<Json> written;
  trl::Trainer trainer = online();
  trainer.add_reward("reward", [&](trl::Rollout rollout) {
    for (const std::string& row : rollout) written.push_back(Json::parse(row));
    reward_all(rollout);
  });
  trainer.set_rollout([](trl::Rollout rollout) {
    const std::vector<std::int32_t> ids{5, 6, 7};
    EXPECT_THROW(rollout.set_completion(0, ids, std::vector<float>{0}), std::invalid_argument);
    for (std::size_t i = 0; i < rollout.size(); ++i)
      rollout.set_completion(i, ids, std::vector<float>{-1, -2, -3}, std::vector<std::uint8_t>{1, 1, 0},
                             R"({"mark": 4})");
  });
  EXPECT_TRUE(trainer.step());
  ASSERT_FALSE(written.empty());
  EXPECT_EQ(written[0].at("completion_ids"), Json({5, 6, 7}));
  EXPECT_EQ(written[0].at("columns").at("mark"), 4);

  trl::Trainer other = online();
  other.add_reward("reward", reward_all);
  trl::Generator generator = other.generator();
  const trl::Config options{{"generate.max_new_tokens", 4}};
  other.set_rollout([&](trl::Rollout rollout) {
    for (std::size_t i = 0; i < rollout.size(); ++i) {
      const auto ids = Json::parse(rollout[i]).at("prompt_ids").get<std::vector<std::int32_t>>();
      const std::size_t first = generator.add(ids, options);
      while (generator.step()) continue;
      rollout.set_completion(i, generator.take(first)[0].token_ids);
    }
  });
  EXPECT_TRUE(other.step());
}

TEST_F(CppRewards, Tools) {
  const std::string chats = R"({"prompt": [{"role": "user", "content": "One?"}]}
{"prompt": [{"role": "user", "content": "Two?"}]}
)";
  Json ends = Json::array();
  for (int id = 0; id < 96; ++id) ends.push_back(id);
  trl::Trainer trainer = online(
      {{"tools", R"([{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters":
                     {"type": "object", "properties": {"a": {"type": "integer"}}}}}])"},
       {"tool_call_parser", "host"},
       {"max_completion_length", 200},
       {"generation_kwargs", Json{{"stop_token_ids", ends}}.dump()}},
      chats);
  trainer.add_reward("reward", reward_all);
  std::vector<int> called(8), calls(8);
  trainer.set_tools([&](trl::Rollout rollout) {
    for (std::size_t i = 0; i < rollout.size(); ++i) {
      const Json row = Json::parse(rollout[i]);
      const std::size_t place = row.at("place");
      if (row.at("ask") == "call") {
        ++calls.at(place);
        rollout.set_value(i, "results", "[41]");
        continue;
      }
      Json message{{"role", "assistant"}, {"content", "I add."}};
      if (called.at(place)++ == 0)
        message["tool_calls"] = {
            {{"type", "function"}, {"function", {{"name", "add"}, {"arguments", {{"a", 1}}}}}}};
      rollout.set_value(i, "message", message.dump());
    }
  });
  EXPECT_TRUE(trainer.step());
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 1);
}

}  // namespace
