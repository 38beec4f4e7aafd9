// generation_exact in training: what generation recorded takes the place of forwards, and changes nothing.
#include <cstring>

#include "engine/rewarded.h"

namespace {

using host::grpo;
using host::Json;
using host::reward_all;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

int32_t reward_none(trl_rollout* rollout) {
  host::Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, 1, error), TRL_OK);
  return TRL_OK;
}

// The first two are equal, and of one prompt, so that they teach nothing.
int32_t reward_two_alike(trl_rollout* rollout) {
  host::Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, i < 2 ? 1 : host::points(host::row_of(rollout, i)), error),
              TRL_OK);
  return TRL_OK;
}

using Base = Settings (*)(const std::string& output_dir, const Settings& more);

auto trained(const std::string& folder, const Settings& more, const host::Function& reward, Json& steps,
             const char* prompts = host::kPrompts, Base base = grpo) {
  const Settings exact = {{"generation_exact", "true"}, {"profile_parts", "true"}, {"logging_steps", "1"}};
  Rewarded run(base(folder, host::with(exact, more)), reward, prompts);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  EXPECT_EQ(trl_trainer_save(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
  steps = run.last();
  return host::read_safetensors(folder + "/model.safetensors");
}

// A file's log-probabilities are never taken, so that the replayed run computes them.
TEST(ExactRollout, OldLogProbabilitiesAreThoseOfGeneration) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings twice = {{"method", "grpo"}, {"num_iterations", "2"}, {"temperature", "0.7"}};
  const Settings wide_head = host::with(twice, {{"bf16", "true"}, {"cast_lm_head_to_fp32", "true"}});
  for (const auto& [name, own] :
       std::map<std::string, Settings>{{"grpo", twice},
                                       {"autocast", wide_head},
                                       {"bfloat16", host::with(wide_head, {{"dtype", "bfloat16"}})},
                                       {"rloo", {{"method", "rloo"}}}}) {
    const std::string file = scratch / (name + ".jsonl");
    Json steps, replayed;
    const auto weights =
        trained(scratch / name, host::with(own, {{"record_rollouts", file}}), reward_all, steps);
    EXPECT_EQ(weights, trained(scratch / (name + "-again"), host::with(own, {{"replay_rollouts", file}}),
                               reward_all, replayed));
    EXPECT_EQ(steps[0]["profile/old"], 0.0) << name;
    EXPECT_GT(replayed[0]["profile/old"], 0.0) << name;
  }
}

// Returns the types of the tensors of a file, by name.
std::map<std::string, std::string> types_in(const std::string& file) {
  const std::string bytes = host::read_file(file);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  std::map<std::string, std::string> types;
  const Json header = host::parse(bytes.substr(sizeof size, size));
  for (const auto& [name, tensor] : header.items())
    if (tensor.contains("dtype")) types[name] = tensor["dtype"].get<std::string>();
  return types;
}

// As in TRL, where the head of a bfloat16 model learns in float32, and with it an embedding that it is tied
// to.
TEST(WideHead, IsTrainedAndSavedInFloat32) {
  const host::Scratch scratch;
  for (const auto& [model, head] :
       {std::pair("qwen2", "model.embed_tokens.weight"), std::pair("qwen3", "lm_head.weight")}) {
    NEED_GOLDEN(std::string("models/") + model + "/model.safetensors");
    const auto run = [&](const std::string& folder, const Settings& more) {
      const Settings own = {{"model_name_or_path", host::golden(std::string("models/") + model)},
                            {"dtype", "bfloat16"},
                            {"bf16", "true"},
                            {"cast_lm_head_to_fp32", "true"},
                            {"beta", "0.1"},
                            {"sync_ref_model", "true"},
                            {"ref_model_sync_steps", "1"},
                            {"max_steps", "4"},
                            {"save_strategy", "steps"},
                            {"save_steps", "1"}};
      return Rewarded(grpo(scratch / (model + folder), host::with(own, more)), reward_all);
    };
    const auto finish = [&](Rewarded trained, const std::string& folder) {
      EXPECT_EQ(trained.train(), TRL_OK) << trained.error.message();
      EXPECT_EQ(trl_trainer_save(trained.trainer.get(), nullptr, nullptr, trained.error), TRL_OK);
      return host::read_safetensors(scratch / (model + folder + "/model.safetensors"));
    };
    const auto whole = finish(run("whole", {}), "whole");
    const auto types = types_in(scratch / (std::string(model) + "whole/model.safetensors"));
    EXPECT_TRUE(types.contains(head));
    for (const auto& [name, type] : types) EXPECT_EQ(type, name == head ? "F32" : "BF16") << name;
    const Json config = host::parse(host::read_file(scratch / (std::string(model) + "whole/config.json")));
    const bool tied = config["tie_word_embeddings"];
    EXPECT_EQ(config.value("dtype", config.value("torch_dtype", "")), tied ? "float32" : "bfloat16");
    {
      Rewarded part = run("parts", {});
      for (int step = 0; step < 2; ++step)
        ASSERT_EQ(trl_trainer_step(part.trainer.get(), nullptr, part.error), TRL_OK) << part.error.message();
    }
    EXPECT_EQ(finish(run("parts", {{"resume_from_checkpoint", "true"}}), "parts"), whole);
  }
}

// Padding that a prompt has itself is left out in training, so that generation saw another prompt.
TEST(ExactRollout, PpoTakesThoseOfPromptsWithoutPadding) {
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr const char* kPadded = R"({"prompt": "Tell me of the sea:<|endoftext|>"}
{"prompt": "Name a planet:"}
{"prompt": "Describe the castle:"}
{"prompt": "What is a tensor?"}
)";
  const Settings stops = {{"stop_token", "eos"}, {"temperature", "0.9"}};
  const Settings twice = host::with(stops, {{"num_ppo_epochs", "2"}, {"num_mini_batches", "2"}});
  struct Case {
    const char* name;
    Settings own;
    const char* prompts;
  };
  for (const Case& one :
       {Case{"values", twice, host::kPrompts},
        Case{"on_policy", host::with(twice, {{"value_head_on_policy", "true"}}), host::kPrompts},
        Case{"bfloat16", host::with(stops, {{"bf16", "true"}}), host::kPrompts},
        Case{"padded", stops, kPadded}}) {
    const std::string name = one.name, file = scratch / (name + ".jsonl");
    const auto run = [&](const std::string& folder, const char* key, Json& steps) {
      return trained(scratch / folder, host::with(one.own, {{key, file}}), reward_all, steps, one.prompts,
                     host::ppo);
    };
    Json steps, replayed;
    const auto weights = run(name, "record_rollouts", steps);
    EXPECT_EQ(weights, run(name + "-again", "replay_rollouts", replayed)) << name;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(steps[i]["profile/old"] == 0.0, name != "padded") << name << i;
      EXPECT_GT(replayed[i]["profile/old"], 0.0) << name;
      for (const char* metric : {"objective/kl", "policy/approxkl_avg", "val/ratio"})
        EXPECT_EQ(steps[i][metric], replayed[i][metric]) << name << ' ' << metric;
    }
  }
}

