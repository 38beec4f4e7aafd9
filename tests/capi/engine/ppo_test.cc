// PPO: the model of values beside the policy, runs that are resumed and played again, and what is refused.
#include <chrono>
#include <cmath>
#include <random>
#include <thread>

#include "engine/rewarded.h"

namespace {

using host::Error;
using host::Json;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Six micro-batches of a batch of four prompts, with an update after every second.
Settings ppo(const std::string& output_dir, const Settings& more = {}) {
  const Settings own = {{"num_ppo_epochs", "3"}, {"max_steps", "4"}, {"learning_rate", "0.002"}};
  return host::ppo(output_dir, host::with(own, more));
}

void finish(Rewarded& run) {
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK) << run.error.message();
}

auto weights_in(const std::filesystem::path& folder) {
  return host::read_safetensors(folder / "model.safetensors");
}

TEST(Ppo, WarnsOfAValueModelWithoutAHead) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto warnings = [&](const Settings& more) {
    std::vector<std::string> lines;
    const auto runtime = host::runtime();
    const auto keep = [](void* data, int32_t level, const char*, const char* text, size_t size) {
      if (level == TRL_LOG_WARNING) static_cast<std::vector<std::string>*>(data)->emplace_back(text, size);
    };
    EXPECT_EQ(trl_runtime_set_log(runtime.get(), keep, &lines, nullptr, nullptr), TRL_OK);
    const host::Dataset rows = host::rows(host::kPrompts);
    host::trainer(ppo(scratch / "out", more), rows.get(), nullptr, runtime.get());
    std::erase_if(lines, [](const auto& line) { return !line.starts_with("value_model_name_or_path: "); });
    return lines;
  };
  const std::string model = host::golden("models/qwen2");
  EXPECT_EQ(warnings({{"value_model_name_or_path", model}}),
            std::vector{"value_model_name_or_path: " + model +
                        " has no score.weight, which is newly initialised and has learned nothing: a "
                        "directory that trl reward has saved has one"});
  EXPECT_TRUE(warnings({}).empty());
}

// Without a reward model the values begin as the policy with a new head.
TEST(Ppo, LearnsFromRewardsOfTheHost) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(ppo(scratch / "out"), host::reward_all);
  finish(run);
  const Json records = run.last();
  ASSERT_EQ(records.size(), 5u);
  for (size_t i = 0; i < 4; ++i) {
    const double step = static_cast<double>(i) + 1;
    for (const char* name : {"objective/kl", "objective/entropy", "objective/rlhf_reward", "objective/scores",
                             "policy/approxkl_avg", "policy/clipfrac_avg", "loss/policy_avg",
                             "loss/value_avg", "val/clipfrac_avg", "policy/entropy_avg", "val/ratio",
                             "val/ratio_var", "val/num_eos_tokens", "lr", "eps", "loss", "grad_norm"}) {
      ASSERT_TRUE(records[i].contains(name)) << name;
      EXPECT_TRUE(std::isfinite(records[i][name].get<double>())) << name;
    }
    EXPECT_EQ(records[i]["episode"], 4 * step);
    EXPECT_EQ(records[i]["epoch"], step);
    EXPECT_FALSE(records[i].contains("completions/mean_length"));
  }
  EXPECT_EQ(records[0]["num_tokens"].get<double>() > 4 * 5, true);
  for (const auto& [name, tensor] : weights_in(scratch / "out")) {
    EXPECT_FALSE(name.starts_with("value_model")) << name;
    EXPECT_NE(name, "score.weight");
  }
}

// The policy's hidden states learn for both; the head learns what to expect.
TEST(Ppo, ValuesMayComeFromAHeadOnThePolicy) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings own = {{"value_head_on_policy", "true"}, {"vf_coef", "1"}, {"max_steps", "12"}};
  Rewarded run(ppo(scratch / "out", own), host::reward_all);
  finish(run);
  const Json records = run.last();
  EXPECT_LT(records[11]["loss/value_avg"], 0.8 * records[0]["loss/value_avg"].get<double>());
  for (const auto& [name, tensor] : weights_in(scratch / "out")) EXPECT_FALSE(name.starts_with("value_head"));
  trl_trainer* made = nullptr;
  Error error;
  const Settings both = {{"value_head_on_policy", "true"}, {"value_model_name_or_path", "another"}};
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(ppo(scratch / "both", both)).get(), run.rows.get(),
                               nullptr, &made, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("value_head_on_policy: true")) << error.message();
}

