// A step in halves (trl_trainer_backward, trl_trainer_update), the learning rate that a host sets, and
// evaluations on rows that it gives.
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <thread>

#include "engine/rewarded.h"

namespace halves_test {
namespace {

using host::Error;
using host::grpo;
using host::Json;
using host::kPrompts;
using host::reward_all;
using host::Rewarded;
using host::row_of;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

host::Dataset rows_of(const std::string& file) {
  return host::open_rows(host::golden("data/datasets/" + file));
}

// Records without timings, and without those of evaluations.
Json records(trl_trainer* trainer) {
  Json kept = Json::array();
  const Json state = host::state(trainer);
  for (const Json& record : state["log_history"]) {
    if (record.contains("eval_runtime")) continue;
    Json own = Json::object();
    for (const auto& [name, value] : record.items())
      if (!name.ends_with("_runtime") && !name.ends_with("_per_second") && name != "step_time")
        own[name] = value;
    kept.push_back(std::move(own));
  }
  return kept;
}

std::string saved(trl_trainer* trainer, const std::filesystem::path& directory, bool adapter = false) {
  Error error;
  EXPECT_EQ(trl_trainer_save(trainer, directory.c_str(), nullptr, error), TRL_OK) << error.message();
  return host::read_file(directory / (adapter ? "adapter_model.safetensors" : "model.safetensors"));
}

void save_checkpoint(trl_trainer* trainer, const std::filesystem::path& directory) {
  Error error;
  const host::Config options = host::config({{"save.kind", "checkpoint"}});
  EXPECT_EQ(trl_trainer_save(trainer, directory.c_str(), options.get(), error), TRL_OK) << error.message();
}

void train(trl_trainer* trainer) {
  Error error;
  ASSERT_EQ(trl_trainer_train(trainer, nullptr, nullptr, error), TRL_OK) << error.message();
}

// Trains to the end in halves; between is called within each step.
void train_in_halves(trl_trainer* trainer, const std::function<void()>& between = {}) {
  Error error;
  const trl_metrics* metrics = nullptr;
  for (;;) {
    const trl_status status = trl_trainer_backward(trainer, &metrics, error);
    ASSERT_GE(status, TRL_OK) << error.message();
    ASSERT_NE(metrics, nullptr);
    if (status == TRL_END) break;
    const double loss = host::metric(metrics, "loss");
    if (between) between();
    ASSERT_EQ(trl_trainer_update(trainer, 1, &metrics, error), TRL_OK) << error.message();
    EXPECT_EQ(host::metric(metrics, "loss"), loss);
    EXPECT_GE(host::metric(metrics, "grad_norm"), 0);
  }
  EXPECT_EQ(trl_trainer_step(trainer, nullptr, error), TRL_END) << error.message();
}

Settings short_run(const std::filesystem::path& output, const Settings& more) {
  return host::with(host::with(host::tiny(output), {{"max_steps", "3"}, {"save_strategy", "no"}}), more);
}

TEST(Halves, AreTheStep) {
  NEED_MODEL();
  struct Case {
    const char* name;
    const char* rows;
    Settings more;
  };
  const Settings lora = {
      {"use_peft", "true"}, {"lora_target_modules", "[q_proj, v_proj]"}, {"lora_dropout", "0.1"}};
  for (const Case& one :
       {Case{"sft",
             "train_lm.jsonl",
             {{"gradient_accumulation_steps", "3"}, {"per_device_train_batch_size", "2"}}},
        Case{"bf16",
             "train_lm.jsonl",
             {{"bf16", "true"}, {"gradient_checkpointing", "true"}, {"profile_parts", "true"}}},
        Case{"lora", "train_lm.jsonl", lora},
        Case{"dpo", "train_pref.jsonl", {{"method", "dpo"}, {"gradient_accumulation_steps", "2"}}},
        Case{"dpo_lora", "train_pref.jsonl", host::with(lora, {{"method", "dpo"}})},
        Case{"kto", "train_unpaired.jsonl", {{"method", "kto"}}},
        Case{"reward", "train_pref.jsonl", {{"method", "reward"}}}}) {
    SCOPED_TRACE(one.name);
    const host::Scratch scratch;
    const host::Dataset rows = rows_of(one.rows);
    const bool adapter = std::string(one.name).find("lora") != std::string::npos;
    const host::Trainer whole = host::trainer(short_run(scratch / "whole", one.more), rows.get());
    train(whole.get());
    const host::Trainer halves = host::trainer(short_run(scratch / "halves", one.more), rows.get());
    train_in_halves(halves.get());
    EXPECT_TRUE(saved(halves.get(), scratch / "a", adapter) == saved(whole.get(), scratch / "b", adapter));
    if (std::string(one.name) != "bf16") {  // its records have times
      EXPECT_EQ(records(halves.get()), records(whole.get()));
    }
  }
}

using Base = Settings (*)(const std::string& output_dir, const Settings& more);

// Rows come from a buffer of completions; a step of two passes over it, too.
TEST(Halves, AreTheStepOfCompletions) {
  NEED_MODEL();
  struct Case {
    const char* name;
    Base base;
    Settings more;
  };
  for (const Case& one :
       {Case{"grpo", grpo, {{"num_iterations", "2"}, {"max_steps", "4"}, {"beta", "0.1"}}},
        Case{"accumulated",
             grpo,
             {{"per_device_train_batch_size", "2"}, {"gradient_accumulation_steps", "2"}}},
        Case{"slices",
             grpo,
             {{"steps_per_generation", "2"}, {"max_steps", "5"}, {"generation_exact", "true"}}},
        Case{"rloo", grpo, {{"method", "rloo"}}},
        Case{"lora", grpo, {{"use_peft", "true"}, {"lora_target_modules", "[q_proj]"}, {"beta", "0.1"}}},
        Case{"online_dpo", host::online_dpo, {}}}) {
    SCOPED_TRACE(one.name);
    const host::Scratch scratch;
    const bool adapter = std::string(one.name) == "lora";
    Rewarded whole(one.base(scratch / "whole", one.more), reward_all);
    ASSERT_EQ(whole.train(), TRL_OK) << whole.error.message();
    Rewarded halves(one.base(scratch / "halves", one.more), reward_all);
    train_in_halves(halves.trainer.get());
    EXPECT_TRUE(saved(halves.trainer.get(), scratch / "a", adapter) ==
                saved(whole.trainer.get(), scratch / "b", adapter));
    EXPECT_EQ(records(halves.trainer.get()), records(whole.trainer.get()));
  }
}

// Completions that change their places are drawn before the evaluation between the halves, which draws no
// number that a later step would have.
TEST(Halves, EvaluationsAndCheckpointsBetweenThemLeaveNoTrace) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings more = {
      {"steps_per_generation", "2"}, {"max_steps", "5"}, {"per_device_eval_batch_size", "4"}};
  Rewarded whole(grpo(scratch / "whole", more), reward_all, kPrompts, kPrompts);
  ASSERT_EQ(whole.train(), TRL_OK) << whole.error.message();
  const std::string want = saved(whole.trainer.get(), scratch / "want");

