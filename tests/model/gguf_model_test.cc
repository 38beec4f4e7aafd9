// A recorded model written as GGUF and opened from it: same weights (Q and K rows back in place), same
// logits, and a config.json that says the same.
#include <gtest/gtest.h>

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "io/gguf_writer.h"
#include "io/temporary_file.h"
#include "model/config/rope.h"
#include "model/gguf/architectures.h"
#include "model/golden_batch.h"
#include "model/model.h"

namespace trl::model {
namespace {

using base::Json;
using test::GgufWriter;
using test::TemporaryDirectory;

std::string gguf_name(std::string name) {
  const std::pair<const char*, const char*> pairs[] = {{"model.layers.", "blk."},
                                                       {"self_attn.q_proj", "attn_q"},
                                                       {"self_attn.k_proj", "attn_k"},
                                                       {"self_attn.v_proj", "attn_v"},
                                                       {"self_attn.o_proj", "attn_output"},
                                                       {"self_attn.q_norm", "attn_q_norm"},
                                                       {"self_attn.k_norm", "attn_k_norm"},
                                                       {"mlp.gate_proj", "ffn_gate"},
                                                       {"mlp.up_proj", "ffn_up"},
                                                       {"mlp.down_proj", "ffn_down"},
                                                       {"input_layernorm", "attn_norm"},
                                                       {"post_attention_layernorm", "ffn_norm"},
                                                       {"model.embed_tokens", "token_embd"},
                                                       {"model.norm", "output_norm"},
                                                       {"lm_head", "output"}};
  for (const auto& [from, to] : pairs) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, std::string_view(from).size(), to);
  }
  return name;
}

// As llama.cpp's converter does for the llama architecture: halves of a head become pairs.
at::Tensor interleave(const at::Tensor& value, int64_t heads) {
  std::vector<int64_t> split = value.sizes().vec();
  split[0] = split[0] / heads / 2;
  split.insert(split.begin(), {heads, 2});
  return value.reshape(split).transpose(1, 2).reshape(value.sizes()).contiguous();
}

void write_metadata(GgufWriter& writer, const ModelConfig& c, bool kv_heads = true) {
  const std::string p = c.model_type + ".";
  writer.add("general.architecture", c.model_type);
  writer.add(p + "block_count", static_cast<uint32_t>(c.num_hidden_layers));
  writer.add(p + "context_length", static_cast<uint32_t>(c.max_position_embeddings));
  writer.add(p + "embedding_length", static_cast<uint32_t>(c.hidden_size));
  writer.add(p + "feed_forward_length", static_cast<uint32_t>(c.intermediate_size));
  writer.add(p + "attention.head_count", static_cast<uint32_t>(c.num_attention_heads));
  if (kv_heads) writer.add(p + "attention.head_count_kv", static_cast<uint32_t>(c.num_key_value_heads));
  writer.add(p + "attention.layer_norm_rms_epsilon", static_cast<float>(c.norm_eps));
  writer.add(p + "rope.freq_base", static_cast<float>(c.rope.theta));
  writer.add(p + "attention.key_length", static_cast<uint32_t>(c.head_dim));
  writer.add(p + "attention.value_length", static_cast<uint32_t>(c.head_dim));
  if (c.sliding_window > 0)
    writer.add(p + "attention.sliding_window", static_cast<uint32_t>(c.sliding_window));
  writer.add("tokenizer.ggml.bos_token_id", uint32_t{5});
  writer.add("tokenizer.ggml.eos_token_id", uint32_t{6});
  writer.add("tokenizer.ggml.eot_token_id", uint32_t{7});
  writer.add("tokenizer.ggml.padding_token_id", uint32_t{6});
}