// max_grad_norm has an effect only if it is given.
TEST(Ppo, ClipsGradientsOnlyIfAsked) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const char* norm : {"0", "0.001"}) {
    Rewarded run(ppo(scratch / norm, {{"max_grad_norm", norm}, {"optim", "sgd"}}), host::reward_all);
    finish(run);
  }
  Rewarded usual(ppo(scratch / "usual", {{"optim", "sgd"}}), host::reward_all);
  finish(usual);
  EXPECT_EQ(weights_in(scratch / "usual"), weights_in(scratch / "0"));
  EXPECT_NE(weights_in(scratch / "usual"), weights_in(scratch / "0.001"));
}

// A recorded run, played again, is the same bit for bit; so is one that was resumed, whose checkpoint has the
// values' weights too.
void expect_the_same_again(const char* on_policy, const char* parameter) {
  const host::Scratch scratch;
  const Settings more = {{"stop_token", "eos"},
                         {"num_mini_batches", "2"},
                         {"whiten_rewards", "false"},
                         {"value_head_on_policy", on_policy}};
  const std::string file = scratch / "rollouts.jsonl";
  Rewarded recorded(host::with(ppo(scratch / "recorded", more), {{"record_rollouts", file}}),
                    host::reward_all);
  finish(recorded);
  Rewarded replayed(host::with(ppo(scratch / "replayed", more), {{"replay_rollouts", file}}),
                    host::reward_all);
  finish(replayed);
  EXPECT_EQ(weights_in(scratch / "replayed"), weights_in(scratch / "recorded"));

  const Settings saves = {{"save_strategy", "steps"}, {"save_steps", "1"}};
  Rewarded part(host::with(ppo(scratch / "resumed", more), saves), host::reward_all);
  for (int step = 0; step < 2; ++step)
    ASSERT_EQ(trl_trainer_step(part.trainer.get(), nullptr, part.error), TRL_OK) << part.error.message();
  part.trainer.reset();
  const auto states = host::read_safetensors(scratch / "resumed/checkpoint-2/optimizer.safetensors");
  EXPECT_TRUE(states.count(parameter));
  Rewarded rest(
      host::with(host::with(ppo(scratch / "resumed", more), saves), {{"resume_from_checkpoint", "true"}}),
      host::reward_all);
  finish(rest);
  EXPECT_EQ(weights_in(scratch / "resumed"), weights_in(scratch / "recorded"));
}

TEST(Ppo, AReplayedAndAResumedRunAreTheSame) {
  NEED_MODEL();
  expect_the_same_again("false", "value_model.score.weight");
  expect_the_same_again("true", "value_head.weight");
}

// A step has twelve updates here. A save makes those that are left of it.
TEST(Ppo, CanBeSavedAfterACancelAtAnyMoment) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings more = {{"per_device_train_batch_size", "1"},
                         {"gradient_accumulation_steps", "4"},
                         {"num_mini_batches", "4"},
                         {"num_ppo_epochs", "12"},
                         {"max_steps", "4"}};
  const auto step_of = [](const Rewarded& run) { return host::state(run.trainer.get())["global_step"]; };
  Rewarded whole(ppo(scratch / "whole", more), host::reward_all);
  finish(whole);
  Rewarded run(ppo(scratch / "out", more), host::reward_all);
  std::mt19937 random(5);
  int within = 0;
  for (trl_status status = TRL_OK; status != TRL_END;) {
    std::thread later([&, wait = random() % 30000] {
      std::this_thread::sleep_for(std::chrono::microseconds(wait));
      trl_trainer_cancel(run.trainer.get());
    });
    status = trl_trainer_step(run.trainer.get(), nullptr, run.error);
    later.join();
    ASSERT_TRUE(status >= TRL_OK || status == TRL_E_CANCELLED) << run.error.message();
    const Json before = step_of(run);
    trl_status saved = TRL_E_CANCELLED;  // a cancel that came after the step ends the save
    while (saved == TRL_E_CANCELLED)
      saved = trl_trainer_save(run.trainer.get(), (scratch / "saved").c_str(), nullptr, run.error);
    ASSERT_EQ(saved, TRL_OK) << run.error.message();
    within += step_of(run) != before;
  }
  EXPECT_GT(within, 0);
  EXPECT_EQ(weights_in(scratch / "saved"), weights_in(scratch / "whole"));
}

