// A small model of every family that llama.cpp knows, as a GGUF file and back: the same weights, outputs and
// configuration; and what llama.cpp would compute differently is refused.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <tuple>

#include "base/error.h"
#include "checkpoint/converted.h"
#include "checkpoint/save.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "io/safetensors.h"
#include "model/config/model_config.h"
#include "model/golden_batch.h"
#include "support/seeded_model.h"
#include "support/warnings.h"

namespace trl::checkpoint {
namespace {

using base::Json;

struct GgufCase {
  const char* recorded;  // tests/golden/families
  const char* edits;     // of its config.json
  const char* architecture;
};

const GgufCase kCases[] = {
    {"mistral_window", R"({"sliding_window": null})", "llama"},
    {"qwen2_window", R"({"use_sliding_window": false})", "qwen2"},
    {"qwen3_window", R"({"use_sliding_window": false, "attention_bias": false})", "qwen3"},
    {"phi3", R"({"sliding_window": null})", "phi3"},
    {"phi3_longrope", "{}", "phi3"},
    {"gemma", "{}", "gemma"},
    {"gemma2", R"({"query_pre_attn_scalar": 12})", "gemma2"},
    {"gemma3_text", R"({"query_pre_attn_scalar": 12})", "gemma3"},
    {"granite", "{}", "granite"},
    {"smollm3", R"({"num_hidden_layers": 4, "no_rope_layers": [1, 1, 1, 0], "layer_types": null})",
     "smollm3"},
    {"olmo2", "{}", "olmo2"},
    {"stablelm", "{}", "stablelm"},
    {"stablelm_parallel", "{}", "stablelm"},
    {"gpt_neox", "{}", "gptneox"},
    {"gpt_neox_sequential", R"({"tie_word_embeddings": false, "attention_bias": true})", "gptneox"},
    {"gpt2", "{}", "gpt2"},
    {"mixtral", "{}", "llama"},
    {"llama_yarn",
     R"({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 16}})",
     "llama"},
    {"qwen2_moe", R"({"mlp_only_layers": []})", "qwen2moe"},
    {"qwen3_moe", R"({"decoder_sparse_step": 1})", "qwen3moe"}};

// A directory with the weights that the configuration asks for.
void write_seeded(const std::string& path, const Json& config) {
  base::write_file(path + "/config.json", config.dump());
  std::vector<test::SeededTensor> tensors;
  for (const model::TensorShape& tensor : model::tensor_list(model::parse_config(config, path))) {
    test::SeededTensor& seeded = tensors.emplace_back(test::SeededTensor{tensor.name, tensor.shape, {}});
    int64_t count = 1;
    for (const int64_t size : tensor.shape) count *= size;
    const test::Seeded values(1, tensor.name);
    for (int64_t i = 0; i < count; ++i)
      seeded.values.push_back(static_cast<float>(values[static_cast<uint64_t>(i)] / 8));
  }
  std::vector<io::NamedTensor> named;
  for (const test::SeededTensor& tensor : tensors)
    named.push_back({tensor.name, io::ElementType::f32, tensor.shape, tensor.values.data()});
  io::write_safetensors(path + "/model.safetensors", named);
}

Json edited_config(const std::string& recorded, const std::string& edits) {
  Json config = test::golden_json("families/" + recorded + ".json")["config"];
  config.update(Json::parse(edits));
  return config;
}

void expect_same_hidden(model::Model& got, model::Model& want) {
  const at::NoGradGuard no_grad;
  std::vector<int32_t> row;
  for (int32_t i = 0; i < 40; ++i) row.push_back((i * 37 + 11) % 97);
  const model::ForwardInput input = test::forward_input({row, {1, 2, 3}});
  // Numbers of the configuration were rounded to float32.
  EXPECT_LE(test::used_limit(got.forward(input, {}).hidden, want.forward(input, {}).hidden, {2e-5, 2e-5}), 1);
}

void expect_same_outputs(const std::string& got_path, const std::string& want_path) {
  const auto got = model::Model::open(got_path, "float32"), want = model::Model::open(want_path, "float32");
  ASSERT_EQ(got->parameters().size(), want->parameters().size());
  const bool shifted = want->config().family->norm == kernels::NormKind::rms_offset;
  for (size_t i = 0; i < got->parameters().size(); ++i) {
    const at::Tensor a = *got->parameters()[i]->read(), b = *want->parameters()[i]->read();
    const std::string& name = got->parameters()[i]->name;
    EXPECT_EQ(name, want->parameters()[i]->name);
    // 1 + w was rounded to float32.
    const double limit = shifted && name.find("norm") != name.npos ? std::ldexp(1.0, -23) : 0;
    EXPECT_LE((a - b).abs().max().item<double>(), limit) << name;
  }
  expect_same_hidden(*got, *want);
  EXPECT_NEAR(got->config().logits_scale, want->config().logits_scale, 1e-7);
  EXPECT_NEAR(got->config().logits_softcap, want->config().logits_softcap, 1e-6);
}

class GgufFamilies : public testing::TestWithParam<GgufCase> {};

TEST_P(GgufFamilies, ThereAndBackIsTheSameModel) {
  const auto& [recorded, edits, architecture] = GetParam();
  const test::Scratch scratch;
  const Json config = edited_config(recorded, edits);
  base::make_directories(scratch / "model");
  write_seeded(scratch / "model", config);
  test::Warnings log;
  convert_to_gguf(scratch / "model", scratch / "m.gguf", "f32", {}, &log);
  EXPECT_EQ(io::Gguf(scratch / "m.gguf").text("general.architecture"), architecture);
  expect_same_outputs(scratch / "m.gguf", scratch / "model");
  const auto kept = model::Model::open(scratch / "m.gguf", "keep");
  expect_same_hidden(*kept, *model::Model::open(scratch / "m.gguf", "float32"));
  save_model(scratch / "saved", *kept, {});
  expect_same_outputs(scratch / "saved", scratch / "model");
  convert_to_directory(scratch / "m.gguf", scratch / "back", "auto", {}, &log);
  expect_same_outputs(scratch / "back", scratch / "model");
  EXPECT_TRUE(log.lines.empty()) << log.lines.front();
  const Json back = base::read_json_file(scratch / "back/config.json");
  if (config["model_type"] != "mistral") {  // whose files are those of a Llama
    EXPECT_EQ(back["model_type"], config["model_type"]);
    EXPECT_EQ(back["architectures"], config["architectures"]);
  }
  for (const char* key : {"vocab_size",
                          "hidden_size",
                          "intermediate_size",
                          "num_hidden_layers",
                          "num_attention_heads",
                          "num_key_value_heads",
                          "max_position_embeddings",
                          "tie_word_embeddings",
                          "hidden_act",
                          "hidden_activation",
                          "activation_function",
                          "n_embd",
                          "n_layer",
                          "n_head",
                          "n_positions",
                          "sliding_window",
                          "layer_types",
                          "query_pre_attn_scalar",
                          "attention_bias",
                          "use_qkv_bias",
                          "use_parallel_residual",
                          "num_experts",
                          "num_local_experts",
                          "num_experts_per_tok",
                          "moe_intermediate_size",
                          "shared_expert_intermediate_size",
                          "norm_topk_prob",
                          "logits_scaling",
                          "original_max_position_embeddings",
                          "final_logit_softcapping",
                          "attn_logit_softcapping"}) {
    if (config.contains(key) && back.contains(key)) {
      EXPECT_EQ(back[key], config[key]) << key;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Recorded, GgufFamilies, testing::ValuesIn(kCases),
                         [](const testing::TestParamInfo<GgufCase>& instance) {
                           return std::string(instance.param.recorded);
                         });

// llama.cpp takes the scale of attention from the size of a head: the file's Q holds what differs.
TEST(GgufFamilies, AnotherScaleOfAttentionGoesIntoQ) {
  for (const char* const family : {"gemma2", "gemma3_text"}) {
    SCOPED_TRACE(family);
    const test::Scratch scratch;
    const Json config = edited_config(family, "{}");
    ASSERT_NE(config["query_pre_attn_scalar"], config["head_dim"]);
    base::make_directories(scratch / "model");
    write_seeded(scratch / "model", config);
    convert_to_gguf(scratch / "model", scratch / "m.gguf", "f32", {}, nullptr);
    expect_same_hidden(*model::Model::open(scratch / "m.gguf", "float32"),
                       *model::Model::open(scratch / "model", "float32"));
  }
}

Error refusal_of(const std::string& recorded, const std::string& edits) {
  const test::Scratch scratch;
  base::make_directories(scratch / "model");
  write_seeded(scratch / "model", edited_config(recorded, edits));
  try {
    convert_to_gguf(scratch / "model", scratch / "m.gguf", "f32", {}, nullptr);
  } catch (const Error& error) {
    EXPECT_FALSE(base::file_exists(scratch / "m.gguf"));
    return error;
  }
  ADD_FAILURE() << "no error";
  return Error(Status::ok, "");
}

TEST(GgufFamilies, WhatLlamaCppComputesOtherwiseIsRefused) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"gemma", R"({"tie_word_embeddings": false})", "llama.cpp uses the embedding as its head"},
      {"gemma", R"({"hidden_act": "silu"})", "llama.cpp uses another activation than \"hidden_act\" says"},
      {"gemma2", R"({"query_pre_attn_scalar": 12, "final_logit_softcapping": null})", "has no cap"},
      {"olmo2", R"({"tie_word_embeddings": true})", "llama.cpp needs a separate head"},
      {"phi3", R"({"head_dim": 10})", "llama.cpp needs heads of hidden_size / num_attention_heads"},
      {"gpt_neox_sequential", R"({"tie_word_embeddings": false})", "llama.cpp needs biases for every"},
      {"qwen3_window", "{}", "llama.cpp adds biases only to Q, K and V"},
      {"smollm3", "{}", "llama.cpp has a rotary embedding in layer 1"},
      {"stablelm_head_norms", "{}", "norms of single heads are not written"},
      {"llama_yarn", "{}", "yarn with beta_fast 32 and beta_slow 1, and they are 4 and 1"},
      {"llama_yarn", R"({"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "truncate": false}})",
       "rounds the ends of yarn's ramp, and truncate is false"},
      {"gemma3_text",
       R"({"rope_parameters": {"full_attention": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.0}}})",
       "would multiply layers with a window by yarn's attention_factor too"},
      {"llama_dynamic", "{}",
       "rope type \"dynamic\" is not written: llama.cpp has no frequencies that follow the length of a text; "
       "these are: default, linear, yarn, llama3"},
      {"llama_proportional", "{}",
       "rope type \"proportional\" is not written: llama.cpp gives a part of a head no exponents of the "
       "whole"},
      {"cohere", "{}", "models of the family cohere are not written to GGUF files; these are: llama, "},
      {"glm", "{}", "models of the family glm are not written to GGUF files; these are: llama, "},
      {"glm4", "{}", "models of the family glm4 are not written to GGUF files; these are: llama, "},
      {"qwen3_moe", "{}", "llama.cpp needs experts in every layer"},
      {"qwen2_moe", R"({"mlp_only_layers": [], "norm_topk_prob": true})", "llama.cpp does not normalise"}};
  for (const auto& [recorded, edits, part] : cases) {
    SCOPED_TRACE(std::string(recorded) + edits);
    const Error error = refusal_of(recorded, edits);
    EXPECT_EQ(error.status(), Status::unsupported);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

// llama.cpp does not load a model called Phi-3 without the tokens of the first one.
TEST(GgufFamilies, ANameDoesNotPromiseTokens) {
  const test::Scratch scratch;
  base::make_directories(scratch / "my-Phi-3-tuned");
  write_seeded(scratch / "my-Phi-3-tuned", edited_config("phi3", R"({"sliding_window": null})"));
  const auto name_with = [&](const std::vector<std::string>& tokens) {
    io::GgufPairs pairs;
    pairs.add("tokenizer.ggml.tokens", tokens);
    convert_to_gguf(scratch / "my-Phi-3-tuned", scratch / "m.gguf", "f32", {pairs.count(), pairs.bytes(), -1},
                    nullptr);
    return io::Gguf(scratch / "m.gguf").text("general.name");
  };
  EXPECT_EQ(name_with({"<unk>", "<s>", "</s>"}), "Phi");
  EXPECT_EQ(name_with({"<unk>", "<s>", "</s>", "<|endoftext|>"}), "my-Phi-3-tuned");
}

// config.json says yarn as it did before, and the file's keys are those that llama.cpp reads.
TEST(GgufFamilies, YarnComesBack) {
  const Json yarn = {{"rope_type", "yarn"},
                     {"rope_theta", 10000.0},
                     {"factor", 4.0},
                     {"original_max_position_embeddings", 16}};
  Json with_factor = yarn, with_scales = yarn;
  with_factor["attention_factor"] = 1.25;
  with_scales["mscale"] = 1.0;
  with_scales["mscale_all_dim"] = 0.5;
  const double own = 0.1 * std::log(4.0) + 1, scaled = own / (0.05 * std::log(4.0) + 1);
  const std::tuple<Json, double, double> cases[] = {
      {yarn, 0, 1}, {with_factor, 1.25, 1.25 / own}, {with_scales, scaled, scaled / own}};
  for (const auto& [given, attention, multiplier] : cases) {
    SCOPED_TRACE(given.dump());
    const test::Scratch scratch;
    base::make_directories(scratch / "model");
    write_seeded(scratch / "model", edited_config("llama_yarn", Json{{"rope_parameters", given}}.dump()));
    convert_to_gguf(scratch / "model", scratch / "m.gguf", "f32", {}, nullptr);
    const io::Gguf file(scratch / "m.gguf");
    EXPECT_EQ(file.text("llama.rope.scaling.type"), "yarn");
    EXPECT_EQ(file.number("llama.rope.scaling.factor"), 4);
    EXPECT_EQ(file.integer("llama.rope.scaling.original_context_length"), 16);
    constexpr const char* kMultiplier = "llama.rope.scaling.attn_factor";
    ASSERT_EQ(file.find(kMultiplier) != nullptr, multiplier != 1);
    if (multiplier != 1) {
      EXPECT_NEAR(file.number(kMultiplier), multiplier, 1e-6);
    }
    convert_to_directory(scratch / "m.gguf", scratch / "back", "auto", {}, nullptr);
    expect_same_outputs(scratch / "back", scratch / "model");
    Json back = base::read_json_file(scratch / "back/config.json")["rope_parameters"], want = yarn;
    if (attention != 0) {
      EXPECT_NEAR(back.at("attention_factor").get<double>(), attention, 1e-6);
      want["attention_factor"] = back["attention_factor"];
    }
    EXPECT_EQ(back, want);
  }
}

// The first files of Mixtral have a matrix for each expert: such a file of one that has them in one tensor.
std::string with_single_experts(const std::string& path, const std::string& without = "") {
  const io::Gguf file(path);
  test::GgufWriter writer;
  for (const auto& [key, value] : file.metadata()) {
    if (const auto* text = std::get_if<std::string>(&value)) writer.add(key, std::string_view(*text));
    if (const auto* size = std::get_if<uint64_t>(&value)) writer.add(key, static_cast<uint32_t>(*size));
    if (const auto* number = std::get_if<double>(&value)) writer.add(key, static_cast<float>(*number));
  }
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string_view bytes(static_cast<const char*>(tensor.data), tensor.bytes);
    if (tensor.shape.size() != 3) {
      writer.tensor(name, tensor.shape, tensor.type, bytes);
      continue;
    }
    const size_t at = name.find("_exps"), part = bytes.size() / static_cast<size_t>(tensor.shape[0]);
    for (size_t i = 0; i < bytes.size() / part; ++i) {
      const std::string single = fmt::format("{}.{}{}", name.substr(0, at), i, name.substr(at + 5));
      if (single != without)
        writer.tensor(single, {tensor.shape[1], tensor.shape[2]}, tensor.type, bytes.substr(i * part, part));
    }
  }
  return writer.bytes();
}