GgufWriter written(Model& model, bool narrow_matrices = false, bool kv_heads = true) {
  const ModelConfig& c = model.config();
  GgufWriter writer;
  write_metadata(writer, c, kv_heads);
  for (Parameter* parameter : model.parameters()) {
    at::Tensor value = *parameter->read();
    const bool pairs = find_gguf_family(c.model_type)->paired_rows;
    if (pairs && parameter->name.find("q_proj") != std::string::npos)
      value = interleave(value, c.num_attention_heads);
    if (pairs && parameter->name.find("k_proj") != std::string::npos)
      value = interleave(value, c.num_key_value_heads);
    const bool narrow = narrow_matrices && value.dim() == 2;
    if (narrow) value = value.to(at::kBFloat16);
    writer.tensor(gguf_name(parameter->name), value.sizes().vec(), narrow ? 30 : 0,
                  {static_cast<const char*>(value.data_ptr()), value.nbytes()});
  }
  return writer;
}

TEST(GgufModel, SameWeightsLogitsAndConfig) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const at::NoGradGuard no_grad;
  const TemporaryDirectory directory;
  int opened = 0;
  for (const std::string name : {"llama", "llama_sharded", "mistral", "qwen2", "qwen3"}) {
    SCOPED_TRACE(name);
    const auto want = Model::open(test::golden_path("models/" + name), "float32");
    const auto got = Model::open(directory.write("m.gguf", written(*want).bytes()), "auto");
    EXPECT_EQ(got->dtype(), at::kFloat);
    const auto a = want->parameters();
    const auto b = got->parameters();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(a[i]->name, b[i]->name);
      EXPECT_TRUE(at::equal(*a[i]->read(), *b[i]->read())) << a[i]->name;
    }
    const ForwardInput input = test::forward_input({{1, 2, 3, 4, 5}, {7, 8}});
    const at::Tensor hidden = want->forward(input, {}).hidden;
    // The epsilon is stored as float32 in GGUF, so it differs in the last digits from config.json's.
    EXPECT_LE(test::used_limit(got->forward(input, {}).hidden, hidden, {1e-6, 1e-6}), 1);
    Json config = got->config_json();
    const Json& original = want->config_json();
    for (const char* key : {"model_type", "architectures", "vocab_size", "hidden_size", "intermediate_size",
                            "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
                            "max_position_embeddings", "hidden_act", "tie_word_embeddings"}) {
      EXPECT_EQ(config[key], original[key]) << key;
    }
    for (const char* key : {"attention_bias", "mlp_bias", "sliding_window"}) {
      if (original.contains(key)) {
        EXPECT_EQ(config[key], original[key]) << key;
      }
    }
    EXPECT_EQ(config["head_dim"], want->config().head_dim);
    EXPECT_EQ(config["rope_parameters"],
              (Json{{"rope_type", "default"}, {"rope_theta", want->config().rope.theta}}));
    EXPECT_EQ(config["bos_token_id"], 5);
    EXPECT_EQ(config["eos_token_id"], 6);
    EXPECT_EQ(config["pad_token_id"], 6);
    EXPECT_EQ(got->generation_config_json()["eos_token_id"], Json({6, 7}));
    EXPECT_EQ(got->end_ids(), (std::vector<int32_t>{6, 7}));
    got->align_special_tokens({.bos = -1, .eos = 8, .pad = 9});
    EXPECT_EQ(got->config_json()["bos_token_id"], 5);
    EXPECT_EQ(got->config_json()["eos_token_id"], 8);
    EXPECT_EQ(got->config_json()["pad_token_id"], 9);
    EXPECT_EQ(got->generation_config_json()["pad_token_id"], 9);
    EXPECT_EQ(got->end_ids(), (std::vector<int32_t>{8, 6, 7}));
    ++opened;
  }
  EXPECT_EQ(opened, 5);
}

