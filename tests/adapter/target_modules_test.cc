// The modules that an adapter changes: PEFT's own choices for the same configurations.
#include "adapter/target_modules.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "adapter/old_experts.h"
#include "recorded_models.h"
#include "support/error_of.h"

namespace trl::adapter {
namespace {

const base::Json& recorded() { return test::golden_json("adapters/selections.json"); }

using test_models::Model;
using test_models::model_of;

config::LoraConfig read(const std::string& json) {
  return config::read_lora_config(base::parse_json(json, "test"), "peft_config", Status::invalid_config);
}

Selection select_in(const std::string& name, const std::string& json) {
  const Model model = model_of(name);
  return select(with_stacked_experts(read(json), model.modules, model.type), model.modules, model.type);
}

// As in target_parameters.
std::string name_of(const Target& target, const std::vector<Module>& modules) {
  const Module& module = modules[target.module];
  return target.parameter && module.kind != ModuleKind::experts ? module.name + ".weight" : module.name;
}

// In the order of the modules, as all of a Selection is.
base::Json as_recorded(const Selection& selection, const std::vector<Module>& modules) {
  base::Json out = {{"targets", base::Json::array()}};
  for (const Target& target : selection.targets)
    out["targets"].push_back({name_of(target, modules), target.r, target.alpha, target.scaling});
  for (const char* const part : {"saved", "biases"}) {
    std::vector<std::string> names;
    for (const size_t index : part[0] == 's' ? selection.saved : selection.biases)
      names.push_back(modules[index].name);
    std::sort(names.begin(), names.end());
    out[part] = names;
  }
  return out;
}

// Experts' parameters are nested in PEFT, in an order of their own.
base::Json sorted(base::Json targets) {
  std::vector<std::string> lines;
  for (const base::Json& target : targets)
    lines.push_back(fmt::format("{} {} {} {}", target[0].get<std::string>(), target[1].get<int64_t>(),
                                target[2].get<double>(), target[3].get<double>()));
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Targets, AreThoseOfPeft) {
  int refused = 0;
  for (const base::Json& one : recorded()["cases"]) {
    const Model model = model_of(one["model"]);
    const auto chosen = [&] {
      const config::LoraConfig config =
          config::read_lora_config(one["config"], "peft_config", Status::invalid_config);
      const config::LoraConfig own = with_stacked_experts(config, model.modules, model.type);
      return as_recorded(select(own, model.modules, model.type), model.modules);
    };
    if (one.contains("error")) {
      // Its map names modules for Mixtral, but the step that converts old adapters makes PEFT overlook them.
      if (one["model"] == "mixtral" && one["config"].empty()) continue;
      EXPECT_EQ(test::error_of(chosen).first, Status::invalid_config) << one;
      ++refused;
      continue;
    }
    base::Json got;
    ASSERT_EQ(test::error_of([&] { got = chosen(); }).second, "") << one;
    EXPECT_EQ(got["saved"], one["saved"]) << one;
    EXPECT_EQ(got["biases"], one["biases"]) << one;
    if (one["model"] == "mixtral" || one["model"] == "qwen3_moe") {
      EXPECT_EQ(sorted(got["targets"]), sorted(one["targets"])) << one;
    } else {
      ASSERT_EQ(got["targets"].size(), one["targets"].size()) << one;
      for (size_t i = 0; i < got["targets"].size(); ++i) {
        EXPECT_EQ(got["targets"][i][0], one["targets"][i][0]) << one;
        EXPECT_EQ(got["targets"][i][1], one["targets"][i][1]) << one;
        EXPECT_EQ(got["targets"][i][2], one["targets"][i][2].get<double>()) << one;
        EXPECT_EQ(got["targets"][i][3], one["targets"][i][3].get<double>()) << one;
      }
    }
  }
  EXPECT_GE(refused, 18);
}

TEST(Targets, WhatMatchesNothingNamesTheModulesThereAre) {
  const auto [status, message] =
      test::error_of([] { select_in("llama", R"({"target_modules": ["query"]})"); });
  EXPECT_EQ(status, Status::invalid_config);
  EXPECT_EQ(message,
            "target_modules: query does not match any module; the model has embed_tokens, q_proj, k_proj, "
            "v_proj, o_proj, "
            "gate_proj, up_proj, down_proj");
}

// As they were given: by the flags of TRL, or in peft_config.
TEST(Targets, RefusalsNameTheKeysThatWereGiven) {
  const auto refusal = [](std::initializer_list<std::pair<const char*, const char*>> settings) {
    config::Config config;
    config.set("use_peft", "true");
    for (const auto& [key, value] : settings) config.set(key, value);
    const Model model = model_of("llama");
    return test::error_of([&] { select(*config::lora_config(config), model.modules, model.type); }).second;
  };
  EXPECT_EQ(refusal({{"lora_target_modules", "[lm_head]"}}),
            "lora_target_modules: an adapter on the output head (lm_head) is refused, because the loss reads "
            "only the head's own weight: list it in lora_modules_to_save, or leave it out");
  EXPECT_EQ(refusal({{"peft_config", "{target_modules: [lm_head], modules_to_save: []}"}}),
            "target_modules: an adapter on the output head (lm_head) is refused, because the loss reads only "
            "the head's own weight: list it in modules_to_save, or leave it out");
  EXPECT_TRUE(refusal({{"lora_r", "900"}, {"lora_target_modules", "[q_proj]"}})
                  .starts_with("lora_r: 900 does not fit"));
  EXPECT_TRUE(refusal({{"lora_modules_to_save", "[nothing]"}})
                  .starts_with("lora_modules_to_save: nothing does not match any module"));
}

TEST(Targets, BadOnesAreRefusedWithTheReason) {
  const std::vector<std::array<std::string, 3>> cases = {
      {"llama", R"({"target_modules": ["lm_head"]})", "an adapter on the output head (lm_head) is refused"},
      {"llama", R"({"target_modules": ["norm"]})", "target_modules: model.norm is another kind of layer"},
      {"llama", R"({"target_modules": ["mlp"]})", "target_modules: model.layers.0.mlp is a group of modules"},
      {"llama", R"({"target_modules": ["k_proj"], "r": 17})",
       "r: 17 does not fit model.layers.0.self_attn.k_proj of 16 x 32: give 1 to 16"},
      {"llama", R"({"target_modules": ["q_proj"], "rank_pattern": {"q_proj": 33}})",
       "rank_pattern: 33 does not fit"},
      {"llama", R"({"target_modules": ["q_proj"], "layers_to_transform": [2]})",
       "layers_to_transform: 2 is not a layer of this model: give 0 to 1"},
      {"llama", R"({"target_modules": "q_(proj"})",
       "target_modules: 'q_(proj' is not a valid regular expression: missing closing parenthesis at byte 7"},
      {"llama", R"({"target_modules": ["q_proj"], "rank_pattern": {"a)(b": 2}})",
       "rank_pattern: 'a)(b' is not a valid regular expression"},
      {"llama", R"({"target_modules": ["q_proj"], "modules_to_save": ["nothing"]})",
       "modules_to_save: nothing does not match any module; the model has embed_tokens, q_proj, k_proj, "
       "v_proj, o_proj, "
       "gate_proj, up_proj, down_proj, input_layernorm, post_attention_layernorm, norm, lm_head"},
      {"llama", R"({"target_modules": ["q_proj"], "target_parameters": ["down_proj"]})",
       "target_parameters: 'down_proj' is not a parameter that can have an adapter; those that can are "
       "q_proj.weight, k_proj.weight, v_proj.weight, o_proj.weight, gate_proj.weight, up_proj.weight, "
       "down_proj.weight"},
      {"qwen3_moe", R"({"target_modules": ["q_proj"], "target_parameters": ["up"]})",
       "target_parameters: 'up' is not a parameter that can have an adapter; those that can are "
       "q_proj.weight, k_proj.weight, v_proj.weight, o_proj.weight, gate_up_proj, down_proj, gate.weight"},
      {"llama", R"({"target_modules": ["q_proj"], "trainable_token_indices": [64]})",
       "trainable_token_indices: 64 is outside the 64 rows of model.embed_tokens"},
      {"qwen3_moe", R"({"target_modules": "all-linear", "lora_dropout": 0.05})",
       "target_parameters: an adapter of a parameter has no dropout: give lora_dropout 0"},
      {"qwen3_moe", R"({"target_modules": ["q_proj", "up_proj"]})",
       "target_modules: up_proj and gate_proj of an expert are one parameter, gate_up_proj: name both or "
       "neither"},
      {"qwen2_moe", R"({"target_modules": ["gate"]})",
       "target_modules: model.layers.0.mlp.gate is a router, not a linear layer: give gate.weight in "
       "target_parameters"},
      {"llama", R"({"target_modules": [], "target_parameters": ["norm.weight"]})",
       "target_parameters: model.norm.weight is not a matrix"},
      {"llama", R"({"target_modules": [], "target_parameters": ["embed_tokens.weight"]})",
       "target_parameters: model.embed_tokens.weight is adapted through its module: list that in "
       "target_modules"},
      {"llama", R"({"target_modules": [], "target_parameters": ["lm_head.weight"]})",
       "an adapter on the output head (lm_head) is refused"},
      {"llama", R"({"target_modules": ["q_proj"], "target_parameters": ["q_proj.weight"]})",
       "target_parameters: model.layers.0.self_attn.q_proj.weight belongs to "
       "model.layers.0.self_attn.q_proj, "
       "which has an adapter by target_modules: leave one of them out"},
      {"qwen2 SEQ_CLS", R"({"target_modules": ["score"]})", "(with task_type SEQ_CLS it is saved whole)"},
  };
  for (const auto& [model, json, want] : cases) {
    const auto [status, message] = test::error_of([&] { select_in(model, json); });
    EXPECT_EQ(status, Status::invalid_config) << json;
    EXPECT_NE(message.find(want), std::string::npos) << message;
  }
}

TEST(Targets, PatternsThatMatchNothingAreToldOf) {
  const Selection selection = select_in(
      "llama",
      R"({"target_modules": ["q_proj"], "alpha_pattern": {"up_proj": 2}, "exclude_modules": ["wte"]})");
  EXPECT_EQ(
      selection.warnings,
      (std::vector<std::string>{"exclude_modules: no module was excluded",
                                "alpha_pattern: 'up_proj' does not match any module that gets an adapter"}));
}

TEST(Targets, NamesThatMatchNothingBesideOthersAreToldOf) {
  const auto warnings = [](const char* config) { return select_in("llama", config).warnings; };
  const std::string linear =
      "does not match any module; the model has embed_tokens, q_proj, k_proj, v_proj, o_proj, "
      "gate_proj, up_proj, down_proj";
  EXPECT_EQ(warnings(R"({"target_modules": ["q_proj", "v_porj", "layers.9.k_proj"]})"),
            (std::vector<std::string>{"target_modules: 'v_porj' " + linear,
                                      "target_modules: 'layers.9.k_proj' " + linear}));
  EXPECT_EQ(warnings(R"({"target_modules": ["q_proj", "v_proj"], "exclude_modules": ["v_proj", "wte"]})"),
            std::vector<std::string>{"exclude_modules: 'wte' " + linear});
  const std::vector<std::string> saved =
      warnings(R"({"target_modules": ["q_proj"], "modules_to_save": ["embed_tokens", "lm_haed"]})");
  ASSERT_EQ(saved.size(), 1u);
  EXPECT_TRUE(saved[0].starts_with("modules_to_save: lm_haed does not match any module; the model has"));
  EXPECT_TRUE(warnings(R"({"target_modules": "all-linear"})").empty());
  EXPECT_TRUE(warnings("{}").empty());
}

// TRL makes a list of one an expression, which must match whole names.
TEST(Targets, ModulesThatMatchNothingBesideParametersAreToldOf) {
  const Selection selection =
      select_in("qwen3_moe", R"({"target_modules": "q_proj", "target_parameters": ["experts.down_proj"]})");
  EXPECT_EQ(selection.targets.size(), 2u);
  EXPECT_EQ(
      selection.warnings,
      std::vector<std::string>{
          "target_modules: 'q_proj' does not match any module, so only target_parameters get an adapter; the "
          "model has embed_tokens, q_proj, k_proj, v_proj, o_proj"});
  EXPECT_TRUE(select_in("qwen3_moe", R"({"target_modules": [], "target_parameters": ["down_proj"]})")
                  .warnings.empty());
}

TEST(Targets, TokensAreRowsOfTheEmbedding) {
  const Selection all = select_in("gpt2", R"({"trainable_token_indices": [3, 63]})");
  ASSERT_EQ(all.tokens.size(), 1u);
  EXPECT_EQ(all.tokens[0], (std::pair<size_t, std::vector<int64_t>>{0, {3, 63}}));
  const Selection named = select_in("gpt2", R"({"trainable_token_indices": {"wpe": [2]}})");
  EXPECT_EQ(named.tokens.at(0), (std::pair<size_t, std::vector<int64_t>>{1, {2}}));
}

}  // namespace
}  // namespace trl::adapter