  bool fails = false;
  Rewarded halves(
      grpo(scratch / "halves", more),
      [&](trl_rollout* rollout) {
        return fails && row_of(rollout, 0)["mode"] == "eval" ? -1 : reward_all(rollout);
      },
      kPrompts, kPrompts);
  int step = 0;
  train_in_halves(halves.trainer.get(), [&] {
    Error error;
    const trl_metrics* metrics = nullptr;
    fails = step % 2 == 1;
    EXPECT_EQ(trl_trainer_evaluate(halves.trainer.get(), nullptr, &metrics, error),
              fails ? TRL_E_CALLBACK : TRL_OK)
        << error.message();
    save_checkpoint(halves.trainer.get(), scratch / std::to_string(step++));
  });
  ASSERT_EQ(step, 5);
  EXPECT_EQ(records(halves.trainer.get()), records(whole.trainer.get()));
  EXPECT_TRUE(saved(halves.trainer.get(), scratch / "got") == want);

  for (int from = 0; from < step; ++from) {
    SCOPED_TRACE(from);
    const std::string checkpoint = scratch / std::to_string(from);
    Rewarded rest(grpo(scratch / "rest", host::with(more, {{"resume_from_checkpoint", checkpoint}})),
                  reward_all, kPrompts, kPrompts);
    EXPECT_EQ(host::state(rest.trainer.get())["global_step"], from);
    ASSERT_EQ(rest.train(), TRL_OK) << rest.error.message();
    EXPECT_TRUE(saved(rest.trainer.get(), scratch / "again") == want);
  }
}

TEST(Halves, AModelSavedBetweenThemIsThatBeforeTheStep) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer whole = host::trainer(short_run(scratch / "whole", {}), rows.get());
  train(whole.get());
  const host::Trainer halves = host::trainer(short_run(scratch / "halves", {}), rows.get());
  const std::string first = saved(halves.get(), scratch / "first");
  int step = 0;
  train_in_halves(halves.get(), [&] {
    const std::string now = saved(halves.get(), scratch / "now");
    EXPECT_EQ(now == first, step++ == 0);
  });
  EXPECT_TRUE(saved(halves.get(), scratch / "a") == saved(whole.get(), scratch / "b"));
}

