// A row of the table and a file with a method are a trainer: the C API lists it, plans, trains, saves and
// resumes its runs. The libraries are those of this folder.
#include <string_view>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

Settings added(const char* method, const std::string& output_dir, const Settings& more = {}) {
  return host::with(host::with(host::tiny(output_dir), {{"method", method}, {"save_strategy", "no"}}), more);
}
Settings squared(const std::string& output_dir, const Settings& more = {}) {
  return added("squared", output_dir, more);
}

const trl_option* option(std::string_view name) {
  const trl_option* found = trl_option_next(nullptr);
  while (found != nullptr && name != trl_option_name(found)) found = trl_option_next(found);
  return found;
}

TEST(AddedMethod, IsListed) {
  EXPECT_EQ(trl_has_feature("squared"), 1);
  EXPECT_STREQ(trl_option_accepted(option("method"), nullptr),
               "sft|dpo|reward|kto|grpo|rloo|distillation|gkd|online_dpo|ppo|squared|twin");
  EXPECT_STREQ(trl_option_taken(option("method")),
               "dpo|reward|kto|grpo|rloo|distillation|gkd|online_dpo|ppo|squared|twin");
  EXPECT_STREQ(trl_option_trainers(option("learning_rate")),
               "sft,dpo,reward,kto,grpo,rloo,distillation,gkd,online_dpo,ppo,squared,twin");
  EXPECT_STREQ(trl_option_default(option("learning_rate"), "squared"), "2e-05");
  EXPECT_STREQ(trl_option_default(option("learning_rate"), "kto"), "1e-06");
  EXPECT_EQ(trl_option_default(option("beta"), "squared"), nullptr);
}

struct Session {
  explicit Session(const Settings& settings) : trainer(host::trainer(settings, rows.get())) {}
  double step() {
    const trl_metrics* metrics = nullptr;
    Error error;
    EXPECT_EQ(trl_trainer_step(trainer.get(), &metrics, error), TRL_OK) << error.message();
    return host::metric(metrics, "loss");
  }
  void save(const Settings& options = {}) {
    Error error;
    EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, host::config(options).get(), error), TRL_OK)
        << error.message();
  }
  host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  host::Trainer trainer;
};

Json plan_of(const char* method) {
  const host::Scratch scratch;
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Runtime runtime = host::runtime();
  const char* json = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_plan(runtime.get(), host::config(added(method, scratch / "out")).get(), rows.get(),
                             &json, nullptr, error),
            TRL_OK)
      << error.message();
  return host::parse(json);
}

TEST(AddedMethod, IsPlanned) {
  NEED_MODEL();
  const Json plan = plan_of("squared");
  EXPECT_EQ(plan.at("steps"), 8);
  EXPECT_GT(plan.at("counted_bytes").get<double>(), 16 * plan.at("trained_parameters").get<double>());
}

TEST(AddedMethod, TrainsSavesAndResumes) {
  NEED_MODEL();
  const host::Scratch scratch;
  Session whole(squared(scratch / "whole"));
  std::vector<double> losses;
  for (int i = 0; i < 8; ++i) losses.push_back(whole.step());
  EXPECT_LT(losses.back(), losses.front());
  int records = 0;
  const Json state = host::state(whole.trainer.get());
  for (const Json& record : state.at("log_history")) {
    if (!record.contains("loss")) continue;
    ++records;
    EXPECT_GT(record.at("mean_surprise"), 0);
  }
  EXPECT_EQ(records, 8);
  whole.save();
  const std::string card = host::read_file(scratch / "whole" / "README.md");
  EXPECT_NE(card.find("- squared-trainer\n"), std::string::npos) << card;

  Session cut(squared(scratch / "cut"));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(cut.step(), losses[i]);
  cut.save({{"save.kind", "checkpoint"}});
  cut.trainer.reset();
  Session resumed(squared(scratch / "cut", {{"resume_from_checkpoint", "true"}}));
  EXPECT_EQ(host::state(resumed.trainer.get())["global_step"], 3);
  for (size_t i = 3; i < 8; ++i) EXPECT_EQ(resumed.step(), losses[i]);
  resumed.save();
  EXPECT_EQ(host::read_file(scratch / "cut" / "model.safetensors"),
            host::read_file(scratch / "whole" / "model.safetensors"));
}

// Each model has weights, gradients and two states of the optimizer.
TEST(TwoModels, ArePlanned) {
  NEED_MODEL();
  const Json one = plan_of("squared"), two = plan_of("twin");
  EXPECT_GT(two.at("counted_bytes").get<double>(),
            one.at("counted_bytes").get<double>() + 15 * one.at("trained_parameters").get<double>());
}

TEST(TwoModels, TrainWithOneNormAndResume) {
  NEED_MODEL();
  const host::Scratch scratch;
  Session whole(added("twin", scratch / "whole"));
  std::vector<double> losses;
  for (int i = 0; i < 8; ++i) losses.push_back(whole.step());
  EXPECT_LT(losses.back(), losses.front());
  double first = 0, last = 0;
  const Json state = host::state(whole.trainer.get());
  for (const Json& record : state.at("log_history")) {
    if (record.contains("twin_loss")) last = record.at("twin_loss");
    if (first == 0) first = last;
  }
  EXPECT_LT(last, first);

  Session cut(added("twin", scratch / "cut"));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(cut.step(), losses[i]);
  cut.save({{"save.kind", "checkpoint"}});
  cut.trainer.reset();
  const std::string states = host::read_file(scratch / "cut" / "checkpoint-3" / "optimizer.safetensors");
  EXPECT_NE(states.find("\"twin.model.norm.weight\""), std::string::npos);
  EXPECT_NE(states.find("\"twin.model.norm.weight.exp_avg\""), std::string::npos);
  Session resumed(added("twin", scratch / "cut", {{"resume_from_checkpoint", "true"}}));
  for (size_t i = 3; i < 8; ++i) EXPECT_EQ(resumed.step(), losses[i]);
}

}  // namespace