// Padding that a file or a host gives counts as in TRL; none is needed.
TEST(Ppo, PadsCompletionsOfTheHost) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto run_with = [&](const char* folder, const std::vector<std::vector<int32_t>>& completions) {
    host::Function write = [&](trl_rollout* rollout) {
      for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
        trl_rollout_set_completion(rollout, i, completions[i].data(), completions[i].size(), nullptr, nullptr,
                                   nullptr, nullptr);
      return int32_t{TRL_OK};
    };
    Rewarded run(ppo(scratch / folder), [](trl_rollout* rollout) {
      EXPECT_EQ(host::row_of(rollout, 0)["completion_ids"].size(), 1u);
      EXPECT_EQ(host::row_of(rollout, 3)["completion_ids"].size(), 0u);
      return host::reward_all(rollout);
    });
    EXPECT_EQ(trl_trainer_set_rollout(run.trainer.get(), host::call, &write, nullptr, run.error), TRL_OK);
    finish(run);
    return weights_in(scratch / folder);
  };
  constexpr int32_t kPad = 473;
  EXPECT_EQ(run_with("short", {{5}, {6, 7}, {8, 9, 10}, {}}),
            run_with("padded", {{5, kPad, kPad}, {6, 7, kPad}, {8, 9, 10}, {kPad, kPad, kPad}}));
}

std::string ppo_refusal(const Settings& settings, const char* key) {
  const host::Dataset rows = host::rows(host::kPrompts);
  trl_trainer* made = nullptr;
  Error error;
  trl_status status =
      trl_trainer_create(nullptr, host::config(settings).get(), rows.get(), nullptr, &made, error);
  const host::Trainer trainer(made);
  if (status == TRL_OK) status = trl_trainer_train(made, nullptr, nullptr, error);
  EXPECT_NE(status, TRL_OK);
  EXPECT_EQ(error.key(), key);
  return error.message();
}

TEST(Ppo, RefusesModelsThatDoNotFit) {
  NEED_MODEL();
  NEED_GOLDEN("models/llama/model.safetensors");
  const host::Scratch scratch;
  const std::string llama = host::golden("models/llama"), none = scratch / "none";
  const std::filesystem::path scorer = scratch / "scorer";
  host::copy_model("models/llama", scorer);
  host::edit_config(scorer,
                    [](Json& config) { config["architectures"] = {"LlamaForSequenceClassification"}; });
  const auto with = [&](const char* key, const std::string& value) {
    return ppo_refusal(ppo(scratch / "out", {{key, value}}), key);
  };
  constexpr const char* kOther = "has another vocabulary than the model that is trained (token ";
  EXPECT_NE(with("reward_model_name_or_path", scorer).find(kOther), std::string::npos);
  EXPECT_NE(with("value_model_name_or_path", llama).find(kOther), std::string::npos);
  EXPECT_NE(with("reward_model_name_or_path", host::golden("models/qwen2")).find("is a language model"),
            std::string::npos);
  EXPECT_NE(with("value_model_name_or_path", none).find(none), std::string::npos);
  std::filesystem::create_directory(none);
  host::write_file(scratch / "none/adapter_config.json", "{}");
  EXPECT_NE(with("value_model_name_or_path", none).find("is an adapter, and the model of values"),
            std::string::npos);
}

int32_t keep_completions(void* shown, int32_t, const trl_metrics* metrics) {
  if (const char* const text = trl_metrics_text(metrics, "completions"))
    static_cast<std::vector<Json>*>(shown)->push_back(host::parse(text));
  return 0;
}

