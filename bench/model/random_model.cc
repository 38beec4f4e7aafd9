// usage: random_model FAMILY TOKENIZER_DIR DIRECTORY
// Writes a model of the family with random bfloat16 weights, for `sft_bench --model random:FAMILY`: 12 layers
// of width 1,024, about as many active parameters in every family, or the shape of a published model. Prints
// {"directory": ...}.
#include "support/random_model.h"

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/config/families.h"
#include "model/model.h"

namespace {

using namespace trl;
using Json = nlohmann::ordered_json;

constexpr int64_t kGated = 2816, kUngated = 4096;  // of as many parameters: three matrices, or two

Json common() {
  return {{"vocab_size", 49152},
          {"hidden_size", 1024},
          {"intermediate_size", kGated},
          {"num_hidden_layers", 12},
          {"num_attention_heads", 16},
          {"num_key_value_heads", 4},
          {"max_position_embeddings", 4096},
          {"tie_word_embeddings", true},
          {"torch_dtype", "bfloat16"},
          {"pad_token_id", nullptr},
          {"eos_token_id", 0},
          {"bos_token_id", 0},
          {"attention_dropout", 0.0}};
}

// What a family's config.json has beside or instead of that.
const std::map<std::string, Json>& families() {
  static const std::map<std::string, Json> all = {
      {"llama", {}},
      {"mistral", {{"sliding_window", 4096}}},
      {"mixtral", {{"intermediate_size", kGated / 2}, {"num_local_experts", 8}, {"num_experts_per_tok", 2}}},
      {"qwen2", {}},
      {"qwen3", {{"head_dim", 64}}},
      {"qwen2_moe",
       {{"moe_intermediate_size", kGated / 4},
        {"shared_expert_intermediate_size", kGated / 2},
        {"num_experts", 8},
        {"num_experts_per_tok", 2}}},
      {"qwen3_moe",
       {{"head_dim", 64},
        {"moe_intermediate_size", kGated / 2},
        {"num_experts", 8},
        {"num_experts_per_tok", 2},
        {"norm_topk_prob", true}}},
      {"gemma", {{"head_dim", 64}}},
      {"gemma2", {{"head_dim", 64}, {"query_pre_attn_scalar", 64}, {"sliding_window", 1024}}},
      {"gemma3_text", {{"head_dim", 64}, {"query_pre_attn_scalar", 64}, {"sliding_window", 512}}},
      {"phi3", {{"original_max_position_embeddings", 4096}}},
      {"smollm3", {}},
      {"olmo2", {}},
      {"cohere", {{"logit_scale", 0.0625}}},
      {"glm", {{"head_dim", 64}}},
      {"glm4", {{"head_dim", 64}}},
      {"granite",
       {{"embedding_multiplier", 12.0},
        {"residual_multiplier", 0.22},
        {"attention_multiplier", 0.015625},
        {"logits_scaling", 8.0}}},
      {"gpt2",
       {{"n_embd", 1024},
        {"n_layer", 12},
        {"n_head", 16},
        {"n_positions", 4096},
        {"n_inner", kUngated},
        {"attn_pdrop", 0.0},
        {"resid_pdrop", 0.0},
        {"embd_pdrop", 0.0}}},
      {"gpt_neox", {{"intermediate_size", kUngated}, {"rotary_pct", 0.25}}},
      {"stablelm", {{"partial_rotary_factor", 0.25}}},
      {"qwen3-4b",  // the shape of Qwen3-4B
       {{"model_type", "qwen3"},
        {"vocab_size", 151936},
        {"hidden_size", 2560},
        {"intermediate_size", 9728},
        {"num_hidden_layers", 36},
        {"num_attention_heads", 32},
        {"num_key_value_heads", 8},
        {"head_dim", 128},
        {"max_position_embeddings", 40960}}},
      {"qwen2.5-0.5b",  // the shape of Qwen2.5-0.5B
       {{"model_type", "qwen2"},
        {"vocab_size", 151936},
        {"hidden_size", 896},
        {"intermediate_size", 4864},
        {"num_hidden_layers", 24},
        {"num_attention_heads", 14},
        {"num_key_value_heads", 2},
        {"max_position_embeddings", 131072},
        {"rope_theta", 1e6}}},
      {"qwen2.5-1.5b",  // the shape of Qwen2.5-1.5B
       {{"model_type", "qwen2"},
        {"vocab_size", 151936},
        {"hidden_size", 1536},
        {"intermediate_size", 8960},
        {"num_hidden_layers", 28},
        {"num_attention_heads", 12},
        {"num_key_value_heads", 2},
        {"max_position_embeddings", 131072},
        {"rope_theta", 1e6}}},
  };
  return all;
}

// Has whatever is asked for, and notes it.
class Wanted final : public model::WeightSource {
 public:
  std::string place(const std::string& name) const override { return name; }
  const std::vector<int64_t>* shape(const std::string&) const override { return nullptr; }
  void need(const std::string& name, const std::vector<int64_t>& shape) const override {
    tensors.push_back({name, shape});
  }
  std::string asks(const std::string&) const override { return {}; }
  void read(const std::string&, at::Tensor&) const override {}
  void read(const std::string&, int64_t, int64_t, float*) const override {}
  void forget(const std::string&) const override {}
  std::string type(const std::string&) const override { return "BF16"; }
  std::vector<std::string> others(const std::set<std::string>&) const override { return {}; }
  mutable std::vector<bench::RandomTensor> tensors;
};

int write(const std::string& name, const std::string& tokenizer, const std::string& directory) {
  const auto found = families().find(name);
  if (found == families().end()) {
    std::string names;
    for (const auto& [known, config] : families()) names += (names.empty() ? "" : ", ") + known;
    throw std::runtime_error(name + ": there is no shape for this family; these are: " + names);
  }
  Json config = common();
  config["model_type"] = name;
  for (const auto& [key, value] : found->second.items()) config[key] = value;
  config["architectures"] = {model::find_family(config["model_type"].get<std::string>())->architecture};
  const auto wanted = std::make_shared<const Wanted>();
  const base::Json parsed = base::Json::parse(config.dump());
  model::ModelFiles files{model::parse_config(parsed, name), parsed, base::Json::object(), {}};
  const model::Model decoder(std::move(files), wanted, at::kBFloat16, at::kCPU, {}, model::Held::numbers,
                             nullptr, 0);
  bench::write_random_model(config.dump(2), wanted->tensors, tokenizer, directory);
  std::printf("%s\n", Json{{"directory", directory}}.dump().c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: random_model FAMILY TOKENIZER_DIR DIRECTORY\n");
    return 2;
  }
  try {
    return write(argv[1], argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "random_model: %s\n", error.what());
    return 1;
  }
}