TEST(GgufModel, DtypeFollowsTheEmbedding) {
  TRL_NEED_GOLDEN("models/qwen2_bf16/config.json");
  const TemporaryDirectory directory;
  const auto want = Model::open(test::golden_path("models/qwen2_bf16"), "float32");
  const auto got = Model::open(directory.write("m.gguf", written(*want, true).bytes()), "auto");
  EXPECT_EQ(got->dtype(), at::kBFloat16);
  for (size_t i = 0; i < want->parameters().size(); ++i) {
    EXPECT_TRUE(at::equal(*want->parameters()[i]->read(), got->parameters()[i]->read()->to(at::kFloat)));
  }
}

void expect_refused(const std::string& path, Status status, std::string_view part) {
  try {
    Model::open(path, "float32");
    ADD_FAILURE() << "opened without an error; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(GgufModel, Llama3ScalingIsRebuiltFromItsDivisors) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const auto base = Model::open(test::golden_path("models/llama"), "float32");
  const RopeConfig rule{"llama3", 10000.0, 32, 1, 4, 8192};
  const std::vector<float> scaled = inverse_frequencies(rule, 16);
  const std::vector<float> plain = inverse_frequencies({}, 16);
  std::vector<float> divisors;
  for (size_t i = 0; i < plain.size(); ++i) divisors.push_back(plain[i] / scaled[i]);
  GgufWriter writer = written(*base);
  writer.tensor("rope_freqs.weight", {8}, divisors);
  const auto model = Model::open(directory.write("m.gguf", writer.bytes()), "float32");
  EXPECT_EQ(model->config().rope.type, "llama3");
  EXPECT_EQ(model->config().rope.factor, 32.0);
  EXPECT_EQ(model->config().rope.original_max_position_embeddings, 8192);
  GgufWriter other = written(*base);
  divisors[3] *= 1.5f;
  other.tensor("rope_freqs.weight", {8}, divisors);
  expect_refused(directory.write("m.gguf", other.bytes()), Status::unsupported,
                 "tensor rope_freqs.weight: not the rope scaling");
}

// As llama.cpp's converter writes it, whose yarn_ keys are copies of config.json's.
TEST(GgufModel, YarnHasTheConvertersKeysToo) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const auto base = Model::open(test::golden_path("models/llama"), "float32");
  const auto with = [&](const std::vector<std::pair<std::string, float>>& more) {
    GgufWriter writer = written(*base);
    writer.add("llama.rope.scaling.type", "yarn");
    writer.add("llama.rope.scaling.factor", 4.0f);
    for (const auto& [key, value] : more) writer.add("llama.rope.scaling." + key, value);
    return directory.write("m.gguf", writer.bytes());
  };
  const auto plain = Model::open(with({}), "float32");
  EXPECT_EQ(plain->config().rope.type, "yarn");
  EXPECT_EQ(plain->config().rope.factor, 4);
  EXPECT_EQ(plain->config().rope.original_max_position_embeddings, plain->config().max_position_embeddings);
  EXPECT_EQ(plain->config().rope.attention_factor, std::nullopt);
  const auto more = Model::open(with({{"yarn_attn_factor", 0.9f},
                                      {"yarn_beta_fast", 16},
                                      {"yarn_beta_slow", 2},
                                      {"yarn_ext_factor", 1}}),
                                "float32");
  EXPECT_EQ(more->config().rope.attention_factor, 0.9);
  EXPECT_EQ(more->config().rope.beta_fast, 16);
  EXPECT_EQ(more->config().rope.beta_slow, 2);
  expect_refused(with({{"yarn_ext_factor", 0.5f}}), Status::unsupported,
                 "llama.rope.scaling.yarn_ext_factor is 0.5; only 1 is supported");
  expect_refused(with({{"yarn_log_multiplier", 0.1f}}), Status::unsupported,
                 "llama.rope.scaling.yarn_log_multiplier is 0.1");
}

