// Models of a given shape with random bfloat16 weights, as Hugging Face directories.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trl::bench {

struct ModelShape {  // of the qwen2 family, with a tied head
  int64_t num_hidden_layers, hidden_size, intermediate_size, num_attention_heads, num_key_value_heads,
      vocab_size;
};

inline constexpr ModelShape kQwen2_5_0_5B = {24, 896, 4864, 14, 2, 151936};
inline constexpr ModelShape kQwen2_5_1_5B = {28, 1536, 8960, 12, 2, 151936};

// config.json, model.safetensors and the tokenizer's files of another directory; always the same weights.
void write_random_model(const ModelShape& shape, const std::string& tokenizer, const std::string& directory);

struct RandomTensor {
  std::string name;
  std::vector<int64_t> shape;
};
// The same for any model. config: the text of config.json.
void write_random_model(const std::string& config, const std::vector<RandomTensor>& tensors,
                        const std::string& tokenizer, const std::string& directory);

}  // namespace trl::bench