// num_sample_generations: tables of evaluation rows, which change nothing of the run. eval_strategy makes no
// others.
TEST(Ppo, CompletesEvaluationRowsAsSamples) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto train = [&](const char* folder, const Settings& more, std::vector<Json>& shown) {
    host::Function reward = host::reward_all;
    const host::Dataset rows = host::rows(host::kPrompts), few = host::rows(host::kPrompts);
    const host::Trainer trainer = host::trainer(host::with(ppo(scratch / folder), more), rows.get(),
                                                more.empty() ? nullptr : few.get());
    Error error;
    EXPECT_EQ(trl_trainer_add_reward(trainer.get(), "points", host::call, &reward, nullptr, error), TRL_OK);
    EXPECT_EQ(trl_trainer_train(trainer.get(), keep_completions, &shown, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    return weights_in(scratch / folder);
  };
  std::vector<Json> shown, none;
  const auto weights = train("samples",
                             {{"num_sample_generations", "2"},
                              {"per_device_eval_batch_size", "3"},
                              {"eval_strategy", "steps"},
                              {"eval_steps", "1"}},
                             shown);
  EXPECT_EQ(weights, train("without", {}, none));
  EXPECT_TRUE(none.empty());
  ASSERT_EQ(shown.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(shown[i]["rows"].size(), 3u);
    EXPECT_EQ(shown[i]["rows"][0]["step"], 2 * i + 1);
    EXPECT_EQ(shown[i]["rows"][1]["prompt"], "Describe the castle:");
    EXPECT_TRUE(shown[i]["rows"][2]["points"].is_number());
    EXPECT_FALSE(shown[i]["rows"][2].contains("advantage"));
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(scratch / "samples/completions"), {}), 2);
}

// A checkpoint has the samples that are due, and those that no record has had.
TEST(Ppo, SamplesOfAStoppedRunComeInTheResumedOne) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(host::kPrompts), few = host::rows(host::kPrompts);
  const auto trainer = [&](const char* folder, host::Function& reward, bool resumes) {
    host::Trainer made =
        host::trainer(ppo(scratch / folder, {{"num_sample_generations", "1"},
                                             {"per_device_eval_batch_size", "3"},
                                             {"logging_steps", "3"},
                                             {"save_strategy", "steps"},
                                             {"save_steps", "1"},
                                             {"resume_from_checkpoint", resumes ? "true" : "null"}}),
                      rows.get(), few.get());
    Error error;
    EXPECT_EQ(trl_trainer_add_reward(made.get(), "points", host::call, &reward, nullptr, error), TRL_OK);
    return made;
  };
  const auto shown_by = [](const host::Trainer& run) {
    std::vector<Json> shown;
    Error error;
    EXPECT_EQ(trl_trainer_train(run.get(), keep_completions, &shown, error), TRL_OK) << error.message();
    return shown;
  };
  host::Function reward = host::reward_all;
  const std::vector<Json> want = shown_by(trainer("whole", reward, false));
  ASSERT_EQ(want.size(), 1u);  // samples of the first step, in the record of the third
  ASSERT_EQ(want[0]["rows"].size(), 3u);
  Error error;
  {
    const host::Trainer part = trainer("unwritten", reward, false);
    ASSERT_EQ(trl_trainer_step(part.get(), nullptr, error), TRL_OK) << error.message();
  }
  EXPECT_EQ(shown_by(trainer("unwritten", reward, true)), want);
  {
    host::Function fails = [](trl_rollout* rollout) {
      return host::row_of(rollout, 0)["mode"] == "eval" ? -1 : host::reward_all(rollout);
    };
    const host::Trainer part = trainer("due", fails, false);
    ASSERT_EQ(trl_trainer_step(part.get(), nullptr, error), TRL_E_CALLBACK);
    const host::Config checkpoint = host::config({{"save.kind", "checkpoint"}});
    ASSERT_EQ(trl_trainer_save(part.get(), nullptr, checkpoint.get(), error), TRL_OK) << error.message();
  }
  EXPECT_EQ(shown_by(trainer("due", reward, true)), want);
}

TEST(Ppo, RefusesRowsThatItHasNoUseFor) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::rows(host::kPrompts);
  trl_trainer* made = nullptr;
  Error error;
  EXPECT_EQ(
      trl_trainer_create(nullptr, host::config(ppo(scratch / "out", {{"num_sample_generations", "0"}})).get(),
                         rows.get(), rows.get(), &made, error),
      TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "eval_dataset_name");
}

TEST(Ppo, RefusesWhatItCannotDo) {
  NEED_MODEL();
  const host::Scratch scratch;
  EXPECT_TRUE(ppo_refusal(ppo(scratch / "out"), "reward_funcs").find("there is no reward") !=
              std::string::npos);
  EXPECT_NE(ppo_refusal(ppo(scratch / "out",
                            {{"optimizer_in_backward", "true"}, {"gradient_accumulation_steps", "1"}}),
                        "optimizer_in_backward")
                .find("trains two models"),
            std::string::npos);
}

}  // namespace