TEST(GgufModel, AFactorWithoutATypeIsLinear) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const auto base = Model::open(test::golden_path("models/llama"), "float32");
  for (const char* key : {"llama.rope.scaling.factor", "llama.rope.scale_linear"}) {
    GgufWriter writer = written(*base);
    writer.add(key, 8.0f);
    const auto model = Model::open(directory.write("m.gguf", writer.bytes()), "float32");
    EXPECT_EQ(model->config().rope.type, "linear");
    EXPECT_EQ(model->config().rope.factor, 8);
  }
}

TEST(GgufModel, RefusesWhatIsWrong) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const TemporaryDirectory directory;
  const auto base = Model::open(test::golden_path("models/llama"), "float32");
  const std::string good = written(*base).bytes();
  expect_refused(directory.write("m.gguf", good.substr(0, good.size() / 2)), Status::format,
                 "m.gguf: truncated: tensor");
  GgufWriter unknown;
  unknown.add("general.architecture", "mamba");
  expect_refused(directory.write("m.gguf", unknown.bytes()), Status::unsupported,
                 "general.architecture \"mamba\" is not a known family; these are: llama, qwen2, qwen3, ");
  GgufWriter other_family;  // of the table, but its files are not read yet
  other_family.add("general.architecture", "qwen2_moe");
  expect_refused(
      directory.write("m.gguf", other_family.bytes()), Status::unsupported,
      "general.architecture \"qwen2_moe\" is not a known family; these are: llama, qwen2, qwen3, ");
  GgufWriter bare;
  bare.add("general.architecture", "llama");
  expect_refused(directory.write("m.gguf", bare.bytes()), Status::format,
                 "tensor token_embd.weight is missing");
  bare.tensor("token_embd.weight", {4, 4}, std::vector<float>(16));
  expect_refused(directory.write("m.gguf", bare.bytes()), Status::format,
                 "metadata key llama.embedding_length is missing");
  GgufWriter scaled = written(*base);
  scaled.add("llama.rope.scaling.type", "dynamic");
  expect_refused(directory.write("m.gguf", scaled.bytes()), Status::unsupported,
                 "llama.rope.scaling.type is \"dynamic\"; none, linear and yarn are supported");
  GgufWriter empty;
  write_metadata(empty, base->config());
  empty.tensor("token_embd.weight", {448, 64}, std::vector<float>(448 * 64));
  expect_refused(directory.write("m.gguf", empty.bytes()), Status::format,
                 "tensor blk.0.attn_q.weight is missing");
}

// As in llama.cpp, and the message names the key.
TEST(GgufModel, WithoutKeyValueHeadsEveryHeadIsOne) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const TemporaryDirectory directory;
  const auto base = Model::open(test::golden_path("models/qwen2"), "float32");
  expect_refused(directory.write("m.gguf", written(*base, false, false).bytes()), Status::format,
                 "tensor blk.0.attn_k.weight has shape [32, 64], the metadata (qwen2.attention.head_count_kv "
                 "is missing: "
                 "attention.head_count counts) ask for [64, 64]");
}

TEST(GgufModel, RefusesABiasInBlocks) {
  TRL_NEED_GOLDEN("models/llama_sharded/config.json");
  const TemporaryDirectory directory;
  GgufWriter writer;
  const auto base = Model::open(test::golden_path("models/llama_sharded"), "float32");
  write_metadata(writer, base->config());
  for (Parameter* parameter : base->parameters()) {
    const std::string name = gguf_name(parameter->name);
    const bool block = name == "blk.0.attn_q.bias";
    const std::string blocks(2 * 34, '\0');
    const at::Tensor value = *parameter->read();
    writer.tensor(name, value.sizes().vec(), block ? 8 : 0,
                  block ? std::string_view(blocks)
                        : std::string_view(static_cast<const char*>(value.data_ptr()), value.nbytes()));
  }
  expect_refused(directory.write("m.gguf", writer.bytes()), Status::unsupported,
                 "blk.0.attn_q.bias: a bias of type Q8_0");
}

}  // namespace
}  // namespace trl::model
