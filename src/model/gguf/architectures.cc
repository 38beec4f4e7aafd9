// Facts from llama.cpp's src/models/*.cpp and llama-model.cpp.
#include "model/gguf/architectures.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/text/nearest.h"

namespace trl::model {

namespace {

using kernels::Activation;

// llama.cpp has no separate architectures for Mistral and Mixtral: windows apart, they are Llamas.
constexpr GgufFamily kRows[] = {
    {.model_type = "llama",
     .architecture = "llama",
     .paired_rows = true,
     .biases = GgufBiases::any,
     .free_heads = true,
     .rope_freqs = true},
    {.model_type = "mistral",
     .architecture = "llama",
     .paired_rows = true,
     .free_heads = true,
     .rope_freqs = true},
    {.model_type = "qwen2", .architecture = "qwen2"},
    {.model_type = "qwen3", .architecture = "qwen3", .free_heads = true},
    {.model_type = "phi3", .architecture = "phi3", .longrope = true},
    {.model_type = "gemma",
     .architecture = "gemma",
     .head = GgufHead::tied,
     .activation = Activation::gelu_tanh,
     .free_heads = true},
    {.model_type = "gemma2",
     .architecture = "gemma2",
     .head = GgufHead::tied,
     .activation = Activation::gelu_tanh,
     .free_heads = true,
     .softcaps = true,
     .window_pattern = 2,
     .window = 4096,
     .wide_layers = 46},
    {.model_type = "gemma3_text",
     .architecture = "gemma3",
     .activation = Activation::gelu_tanh,
     .free_heads = true,
     .window_pattern = 6,
     .wide_layers = 62},
    // The language model within a multimodal one.
    {.model_type = "gemma3",
     .architecture = "gemma3",
     .activation = Activation::gelu_tanh,
     .free_heads = true,
     .window_pattern = 6,
     .wide_layers = 62},
    {.model_type = "granite",
     .architecture = "granite",
     .paired_rows = true,
     .biases = GgufBiases::any,
     .free_heads = true,
     .multipliers = true,
     .rope_freqs = true},
    {.model_type = "smollm3",
     .architecture = "smollm3",
     .paired_rows = true,
     .free_heads = true,
     .unturned_every = 4},
    {.model_type = "olmo2", .architecture = "olmo2", .head = GgufHead::own},
    {.model_type = "stablelm", .architecture = "stablelm", .head = GgufHead::own},
    {.model_type = "gpt_neox",
     .architecture = "gptneox",
     .head = GgufHead::own,
     .activation = Activation::gelu,
     .biases = GgufBiases::all},
    {.model_type = "gpt2",
     .architecture = "gpt2",
     .activation = Activation::gelu_tanh,
     .biases = GgufBiases::all},
    {.model_type = "mixtral",
     .architecture = "llama",
     .experts = true,
     .paired_rows = true,
     .free_heads = true,
     .normalised = true,
     .rope_freqs = true},
    {.model_type = "qwen2_moe", .architecture = "qwen2moe", .experts = true, .head = GgufHead::own},
    {.model_type = "qwen3_moe",
     .architecture = "qwen3moe",
     .experts = true,
     .free_heads = true,
     .normalised = true},
};

template <typename Matches>
const GgufFamily* find(const Matches& matches) {
  for (const GgufFamily& row : kRows)
    if (matches(row)) return &row;
  return nullptr;
}

template <typename Name>
std::string list(const Name& name) {
  std::vector<std::string_view> names;
  for (const GgufFamily& row : kRows)
    if (std::ranges::find(names, name(row)) == names.end()) names.push_back(name(row));
  return base::join(names);
}

}  // namespace

const GgufFamily* find_gguf_family(std::string_view model_type) {
  return find([&](const GgufFamily& row) { return row.model_type == model_type; });
}

const GgufFamily* find_gguf_architecture(std::string_view architecture, bool experts) {
  const GgufFamily* row =
      find([&](const GgufFamily& r) { return r.architecture == architecture && r.experts == experts; });
  return row != nullptr ? row : find([&](const GgufFamily& r) {
    return r.model_type == architecture && r.experts == experts;
  });
}

std::string gguf_families() {
  return list([](const GgufFamily& row) { return row.model_type; });
}

std::string gguf_architectures() {
  return list([](const GgufFamily& row) { return row.architecture; });
}

double gguf_attention_scale(const GgufFamily& row, int64_t layers, int64_t hidden, int64_t heads,
                            int64_t head_dim) {
  return 1 / std::sqrt(static_cast<double>(row.wide_layers == layers ? hidden / heads : head_dim));
}

double gguf_attention_ratio(const ModelConfig& config, const GgufFamily& row) {
  const double ratio =
      config.attention_scale / gguf_attention_scale(row, config.num_hidden_layers, config.hidden_size,
                                                    config.num_attention_heads, config.head_dim);
  return std::abs(ratio - 1) < 1e-6 ? 1 : ratio;
}

}  // namespace trl::model
