#include "support/random_model.h"

#include <bit>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <numbers>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace trl::bench {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

uint64_t next(uint64_t& state) {  // splitmix64 (Steele et al. 2014)
  uint64_t z = state += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

uint16_t bfloat16(double value) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// 65,536 draws of N(0, 0.02), the usual initializer_range; a weight is one of them.
std::vector<uint16_t> normal_table() {
  std::vector<uint16_t> table(1 << 16);
  uint64_t state = 42;
  for (uint16_t& entry : table) {  // Box and Muller (1958)
    const double u = (static_cast<double>(next(state) >> 11) + 1) * 0x1p-53;
    const double v = static_cast<double>(next(state) >> 11) * 0x1p-53;
    entry = bfloat16(0.02 * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v));
  }
  return table;
}

int64_t count_of(const RandomTensor& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t{1}, std::multiplies<>());
}

bool is_norm(const RandomTensor& tensor) {
  return tensor.shape.size() == 1 && tensor.name.ends_with(".weight");
}

std::vector<RandomTensor> tensors_of(const ModelShape& s) {
  const int64_t kv = s.hidden_size / s.num_attention_heads * s.num_key_value_heads;
  std::vector<RandomTensor> all = {{"model.embed_tokens.weight", {s.vocab_size, s.hidden_size}}};
  for (int64_t i = 0; i < s.num_hidden_layers; ++i) {
    const std::string layer = "model.layers." + std::to_string(i) + ".";
    const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      all.push_back({layer + name, std::move(shape)});
    };
    add("input_layernorm.weight", {s.hidden_size});
    for (const auto& [name, rows] : {std::pair{"q_proj", s.hidden_size}, {"k_proj", kv}, {"v_proj", kv}}) {
      add(std::string("self_attn.") + name + ".weight", {rows, s.hidden_size});
      add(std::string("self_attn.") + name + ".bias", {rows});
    }
    add("self_attn.o_proj.weight", {s.hidden_size, s.hidden_size});
    add("post_attention_layernorm.weight", {s.hidden_size});
    add("mlp.gate_proj.weight", {s.intermediate_size, s.hidden_size});
    add("mlp.up_proj.weight", {s.intermediate_size, s.hidden_size});
    add("mlp.down_proj.weight", {s.hidden_size, s.intermediate_size});
  }
  all.push_back({"model.norm.weight", {s.hidden_size}});
  return all;
}

void write_weights(const std::vector<RandomTensor>& tensors, const fs::path& path) {
  Json header = {{"__metadata__", {{"format", "pt"}}}};
  int64_t at = 0;
  for (const RandomTensor& tensor : tensors) {
    const int64_t end = at + 2 * count_of(tensor);
    header[tensor.name] = {{"dtype", "BF16"}, {"shape", tensor.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::ofstream out(path, std::ios::binary);
  const uint64_t size = text.size();
  out.write(reinterpret_cast<const char*>(&size), sizeof size);
  out << text;
  const std::vector<uint16_t> table = normal_table();
  uint64_t state = 1;
  std::vector<uint16_t> values;
  for (const RandomTensor& tensor : tensors) {
    values.resize(static_cast<size_t>(count_of(tensor)));
    if (is_norm(tensor)) {
      std::fill(values.begin(), values.end(), bfloat16(1));
    } else {
      for (size_t i = 0; i < values.size(); i += 4) {
        uint64_t draw = next(state);
        for (size_t j = i; j < std::min(i + 4, values.size()); ++j, draw >>= 16)
          values[j] = table[draw & 0xffff];
      }
    }
    out.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(2 * values.size()));
  }
  if (!out.flush()) throw std::runtime_error(path.string() + ": cannot be written");
}

}  // namespace

void write_random_model(const std::string& config, const std::vector<RandomTensor>& tensors,
                        const std::string& tokenizer, const std::string& directory) {
  const fs::path to(directory);
  fs::create_directories(to);
  if (!fs::exists(fs::path(tokenizer) / "tokenizer.json"))
    throw std::runtime_error(tokenizer + ": no tokenizer.json there; give a model directory that has one");
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "chat_template.jinja"}) {
    const fs::path from = fs::path(tokenizer) / name;
    if (fs::exists(from)) fs::copy_file(from, to / name);
  }
  std::ofstream(to / "config.json") << config << "\n";
  write_weights(tensors, to / "model.safetensors");
}

void write_random_model(const ModelShape& s, const std::string& tokenizer, const std::string& directory) {
  const Json config = {{"architectures", {"Qwen2ForCausalLM"}},
                       {"model_type", "qwen2"},
                       {"hidden_act", "silu"},
                       {"hidden_size", s.hidden_size},
                       {"intermediate_size", s.intermediate_size},
                       {"num_hidden_layers", s.num_hidden_layers},
                       {"num_attention_heads", s.num_attention_heads},
                       {"num_key_value_heads", s.num_key_value_heads},
                       {"vocab_size", s.vocab_size},
                       {"max_position_embeddings", 32768},
                       {"rms_norm_eps", 1e-6},
                       {"rope_theta", 1e6},
                       {"attention_dropout", 0.0},
                       {"use_sliding_window", false},
                       {"tie_word_embeddings", true},
                       {"torch_dtype", "bfloat16"}};
  write_random_model(config.dump(2), tensors_of(s), tokenizer, directory);
}

}  // namespace trl::bench