TEST(Halves, AreRefusedOutOfOrder) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer trainer = host::trainer(short_run(scratch / "out", {}), rows.get());
  Error error;
  EXPECT_EQ(trl_trainer_update(trainer.get(), 1, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("trl_trainer_backward")) << error.message();
  ASSERT_EQ(trl_trainer_backward(trainer.get(), nullptr, error), TRL_OK) << error.message();
  const trl_metrics* metrics = nullptr;
  for (const std::function<trl_status()>& call : std::vector<std::function<trl_status()>>{
           [&] { return trl_trainer_step(trainer.get(), &metrics, error); },
           [&] { return trl_trainer_train(trainer.get(), nullptr, nullptr, error); },
           [&] { return trl_trainer_backward(trainer.get(), &metrics, error); }}) {
    EXPECT_EQ(call(), TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("trl_trainer_update")) << error.message();
    EXPECT_EQ(metrics, nullptr);
  }
  EXPECT_EQ(trl_trainer_update(trainer.get(), 2, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("apply is 2")) << error.message();
  EXPECT_EQ(trl_trainer_update(trainer.get(), 1, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(host::state(trainer.get())["global_step"], 1);
}

// The report of a run tells how it ended, and not of calls that were refused.
TEST(Halves, ARefusedCallIsNotInTheReport) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const auto report = [&](const char* run) {
    const std::filesystem::path path = std::filesystem::path(scratch / run) / "report.html";
    return std::filesystem::exists(path) ? host::read_file(path) : "";
  };
  Error error;
  const host::Trainer whole =
      host::trainer(short_run(scratch / "whole", {{"report_to", "html"}}), rows.get());
  train(whole.get());
  const std::string finished = report("whole");
  EXPECT_NE(finished.find("finished"), std::string::npos);
  EXPECT_EQ(trl_trainer_update(whole.get(), 1, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(report("whole") == finished);

  const host::Trainer other = host::trainer(
      short_run(scratch / "other",
                {{"report_to", "html"}, {"optimizer_in_backward", "true"}, {"max_grad_norm", "0"}}),
      rows.get());
  ASSERT_EQ(trl_trainer_step(other.get(), nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(trl_trainer_backward(other.get(), nullptr, error), TRL_E_UNSUPPORTED);
  EXPECT_EQ(report("other").find("no halves"), std::string::npos);
}

TEST(Halves, AreRefusedWhereAStepHasNone) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer trainer = host::trainer(
      short_run(scratch / "out", {{"optimizer_in_backward", "true"}, {"max_grad_norm", "0"}}), rows.get());
  Error error;
  EXPECT_EQ(trl_trainer_backward(trainer.get(), nullptr, error), TRL_E_UNSUPPORTED);
  EXPECT_EQ(error.key(), "optimizer_in_backward");
  EXPECT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
  Rewarded ppo(host::ppo(scratch / "ppo"), reward_all);
  EXPECT_EQ(trl_trainer_backward(ppo.trainer.get(), nullptr, error), TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names("several updates")) << error.message();
  EXPECT_EQ(trl_trainer_step(ppo.trainer.get(), nullptr, error), TRL_OK) << error.message();
}

TEST(Halves, ACancelComesBeforeOneOrTheOther) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer whole = host::trainer(short_run(scratch / "whole", {}), rows.get());
  train(whole.get());
  const host::Trainer trainer = host::trainer(short_run(scratch / "out", {}), rows.get());
  Error error;
  for (int step = 0; step < 3; ++step) {
    trl_trainer_cancel(trainer.get());
    EXPECT_EQ(trl_trainer_backward(trainer.get(), nullptr, error), TRL_E_CANCELLED);
    EXPECT_EQ(trl_trainer_update(trainer.get(), 1, nullptr, error), TRL_E_INVALID_ARGUMENT);
    ASSERT_EQ(trl_trainer_backward(trainer.get(), nullptr, error), TRL_OK) << error.message();
    trl_trainer_cancel(trainer.get());
    EXPECT_EQ(trl_trainer_update(trainer.get(), 1, nullptr, error), TRL_E_CANCELLED);
    EXPECT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_E_INVALID_ARGUMENT);
    ASSERT_EQ(trl_trainer_update(trainer.get(), 1, nullptr, error), TRL_OK) << error.message();
  }
  EXPECT_TRUE(saved(trainer.get(), scratch / "a") == saved(whole.get(), scratch / "b"));
}

// TRL 1.16 on the same row: loss 5.9154, gradient norm 14.886.
TEST(Halves, OfARowWithAnIdThatOnlyTheModelHas) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(R"({"input_ids": [5, 486, 7]})");
  const host::Trainer trainer = host::trainer(
      host::with(short_run(scratch / "out", {}), {{"max_steps", "1"}, {"per_device_train_batch_size", "1"}}),
      rows.get());
  const trl_metrics* metrics = nullptr;
  Error error;
  ASSERT_EQ(trl_trainer_step(trainer.get(), &metrics, error), TRL_OK) << error.message();
  EXPECT_NEAR(host::metric(metrics, "loss"), 5.9154, 1e-4);
  EXPECT_NEAR(host::metric(metrics, "grad_norm"), 14.886, 1e-3);
}

// A trainer may be destroyed between the halves.
TEST(Halves, AStepWithoutUpdateCounts) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer trainer = host::trainer(short_run(scratch / "out", {}), rows.get());
  Error error;
  const std::string before = saved(trainer.get(), scratch / "before");
  const trl_metrics* metrics = nullptr;
  ASSERT_EQ(trl_trainer_backward(trainer.get(), nullptr, error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_update(trainer.get(), 0, &metrics, error), TRL_OK) << error.message();
  EXPECT_EQ(host::metric(metrics, "skipped_steps"), 1);
  EXPECT_EQ(host::metric(metrics, "step"), 1);
  EXPECT_TRUE(saved(trainer.get(), scratch / "after") == before);
  ASSERT_EQ(trl_trainer_step(trainer.get(), &metrics, error), TRL_OK) << error.message();
  EXPECT_EQ(host::metric(metrics, "step"), 2);
  ASSERT_EQ(trl_trainer_backward(trainer.get(), nullptr, error), TRL_OK) << error.message();
}

struct RateSetter {
  trl_trainer* trainer = nullptr;
  std::vector<double> rates;
  std::vector<double> next;
  static int32_t on_event(void* data, int32_t event, const trl_metrics* metrics) {
    auto* const own = static_cast<RateSetter*>(data);
    if (event != TRL_ON_STEP) return 0;
    own->rates.push_back(host::metric(metrics, "learning_rate"));
    const size_t step = own->rates.size();
    if (step <= own->next.size()) {
      EXPECT_EQ(trl_trainer_set_learning_rate(own->trainer, own->next[step - 1], nullptr), TRL_OK);
    }
    return 0;
  }
};

TEST(LearningRate, IsSetFromCallbacks) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer usual = host::trainer(short_run(scratch / "usual", {{"max_steps", "4"}}), rows.get());
  RateSetter none{usual.get(), {}, {}};
  ASSERT_EQ(trl_trainer_train(usual.get(), RateSetter::on_event, &none, nullptr), TRL_OK);
  const host::Trainer trainer = host::trainer(short_run(scratch / "out", {{"max_steps", "4"}}), rows.get());
  RateSetter own{trainer.get(), {}, {1e-4 / 3, 0, std::nan("")}};
  ASSERT_EQ(trl_trainer_train(trainer.get(), RateSetter::on_event, &own, nullptr), TRL_OK);
  EXPECT_EQ(own.rates, (std::vector<double>{none.rates[0], 1e-4 / 3, 0, none.rates[3]}));
  const Json log = records(trainer.get());
  for (size_t i = 0; i < own.rates.size(); ++i) EXPECT_EQ(log[i]["learning_rate"], own.rates[i]) << i;
}

// A call that waits in the event of its second step.
struct Held {
  trl_trainer* trainer;
  std::atomic<bool> waits{false}, goes_on{false};
  static int32_t on_event(void* data, int32_t event, const trl_metrics* metrics) {
    auto* const own = static_cast<Held*>(data);
    if (event != TRL_ON_STEP || host::metric(metrics, "step") != 2) return 0;
    EXPECT_EQ(trl_trainer_backward(own->trainer, nullptr, nullptr), TRL_E_BUSY);
    own->waits = true;
    while (!own->goes_on) std::this_thread::yield();
    return 0;
  }
};

// While another thread trains, which other calls find busy.
TEST(LearningRate, IsSetFromAnyThread) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer trainer = host::trainer(short_run(scratch / "out", {}), rows.get());
  Held held{trainer.get()};
  std::thread training([&] {
    Error error;
    EXPECT_EQ(trl_trainer_train(trainer.get(), Held::on_event, &held, error), TRL_OK) << error.message();
    held.waits = true;
  });
  while (!held.waits) std::this_thread::yield();
  Error error;
  EXPECT_EQ(trl_trainer_set_learning_rate(trainer.get(), 1e-5, error), TRL_OK) << error.message();
  EXPECT_EQ(trl_trainer_backward(trainer.get(), nullptr, error), TRL_E_BUSY);
  EXPECT_EQ(trl_trainer_update(trainer.get(), 1, nullptr, error), TRL_E_BUSY);
  EXPECT_EQ(trl_trainer_evaluate(trainer.get(), rows.get(), nullptr, error), TRL_E_BUSY);
  held.goes_on = true;
  training.join();
  const Json log = records(trainer.get());
  EXPECT_NE(log[1]["learning_rate"], 1e-5);
  EXPECT_EQ(log[2]["learning_rate"], 1e-5);
}

