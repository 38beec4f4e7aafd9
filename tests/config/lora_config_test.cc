// TRL's flags and PEFT's fields as one LoraConfig.
#include "config/lora_config.h"

#include <gtest/gtest.h>

#include <set>

#include "config/settings.h"

namespace trl::config {
namespace {

LoraConfig read(const std::string& json) {
  return read_lora_config(base::parse_json(json, "test"), "peft_config", Status::invalid_config);
}

TEST(LoraConfig, DefaultsAreThoseOfPeft) {
  const LoraConfig config = read("{}");
  EXPECT_EQ(config.r, 8);
  EXPECT_EQ(config.lora_alpha, 8);
  EXPECT_EQ(config.lora_dropout, 0);
  EXPECT_FALSE(config.target_modules);
  EXPECT_EQ(config.bias, LoraBias::none);
  EXPECT_EQ(config.init_lora_weights, LoraInit::standard);
}

TEST(LoraConfig, ReadsEveryField) {
  const LoraConfig config = read(R"({"peft_type": "LORA", "task_type": "SEQ_CLS", "inference_mode": false,
      "peft_version": "0.21.2", "r": 4, "lora_alpha": 6.5, "lora_dropout": 0.1, "target_modules": ["a", "b"],
      "exclude_modules": ".*c", "target_parameters": null, "modules_to_save": ["d"], "layers_to_transform": 3,
      "layers_pattern": "layers", "rank_pattern": {"z": 2, "a": 1}, "alpha_pattern": {"a": 1.5},
      "trainable_token_indices": {"embed_tokens": [1, 2]}, "bias": "lora_only", "use_rslora": true,
      "fan_in_fan_out": true, "init_lora_weights": "pissa_niter_16", "base_model_name_or_path": "base",
      "loftq_config": {}, "eva_config": null, "use_qalora": false, "qalora_group_size": 16,
      "megatron_core": "megatron.core"})");
  EXPECT_EQ(config.r, 4);
  EXPECT_EQ(config.lora_alpha, 6.5);
  EXPECT_EQ(config.lora_dropout, 0.1);
  EXPECT_EQ(config.target_modules->names, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(config.exclude_modules.pattern, ".*c");
  EXPECT_EQ(config.modules_to_save, (std::vector<std::string>{"d", "classifier", "score"}));
  EXPECT_EQ(config.layers_to_transform, std::vector<int64_t>{3});
  EXPECT_EQ(config.layers_pattern, std::vector<std::string>{"layers"});
  EXPECT_EQ(config.rank_pattern, (std::vector<std::pair<std::string, int64_t>>{{"z", 2}, {"a", 1}}));
  EXPECT_EQ(config.alpha_pattern, (std::vector<std::pair<std::string, double>>{{"a", 1.5}}));
  EXPECT_EQ(config.trainable_token_indices.at(0).second, (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(config.bias, LoraBias::lora_only);
  EXPECT_TRUE(config.use_rslora);
  EXPECT_EQ(config.init_lora_weights, LoraInit::pissa);
  EXPECT_EQ(config.pissa_iterations, 16);
  EXPECT_EQ(config.base_model_name_or_path, "base");
}

TEST(LoraConfig, WhatIsNotBuiltIsRefusedByName) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"eva_config": {"rho": 2.0}})", "peft_config: eva_config: EVA is not built: leave eva_config out"},
      {R"({"loftq_config": {"loftq_bits": 4}})",
       "peft_config: loftq_config: LoftQ is not built: leave loftq_config out"},
      {R"({"alora_invocation_tokens": [1]})",
       "peft_config: alora_invocation_tokens: Activated LoRA (aLoRA) is not built: leave "
       "alora_invocation_tokens out"},
      {R"({"use_qalora": true})", "peft_config: use_qalora: QALoRA is not built: leave use_qalora out"},
      {R"({"init_lora_weights": "corda"})",
       "peft_config: init_lora_weights: corda is not supported; give true, false, gaussian, orthogonal, "
       "olora, "
       "pissa or "
       "pissa_niter_N"},
      {R"({"peft_type": "IA3"})", "peft_config: peft_type: 'IA3' is not supported; only 'LORA' is"},
  };
  for (const auto& [json, message] : cases) {
    EXPECT_EQ(test::error_of([&] { read(json); }), std::pair(Status::invalid_config, message));
  }
}