TEST(GgufFamilies, AMatrixForEachExpert) {
  const test::Scratch scratch;
  base::make_directories(scratch / "model");
  write_seeded(scratch / "model", edited_config("mixtral", "{}"));
  convert_to_gguf(scratch / "model", scratch / "m.gguf", "f32", {}, nullptr);
  base::write_file(scratch / "single.gguf", with_single_experts(scratch / "m.gguf"));
  ASSERT_TRUE(io::Gguf(scratch / "single.gguf").tensors().contains("blk.1.ffn_gate.3.weight"));
  expect_same_outputs(scratch / "single.gguf", scratch / "model");
  expect_same_hidden(*model::Model::open(scratch / "single.gguf", "keep"),
                     *model::Model::open(scratch / "model", "float32"));
  test::Warnings log;
  convert_to_directory(scratch / "single.gguf", scratch / "back", "auto", {}, &log);
  expect_same_outputs(scratch / "back", scratch / "model");
  EXPECT_TRUE(log.lines.empty()) << log.lines.front();
  for (const std::string missing : {"blk.0.ffn_up.0.weight", "blk.1.ffn_down.3.weight"}) {
    SCOPED_TRACE(missing);
    base::write_file(scratch / "single.gguf", with_single_experts(scratch / "m.gguf", missing));
    try {
      model::Model::open(scratch / "single.gguf", "float32");
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::format);
      const bool first = missing == "blk.0.ffn_up.0.weight";  // neither form is there
      EXPECT_NE(error.message().find(first ? "tensor blk.0.ffn_up_exps.weight is missing"
                                           : "tensor " + missing + " is missing"),
                std::string::npos)
          << error.message();
    }
  }
}

// Its weights have other prefixes, and the vision part is left out.
TEST(GgufFamilies, TheLanguageModelOfOneThatSees) {
  const test::SeededModel seeded("gemma3");
  Json config = seeded.json["config"];
  config["text_config"]["query_pre_attn_scalar"] = 12;
  base::write_file(seeded.directory / "config.json", config.dump());
  const test::Scratch scratch;
  test::Warnings log;
  convert_to_gguf(seeded.directory.path(), scratch / "m.gguf", "f32", {}, &log);
  const auto got = model::Model::open(scratch / "m.gguf", "float32");
  const auto want = model::Model::open(seeded.directory.path(), "float32");
  EXPECT_EQ(got->config().model_type, "gemma3_text");
  const model::ForwardInput input = test::forward_input({{5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}});
  const at::NoGradGuard no_grad;
  EXPECT_LE(test::used_limit(got->forward(input, {}).hidden, want->forward(input, {}).hidden, {2e-5, 2e-5}),
            1);
  ASSERT_EQ(log.lines.size(), want->carried().empty() ? 0u : 1u);
}

}  // namespace
}  // namespace trl::checkpoint