TEST(LearningRate, IsRefusedOutOfRange) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer trainer = host::trainer(short_run(scratch / "out", {}), rows.get());
  Error error;
  ASSERT_EQ(trl_trainer_set_learning_rate(trainer.get(), 0.25, error), TRL_OK);
  for (const auto& [rate, text] :
       {std::pair{-0.5, "-0.5"}, {std::numeric_limits<double>::infinity(), "inf"}}) {
    EXPECT_EQ(trl_trainer_set_learning_rate(trainer.get(), rate, error), TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names(text)) << error.message();
  }
  const trl_metrics* metrics = nullptr;
  ASSERT_EQ(trl_trainer_step(trainer.get(), &metrics, error), TRL_OK) << error.message();
  EXPECT_EQ(host::metric(metrics, "learning_rate"), 0.25);
}

TEST(LearningRate, GoesOnInAResumedRun) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const Settings four = {{"max_steps", "4"}};
  const host::Trainer trainer = host::trainer(short_run(scratch / "out", four), rows.get());
  Error error;
  ASSERT_EQ(trl_trainer_set_learning_rate(trainer.get(), 1e-3 / 7, error), TRL_OK);
  ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
  save_checkpoint(trainer.get(), scratch / "checkpoint");
  train(trainer.get());
  const std::string from = scratch / "checkpoint";
  const host::Trainer again = host::trainer(
      short_run(scratch / "again", host::with(four, {{"resume_from_checkpoint", from}})), rows.get());
  train(again.get());
  EXPECT_EQ(records(again.get()), records(trainer.get()));
  EXPECT_TRUE(saved(again.get(), scratch / "a") == saved(trainer.get(), scratch / "b"));
}