// Every field of PEFT 0.21.2's LoraConfig with a value that asks for something: it is taken, or refused by
// name.
TEST(LoraConfig, EveryFieldOfPeftsIsTakenOrRefused) {
  struct Field {
    const char *name, *value, *refused;  // a part of the message; empty: it is taken
  };
  const Field fields[] = {
      {"task_type", R"("SEQ_CLS")", ""},
      {"peft_type", R"("LORA")", ""},
      {"auto_mapping", R"({"base_model_class": "LlamaForCausalLM"})", ""},
      {"peft_version", R"("0.21.2")", ""},
      {"base_model_name_or_path", R"("base")", ""},
      {"revision", R"("main")", ""},
      {"inference_mode", "true", "nothing is trained"},
      {"r", "4", ""},
      {"target_modules", R"(["q_proj"])", ""},
      {"exclude_modules", R"("q_proj")", ""},
      {"lora_alpha", "4", ""},
      {"lora_dropout", "0.5", ""},
      {"fan_in_fan_out", "true", ""},
      {"bias", R"("all")", ""},
      {"use_rslora", "true", ""},
      {"modules_to_save", R"(["lm_head"])", ""},
      {"init_lora_weights", R"("pissa_niter_4")", ""},
      {"init_lora_weights", R"("eva")", "eva is not supported"},
      {"init_lora_weights", R"("mica")", "mica is not supported"},
      {"init_lora_weights", R"("lora_ga")", "lora_ga is not supported"},
      {"init_lora_weights", R"("loftq")", "loftq is not supported"},
      {"layers_to_transform", "[1]", ""},
      {"layers_pattern", R"(["layers"])", "only with layers_to_transform"},
      {"rank_pattern", R"({"q_proj": 2})", ""},
      {"alpha_pattern", R"({"q_proj": 2})", ""},
      {"megatron_config", R"({"a": 1})", "Megatron"},
      {"megatron_core", R"("megatron.core")", ""},
      {"trainable_token_indices", "[1]", ""},
      {"loftq_config", R"({"loftq_bits": 4})", "LoftQ"},
      {"eva_config", R"({"rho": 2})", "EVA"},
      {"corda_config", R"({"corda_method": "ipm"})", "CorDA"},
      {"lora_ga_config", R"({"direction": "ArB2r"})", "LoRA-GA"},
      {"use_dora", "true", ""},
      {"velora_config", R"({"a": 1})", "VeLoRA"},
      {"alora_invocation_tokens", "[1]", "aLoRA"},
      {"use_qalora", "true", "QALoRA"},
      {"qalora_group_size", "16", ""},
      {"monteclora_config", R"({"a": 1})", "MonteCLoRA"},
      {"layer_replication", "[[0, 4], [2, 5]]", "layer replication"},
      {"runtime_config", R"({"ephemeral_gpu_offload": true})", "offloading"},
      {"lora_bias", "true", ""},
      {"target_parameters", R"(["experts.down_proj"])", ""},
      {"use_bdlora", R"({"a": 1})", "BD-LoRA"},
      {"arrow_config", R"({"top_k": 2})", "Arrow"},
      {"kasa_config", R"({"a": 1})", "KaSA"},
      {"ensure_weight_tying", "true", ""},
  };
  std::set<std::string> names;
  for (const Field& field : fields) {
    names.insert(field.name);
    const auto [status, message] =
        test::error_of([&] { read(fmt::format(R"({{"{}": {}}})", field.name, field.value)); });
    if (*field.refused == '\0') {
      EXPECT_EQ(message, "") << field.name;
      continue;
    }
    EXPECT_EQ(status, Status::invalid_config) << field.name;
    EXPECT_TRUE(message.starts_with(fmt::format("peft_config: {}: ", field.name))) << message;
    EXPECT_NE(message.find(field.refused), std::string::npos) << message;
  }
  EXPECT_EQ(names.size(), 42u);  // as many as the class has
}