TEST(ExactRollout, RowsWithoutAnythingToTeachTakeTheirValuesFromGeneration) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const char* const method : {"grpo", "rloo"}) {
    Json steps, all;
    const Settings own = {{"method", method}, {"beta", "0"}};
    const auto weights = trained(scratch / "skips", own, reward_two_alike, steps);
    const auto others = trained(scratch / "computes", host::with(own, {{"skip_silent_rows", "false"}}),
                                reward_two_alike, all);
    ASSERT_EQ(weights.size(), others.size());
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_GT(steps[i]["silent_rows"], 0.0) << method << steps[i];
      for (const char* name : {"loss", "entropy", "grad_norm", "completions/mean_length"})
        EXPECT_NEAR(steps[i][name], all[i][name], 1e-5 + 1e-5 * std::abs(all[i][name].get<double>()))
            << method << ' ' << name;
    }
  }
}

TEST(ExactRollout, AStepWithoutAnythingToTeachHasNoForward) {
  NEED_MODEL();
  const host::Scratch scratch;
  Json steps;
  trained(scratch / "out", {{"method", "rloo"}, {"beta", "0"}}, reward_none, steps);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(steps[i]["silent_rows"], 1.0);
    EXPECT_EQ(steps[i]["profile/gemm"], 0.0);
    EXPECT_GT(steps[i]["entropy"], 1.0);
    EXPECT_EQ(steps[i]["loss"], 0.0);
  }
}

// The second update on a generation has other weights, so that its rows go through the model.
TEST(ExactRollout, LaterUpdatesComputeTheirOwn) {
  NEED_MODEL();
  const host::Scratch scratch;
  Json steps, all;
  const Settings own = {{"num_iterations", "2"}, {"max_steps", "4"}};
  trained(scratch / "skips", own, reward_two_alike, steps);
  trained(scratch / "computes", host::with(own, {{"skip_silent_rows", "false"}}), reward_two_alike, all);
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(steps[i]["entropy"], all[i]["entropy"], 1e-5 * std::abs(all[i]["entropy"].get<double>()))
        << i;
  EXPECT_NE(steps[0]["entropy"], steps[1]["entropy"]);
}

}  // namespace