// The numbers of an evaluation that do not depend on the run or the clock.
std::map<std::string, double> numbers_of(const trl_metrics* metrics) {
  std::map<std::string, double> numbers;
  for (const char* name = trl_metrics_next(metrics, nullptr); name != nullptr;
       name = trl_metrics_next(metrics, name)) {
    const std::string_view own = name;
    if (own.starts_with("eval_") && !own.ends_with("_runtime") && !own.ends_with("_per_second"))
      numbers[name] = host::metric(metrics, name);
  }
  return numbers;
}

std::map<std::string, double> evaluated(trl_trainer* trainer, const trl_dataset* rows) {
  const trl_metrics* metrics = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_evaluate(trainer, rows, &metrics, error), TRL_OK) << error.message();
  return metrics != nullptr ? numbers_of(metrics) : std::map<std::string, double>();
}

// Other rows give what a run with them as its evaluation rows gives, and leave no trace. Rows with prompts
// are masked as the training rows decided.
TEST(OtherRows, AreEvaluatedAsThoseOfTheRun) {
  NEED_MODEL();
  struct Case {
    const char *method, *train, *others;
  };
  for (const Case& one :
       {Case{"sft", "train_lm.jsonl", "train_pc.jsonl"}, Case{"sft", "train_pc.jsonl", "train_lm.jsonl"},
        Case{"dpo", "train_pref.jsonl", "train_pref.jsonl"},
        Case{"kto", "train_unpaired.jsonl", "train_unpaired.jsonl"},
        Case{"reward", "train_pref.jsonl", "train_pref.jsonl"}}) {
    SCOPED_TRACE(std::string(one.method) + " " + one.train);
    const host::Scratch scratch;
    const host::Dataset rows = rows_of(one.train), others = rows_of(one.others);
    Settings more = {{"method", one.method}};
    if (std::string(one.method) == "sft") more.emplace_back("train_sampling_strategy", "group_by_length");
    const host::Trainer whole = host::trainer(short_run(scratch / "whole", more), rows.get(), others.get());
    const auto want = evaluated(whole.get(), nullptr);
    EXPECT_GT(want.size(), 1u);
    const host::Trainer trainer = host::trainer(short_run(scratch / "out", more), rows.get());
    const Json before = host::state(trainer.get());
    EXPECT_EQ(evaluated(trainer.get(), others.get()), want);
    EXPECT_EQ(host::state(trainer.get()), before);
    Error error;
    const trl_metrics* metrics = nullptr;
    EXPECT_EQ(trl_trainer_evaluate(trainer.get(), nullptr, &metrics, error), TRL_E_INVALID_ARGUMENT);
    train_in_halves(trainer.get(), [&] { evaluated(trainer.get(), others.get()); });
    const host::Trainer plain = host::trainer(short_run(scratch / "plain", more), rows.get());
    train(plain.get());
    EXPECT_EQ(host::state(trainer.get())["log_history"].size(),
              host::state(plain.get())["log_history"].size());
    EXPECT_EQ(records(trainer.get()), records(plain.get()));
    EXPECT_TRUE(saved(trainer.get(), scratch / "a") == saved(plain.get(), scratch / "b"));
  }
}