TEST(LoraConfig, BadFieldsAreRefused) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"r": 0})", "peft_config: r: '0' is not accepted; give an integer > 0"},
      {R"({"r": 2.5})", "peft_config: r: '2.5' is not accepted; give an integer > 0"},
      {R"({"lora_dropout": 1.5})",
       "peft_config: lora_dropout: '1.5' is not accepted; give a number in [0, 1]"},
      {R"({"target_modules": 3})",
       "peft_config: target_modules: '3' is not accepted; give a list of names, or a regular expression of "
       "the "
       "whole name"},
      {R"({"rank_pattern": {"q": 0}})",
       R"(peft_config: rank_pattern: '{"q":0}' is not accepted; give a mapping of names to integers > 0)"},
      {R"({"bias": "some"})", "peft_config: bias: 'some' is not accepted; give none, all or lora_only"},
      {R"({"lora_aplha": 3})",
       "peft_config: lora_aplha: PEFT's LoraConfig has no such field; the nearest is lora_alpha"},
      {R"({"task_type": "TOKEN_CLS"})",
       "peft_config: task_type: 'TOKEN_CLS' is not accepted; give CAUSAL_LM or SEQ_CLS"},
      {R"([1])", "peft_config: a mapping of fields is required, not a list"},
      {R"({"target_modules": "all-linear", "layers_to_transform": [1]})",
       "peft_config: layers_to_transform: it is for a list of target_modules, and target_modules is an "
       "expression"},
      {R"({"target_parameters": ["down_proj"], "lora_dropout": 0.1})",
       "peft_config: target_parameters: an adapter of a parameter has no dropout: give lora_dropout 0"},
  };
  for (const auto& [json, message] : cases) {
    EXPECT_EQ(test::error_of([&] { read(json); }), std::pair(Status::invalid_config, message));
  }
  const auto [status, message] = test::error_of(
      [] { read_lora_config(base::Json::parse(R"({"r": -1})"), "a/adapter_config.json", Status::format); });
  EXPECT_EQ(status, Status::format);
  EXPECT_EQ(message, "a/adapter_config.json: r: '-1' is not accepted; give an integer > 0");
}

TEST(LoraConfig, PeftConfigNeedsUsePeft) {
  Config config;
  EXPECT_FALSE(lora_config(config));
  config.set("peft_config", "{r: 4}");
  EXPECT_EQ(test::error_of([&] { lora_config(config); }).second,
            "peft_config: it has an effect only with use_peft: give use_peft: true, or leave it out");
}

LoraConfig of(const Settings& settings) {
  Config config = config_with(settings);
  config.set("use_peft", "true");
  return lora_config(config).value();
}

TEST(LoraConfig, TrlsFlagsComeWithTheirDefaults) {
  const LoraConfig plain = of({});
  EXPECT_EQ(plain.r, 16);
  EXPECT_EQ(plain.lora_alpha, 32);
  EXPECT_EQ(plain.lora_dropout, 0.05);
  EXPECT_EQ(plain.task_type, "CAUSAL_LM");
  EXPECT_FALSE(plain.target_modules);
  const LoraConfig set = of({{"lora_r", "4"},
                             {"lora_target_modules", "q_proj v_proj"},
                             {"lora_modules_to_save", "lm_head"},
                             {"use_rslora", "true"}});
  EXPECT_EQ(set.r, 4);
  EXPECT_EQ(set.target_modules->names, (std::vector<std::string>{"q_proj", "v_proj"}));
  EXPECT_EQ(set.modules_to_save, std::vector<std::string>{"lm_head"});
  EXPECT_TRUE(set.use_rslora);
  EXPECT_TRUE(of({{"lora_target_modules", "all-linear"}}).target_modules->all_linear());
  EXPECT_EQ(of({{"lora_target_modules", "[.*q_proj]"}}).target_modules->pattern, ".*q_proj");
  const auto one = of({{"lora_target_modules", "[q_proj]"}}).target_modules;
  EXPECT_FALSE(one->pattern);
  EXPECT_EQ(one->names, std::vector<std::string>{"q_proj"});
}

TEST(LoraConfig, PeftConfigSaysTheRest) {
  const LoraConfig config =
      of({{"lora_r", "4"}, {"peft_config", "{lora_alpha: 6, bias: all, init_lora_weights: gaussian}"}});
  EXPECT_EQ(config.r, 4);
  EXPECT_EQ(config.lora_alpha, 6);
  EXPECT_EQ(config.lora_dropout, 0.05);
  EXPECT_EQ(config.bias, LoraBias::all);
  EXPECT_EQ(config.init_lora_weights, LoraInit::gaussian);
  EXPECT_EQ(of({{"lora_r", "4"}, {"peft_config", "{r: 4}"}}).r, 4);
  EXPECT_EQ(test::error_of([] {
              of({{"lora_r", "4"}, {"peft_config", "{r: 8}"}});
            }).second,
            "lora_r: '4' contradicts peft_config: r: '8'; give one of them");
}

}  // namespace
}  // namespace trl::config
