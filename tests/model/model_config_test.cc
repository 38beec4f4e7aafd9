// config.json in both styles of transformers, and what is refused by name.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/config/model_config.h"
#include "model/config/rope.h"

namespace trl::model {
namespace {

using base::Json;

Json llama() {
  return base::parse_json(
      R"({"model_type": "llama", "vocab_size": 100, "hidden_size": 64, "intermediate_size": 112,
    "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-05, "tie_word_embeddings": true})",
      "llama");
}

Json with(Json config, const std::string& key, const Json& value) {
  config[key] = value;
  return config;
}

void expect_config_error(const Json& config, Status status, std::string_view part) {
  try {
    parse_config(config, "config.json");
    ADD_FAILURE() << "accepted; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.message();
    EXPECT_TRUE(error.message().starts_with("config.json: ")) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(Config, ReadsWhatIsThereAndDefaultsTheRest) {
  const ModelConfig c = parse_config(llama(), "config.json");
  EXPECT_EQ(c.architecture, "LlamaForCausalLM");
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.num_key_value_heads, 2);
  EXPECT_EQ(c.norm_eps, 1e-5);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.attention_qkv_bias || c.attention_out_bias || c.mlp_bias || c.qk_norm);
  EXPECT_EQ(c.rope.type, "default");
  EXPECT_EQ(c.rope.theta, 10000.0);
  EXPECT_EQ(c.sliding_layers, std::vector<bool>(3, false));
  EXPECT_EQ(parse_config(with(llama(), "num_key_value_heads", nullptr), "").num_key_value_heads, 4);
  EXPECT_EQ(parse_config(with(llama(), "head_dim", 24), "").head_dim, 24);
  EXPECT_EQ(parse_config(with(llama(), "head_dim", nullptr), "").head_dim, 16);
}

TEST(Config, FamiliesDiffer) {
  const ModelConfig bias = parse_config(with(with(llama(), "attention_bias", true), "mlp_bias", true), "");
  EXPECT_TRUE(bias.attention_qkv_bias && bias.attention_out_bias && bias.mlp_bias);
  const ModelConfig qwen2 = parse_config(with(llama(), "model_type", "qwen2"), "");
  EXPECT_TRUE(qwen2.attention_qkv_bias);
  EXPECT_FALSE(qwen2.attention_out_bias || qwen2.qk_norm);
  const ModelConfig qwen3 = parse_config(with(llama(), "model_type", "qwen3"), "");
  EXPECT_TRUE(qwen3.qk_norm);
  EXPECT_FALSE(qwen3.attention_qkv_bias);
  EXPECT_EQ(qwen3.head_dim, 128);
  const ModelConfig mistral =
      parse_config(with(with(llama(), "model_type", "mistral"), "attention_bias", true), "");
  EXPECT_EQ(mistral.architecture, "MistralForCausalLM");
  EXPECT_FALSE(mistral.attention_qkv_bias || mistral.attention_out_bias || mistral.qk_norm);
  EXPECT_EQ(mistral.head_dim, 16);
}

TEST(Config, HeadsOfGptNeoxShareNoKeys) {
  const ModelConfig c = parse_config(with(llama(), "model_type", "gpt_neox"), "");
  EXPECT_EQ(c.num_key_value_heads, 4);  // as transformers, which reads no num_key_value_heads there
}

TEST(Config, WhatCohereAndGlmHaveWhereNothingIsSaid) {
  const ModelConfig cohere = parse_config(with(llama(), "model_type", "cohere"), "");
  EXPECT_EQ(cohere.rope.layout, kernels::RopeLayout::pairs);
  EXPECT_EQ(cohere.rope.theta, 5e5);
  EXPECT_EQ(cohere.logits_scale, 0.0625);
  EXPECT_TRUE(cohere.parallel && !cohere.qk_norm && !cohere.attention_qkv_bias);
  EXPECT_EQ(parse_config(with(with(llama(), "model_type", "cohere"), "logit_scale", 0.5), "").logits_scale,
            0.5);
  expect_config_error(with(with(llama(), "model_type", "cohere"), "logit_scale", -1), Status::format,
                      "\"logit_scale\" is -1; expected a positive number");
  expect_config_error(with(with(llama(), "model_type", "cohere"), "partial_rotary_factor", 0.5),
                      Status::unsupported, "\"partial_rotary_factor\" is 0.5; only 1 is supported");
  for (const char* type : {"glm", "glm4"}) {
    const ModelConfig glm = parse_config(with(llama(), "model_type", type), "");
    EXPECT_EQ(glm.rope.layout, kernels::RopeLayout::pairs);
    EXPECT_EQ(glm.rope.partial, 0.5);
    EXPECT_TRUE(glm.attention_qkv_bias && !glm.attention_out_bias);
  }
  EXPECT_EQ(parse_config(llama(), "").rope.layout, kernels::RopeLayout::halves);
}

TEST(Config, RopeInBothStyles) {
  const Json scaling = {{"rope_type", "llama3"},
                        {"factor", 8.0},
                        {"low_freq_factor", 1.0},
                        {"high_freq_factor", 4.0},
                        {"original_max_position_embeddings", 32}};
  const RopeConfig old =
      parse_config(with(with(llama(), "rope_theta", 5e5), "rope_scaling", scaling), "").rope;
  Json parameters = scaling;
  parameters["rope_theta"] = 5e5;
  const RopeConfig fresh = parse_config(with(llama(), "rope_parameters", parameters), "").rope;
  for (const RopeConfig& rope : {old, fresh}) {
    EXPECT_EQ(rope.type, "llama3");
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.factor, 8.0);
    EXPECT_EQ(rope.low_freq_factor, 1.0);
    EXPECT_EQ(rope.high_freq_factor, 4.0);
    EXPECT_EQ(rope.original_max_position_embeddings, 32);
  }
  const RopeConfig linear =
      parse_config(with(llama(), "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}), "").rope;
  EXPECT_EQ(linear.type, "linear");
  EXPECT_EQ(inverse_frequencies(linear, 4), (std::vector<float>{0.5f, 0.005f}));
  EXPECT_EQ(parse_config(with(llama(), "rope_scaling", nullptr), "").rope.type, "default");
}

TEST(Config, PositionsFollowAStretchedRope) {
  const auto positions = [](const char* type, double factor, int64_t original) {
    const Json scaling = {
        {"rope_type", type}, {"factor", factor}, {"original_max_position_embeddings", original}};
    return parse_config(with(llama(), "rope_scaling", scaling), "").positions();
  };
  EXPECT_EQ(parse_config(llama(), "").positions(), 256);
  EXPECT_EQ(positions("linear", 2, 256), 512);
  EXPECT_EQ(positions("dynamic", 4, 256), 1024);
  EXPECT_EQ(positions("yarn", 4, 256), 1024);
  EXPECT_EQ(positions("yarn", 8, 32), 256);  // max_position_embeddings are all of them
  EXPECT_EQ(positions("linear", 1e300, 256), INT32_MAX);
  EXPECT_EQ(parse_config(with(llama(), "model_max_length", 1000), "").positions(), 1000);
  EXPECT_EQ(parse_config(with(llama(), "model_max_length", 1e30), "").positions(), 256);
  EXPECT_EQ(parse_config(with(llama(), "model_max_length", 100), "").positions(), 256);
  const Json gemma = with(with(llama(), "model_type", "gemma3_text"), "rope_scaling",
                          {{"rope_type", "linear"}, {"factor", 8.0}});
  EXPECT_EQ(parse_config(gemma, "").positions(), 256);
}

// Values of transformers' _compute_llama3_parameters for theta 5e5, head 16, factor 8, length 32.
TEST(Config, Llama3Frequencies) {
  const RopeConfig rope{"llama3", 5e5, 8, 1, 4, 32};
  const std::vector<float> got = inverse_frequencies(rope, 16);
  const std::vector<float> want = {1.0f,
                                   0.0242403448f,
                                   0.00470075384f,
                                   0.000911583134f,
                                   0.000176776681f,
                                   3.42810235e-05f,
                                   6.64786967e-06f,
                                   1.28917316e-06f};
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 2e-7 * want[i]) << i;
}

TEST(Config, SlidingWindows) {
  Json config = with(with(llama(), "model_type", "qwen2"), "sliding_window", 8);
  EXPECT_EQ(parse_config(config, "").sliding_window, 0);  // not used unless asked for
  config["use_sliding_window"] = true;
  config["max_window_layers"] = 1;
  EXPECT_EQ(parse_config(config, "").sliding_window, 8);
  EXPECT_EQ(parse_config(config, "").sliding_layers, (std::vector<bool>{false, true, true}));
  config["max_window_layers"] = 0;
  EXPECT_EQ(parse_config(config, "").sliding_layers, std::vector<bool>(3, true));
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention"};
  EXPECT_EQ(parse_config(config, "").sliding_layers, (std::vector<bool>{true, false, true}));
  config["layer_types"] = {"sliding_attention"};
  expect_config_error(config, Status::format, "\"layer_types\" is not a list of 3 entries");
  config["layer_types"] = {"full_attention", "full_attention", "chunked_attention"};
  expect_config_error(config, Status::unsupported, "\"layer_types\"[2] is \"chunked_attention\"");
  config["use_sliding_window"] = false;
  expect_config_error(config, Status::unsupported, "\"layer_types\"[2] is \"chunked_attention\"");
  expect_config_error(with(llama(), "layer_types", {"full_attention"}), Status::format,
                      "\"layer_types\" is not a list of 3 entries");
}

TEST(Config, EveryLayerOfMistralSlides) {
  Json config = with(llama(), "model_type", "mistral");
  EXPECT_EQ(parse_config(config, "").sliding_window, 4096);
  EXPECT_EQ(parse_config(config, "").sliding_layers, std::vector<bool>(3, true));
  config["sliding_window"] = 8;
  EXPECT_EQ(parse_config(config, "").sliding_window, 8);
  config["sliding_window"] = nullptr;
  EXPECT_EQ(parse_config(config, "").sliding_window, 0);
  EXPECT_EQ(parse_config(config, "").sliding_layers, std::vector<bool>(3, false));
  expect_config_error(with(config, "sliding_window", 0), Status::format,
                      "\"sliding_window\" is 0; expected an integer");
}

TEST(Config, RefusesByName) {
  expect_config_error(with(llama(), "model_type", "gemma7"), Status::unsupported,
                      "model_type \"gemma7\" is not a known family; these are: llama, mistral, qwen2, qwen3");
  expect_config_error(with(llama(), "model_type", nullptr), Status::format, "\"model_type\" is missing");
  for (const char* key :
       {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"}) {
    Json missing = llama();
    missing.erase(key);
    expect_config_error(missing, Status::format, fmt::format("\"{}\" is missing", key));
    for (const Json& bad :
         {Json(0), Json(-1), Json(1.5), Json("64"), Json(true), Json(int64_t{1} << 40), Json(UINT64_MAX)}) {
      expect_config_error(with(llama(), key, bad), Status::format,
                          fmt::format("\"{}\" is {}; expected an integer", key, bad.dump()));
    }
  }
  expect_config_error(with(llama(), "num_key_value_heads", 3), Status::format,
                      "\"num_attention_heads\" (4) is not a multiple of \"num_key_value_heads\" (3)");
  expect_config_error(with(llama(), "num_key_value_heads", 0), Status::format,
                      "\"num_key_value_heads\" is 0");
  expect_config_error(with(llama(), "hidden_size", 66), Status::format,
                      "\"hidden_size\" (66) is not a multiple");
  expect_config_error(with(llama(), "head_dim", 15), Status::format,
                      "\"head_dim\" is 15; expected an even number");
  expect_config_error(with(llama(), "hidden_act", "mish"), Status::unsupported,
                      "\"hidden_act\" is \"mish\"; these are supported: silu, swish, gelu,");
  expect_config_error(with(llama(), "rms_norm_eps", -1), Status::format, "\"rms_norm_eps\" is -1");
  expect_config_error(with(llama(), "tie_word_embeddings", 1), Status::format,
                      "\"tie_word_embeddings\" is 1; expected true");
  expect_config_error(with(llama(), "quantization_config", {{"bits", 4}}), Status::unsupported,
                      "\"quantization_config\"");
  expect_config_error(with(llama(), "partial_rotary_factor", 0.5), Status::unsupported,
                      "\"partial_rotary_factor\" is 0.5");
  expect_config_error(Json::array(), Status::format, "not a JSON object");
  expect_config_error(with(llama(), "architectures", {"LlamaForSequenceClassification"}), Status::unsupported,
                      "\"architectures\" begins with \"LlamaForSequenceClassification\"; a language model "
                      "(LlamaForCausalLM) is expected");
  expect_config_error(with(llama(), "architectures", {3}), Status::unsupported,
                      "\"architectures\" begins with 3;");
  for (const Json& fine : {Json::array(), Json::array({"LlamaModel"}), Json::array({"MyForCausalLM"})})
    EXPECT_EQ(parse_config(with(llama(), "architectures", fine), "").head_dim, 16);
  for (const char* type : {"axial", "su"}) {
    expect_config_error(
        with(llama(), "rope_scaling", {{"rope_type", type}, {"factor", 2.0}}), Status::unsupported,
        fmt::format("rope type \"{}\" is not supported; these are: default, linear, dynamic, yarn, "
                    "longrope, llama3",
                    type));
  }
  const Json factors = Json::array({1.0, 2.0});
  expect_config_error(with(llama(), "rope_scaling",
                           {{"rope_type", "longrope"}, {"short_factor", factors}, {"long_factor", factors}}),
                      Status::format, "\"short_factor\" is not a list of 8 positive numbers");
  expect_config_error(with(llama(), "rope_scaling", {{"rope_type", "linear"}}), Status::format,
                      "\"factor\" is missing");
  expect_config_error(with(llama(), "rope_scaling", {{"rope_type", "linear"}, {"factor", 0}}), Status::format,
                      "\"factor\" is 0");
  expect_config_error(with(llama(), "rope_scaling", "linear"), Status::format,
                      "rope parameters are not an object");
  expect_config_error(with(llama(), "rope_theta", -5), Status::format, "\"rope_theta\" is -5");
  const Json proportional = {{"rope_type", "proportional"}, {"partial_rotary_factor", 1.5}};
  expect_config_error(with(llama(), "rope_parameters", proportional), Status::format,
                      "\"partial_rotary_factor\" is 1.5; expected at most 1");
  expect_config_error(with(with(llama(), "model_type", "stablelm"), "rope_parameters", proportional),
                      Status::unsupported,
                      "rope type \"proportional\" is not supported beside \"partial_rotary_factor\"");
}

}  // namespace
}  // namespace trl::model