TEST(OtherRows, AreRefusedByName) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer trainer = host::trainer(short_run(scratch / "out", {}), rows.get());
  Error error;
  const trl_metrics* metrics = nullptr;
  const host::Dataset bad = host::rows(R"({"nothing": 1})");
  EXPECT_EQ(trl_trainer_evaluate(trainer.get(), bad.get(), &metrics, error), TRL_E_FORMAT) << error.message();
  EXPECT_EQ(metrics, nullptr);
  EXPECT_EQ(evaluated(trainer.get(), rows.get()).count("eval_loss"), 1u);
  const host::Dataset prompts = host::rows(kPrompts);
  for (const Settings& settings : {grpo(scratch / "grpo"), host::online_dpo(scratch / "online")}) {
    Rewarded run(settings, reward_all);
    EXPECT_EQ(trl_trainer_evaluate(run.trainer.get(), prompts.get(), &metrics, error), TRL_E_UNSUPPORTED);
    EXPECT_TRUE(error.names("evaluates completions")) << error.message();
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  }
}

// The run has no reference that could say something of them.
TEST(OtherRows, AreRefusedWithAReferenceThatWasAskedBefore) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = rows_of("train_pref.jsonl");
  const host::Dataset others = host::rows(R"({"prompt": "a", "chosen": "b", "rejected": "c"})");
  const host::Trainer trainer =
      host::trainer(short_run(scratch / "out", {{"method", "dpo"}, {"precompute_ref_log_probs", "true"}}),
                    rows.get(), rows.get());
  Error error;
  EXPECT_EQ(trl_trainer_evaluate(trainer.get(), others.get(), nullptr, error), TRL_E_UNSUPPORTED);
  EXPECT_EQ(error.key(), "precompute_ref_log_probs");
  EXPECT_EQ(trl_trainer_evaluate(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
}

TEST(OtherRows, KeepAMemoryLimit) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Runtime runtime = host::runtime();
  const host::Dataset rows = rows_of("train_lm.jsonl");
  const host::Trainer trainer =
      host::trainer(short_run(scratch / "out", {}), rows.get(), nullptr, runtime.get());
  std::filesystem::create_directories(scratch / "out");
  Error error;
  int refused = 0;
  trl_status status = TRL_OK;
  for (int64_t room = 4096; room < int64_t{1} << 30; room *= 2) {
    int64_t now = 0;
    ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &now, nullptr, error), TRL_OK);
    ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), now + room, error), TRL_OK) << error.message();
    status = trl_trainer_evaluate(trainer.get(), rows.get(), nullptr, error);
    if (status == TRL_OK) break;
    EXPECT_EQ(status, TRL_E_OUT_OF_MEMORY) << error.message();
    ++refused;
  }
  EXPECT_EQ(status, TRL_OK) << error.message();
  EXPECT_GE(refused, 1);
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), 0, error), TRL_OK) << error.message();
  train(trainer.get());
}

}  // namespace
}  // namespace halves_test
