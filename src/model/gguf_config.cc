#include "model/gguf_config.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/gguf_names.h"
#include "model/rope.h"

namespace trl::model {

namespace {

using base::Json;

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

// Llama's own first.
std::vector<int64_t> original_lengths() {
  std::vector<int64_t> lengths = {8192};
  for (int64_t length = 32; length <= int64_t{1} << 22; length *= 2) lengths.push_back(length);
  return lengths;
}

bool gives_back(const RopeConfig& rope, const std::vector<float>& divisors, int64_t head_dim) {
  const std::vector<float> plain = inverse_frequencies({.theta = rope.theta}, head_dim);
  const std::vector<float> scaled = inverse_frequencies(rope, head_dim);
  bool same = true;
  for (size_t i = 0; i < divisors.size(); ++i)
    same = same && std::abs(plain[i] / scaled[i] / divisors[i] - 1) < 1e-4f;
  return same;
}

// Llama 3.1's scaling is stored as one divisor per frequency; config.json wants the rule behind them. Llama's
// models share all but the factor and the original length, so the rule is rebuilt from the largest divisor
// and the power of two that gives back every other.
Json llama3_rope(const io::Gguf& file, const io::GgufTensor& divisors, double theta, int64_t head_dim) {
  RopeConfig rope{.type = "llama3", .theta = theta};
  bool same = false;
  if (divisors.type_name == "F32" && divisors.shape == std::vector<int64_t>{head_dim / 2}) {
    std::vector<float> stored(static_cast<size_t>(head_dim / 2));
    io::dequantize(divisors, 0, head_dim / 2, stored.data());
    rope.factor = *std::max_element(stored.begin(), stored.end());
    for (const int64_t length : original_lengths()) {
      rope.original_max_position_embeddings = length;
      same = gives_back(rope, stored, head_dim);
      if (same) break;
    }
  }
  if (!same) {
    fail(
        Status::unsupported,
        "{}: tensor {}: not the rope scaling of Llama 3.1 (low 1, high 4, a power of two as original length)",
        file.path(), kRopeFactors);
  }
  return {
      {"rope_type", "llama3"},   {"rope_theta", theta},
      {"factor", rope.factor},   {"low_freq_factor", 1.0},
      {"high_freq_factor", 4.0}, {"original_max_position_embeddings", rope.original_max_position_embeddings}};
}

class Metadata {
 public:
  explicit Metadata(const io::Gguf& file) : file_(file), architecture_(file.text("general.architecture")) {
    family_ = is_gguf_family(architecture_) ? find_family(architecture_) : nullptr;
    if (family_ == nullptr) {
      fail(Status::unsupported, "{}: general.architecture \"{}\" is not a known family; these are: {}",
           file.path(), architecture_, gguf_families());
    }
  }
  const Family& family() const { return *family_; }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }
  int64_t integer(std::string_view name) const { return file_.integer(key(name)); }
  double number(std::string_view name) const { return file_.number(key(name)); }
  std::string text(std::string_view name) const { return file_.text(key(name)); }

 private:
  const io::Gguf& file_;
  std::string architecture_;
  const Family* family_;
};

int64_t head_dim(const io::Gguf& file, const Metadata& meta, int64_t hidden, int64_t heads) {
  if (heads < 1)
    fail(Status::format, "{}: {} is {}; expected at least 1", file.path(), meta.key("attention.head_count"),
         heads);
  const char* given = meta.has("attention.key_length") ? "attention.key_length" : "rope.dimension_count";
  const int64_t width = meta.has(given) ? meta.integer(given) : hidden / heads;
  if (width < 2 || width % 2 != 0) {
    fail(Status::format, "{}: {} makes heads of {}; expected an even number", file.path(), meta.key(given),
         width);
  }
  for (const char* name : {"attention.value_length", "rope.dimension_count"}) {
    if (meta.has(name) && meta.integer(name) != width) {
      fail(Status::unsupported, "{}: {} is {}, heads have {}; they must be equal", file.path(),
           meta.key(name), meta.integer(name), width);
    }
  }
  return width;
}

Json rope_parameters(const io::Gguf& file, const Metadata& meta, int64_t head_width) {
  const double theta = meta.has("rope.freq_base") ? meta.number("rope.freq_base") : 10000.0;
  const auto divisors = file.tensors().find(kRopeFactors);
  if (divisors != file.tensors().end()) return llama3_rope(file, divisors->second, theta, head_width);
  const std::string type = meta.has("rope.scaling.type") ? meta.text("rope.scaling.type") : "none";
  if (type == "none") return {{"rope_type", "default"}, {"rope_theta", theta}};
  if (type != "linear") {
    fail(Status::unsupported, "{}: {} is \"{}\"; none and linear are supported", file.path(),
         meta.key("rope.scaling.type"), type);
  }
  return {{"rope_type", "linear"}, {"rope_theta", theta}, {"factor", meta.number("rope.scaling.factor")}};
}

bool has_tensor(const io::Gguf& file, std::string_view name) {
  return file.tensors().find(name) != file.tensors().end();
}

void add_token_ids(const io::Gguf& file, Json& config) {
  constexpr std::pair<const char*, const char*> kIds[] = {
      {"bos_token_id", "tokenizer.ggml.bos_token_id"},
      {"eos_token_id", "tokenizer.ggml.eos_token_id"},
      {"pad_token_id", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [ours, theirs] : kIds) {
    if (file.find(theirs) != nullptr) config[ours] = file.integer(theirs);
  }
}

}  // namespace

Json gguf_config_json(const io::Gguf& file) {
  const Metadata meta(file);
  const auto embedding = file.tensors().find("token_embd.weight");
  if (embedding == file.tensors().end())
    fail(Status::format, "{}: tensor token_embd.weight is missing", file.path());
  const int64_t hidden = meta.integer("embedding_length");
  const int64_t heads = meta.integer("attention.head_count");
  const int64_t width = head_dim(file, meta, hidden, heads);
  Json config;
  config["architectures"] = {std::string(meta.family().architecture)};
  config["model_type"] = std::string(meta.family().model_type);
  config["vocab_size"] = embedding->second.shape.front();
  config["hidden_size"] = hidden;
  config["intermediate_size"] = meta.integer("feed_forward_length");
  config["num_hidden_layers"] = meta.integer("block_count");
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] =
      meta.has("attention.head_count_kv") ? meta.integer("attention.head_count_kv") : heads;
  config["head_dim"] = width;
  config["max_position_embeddings"] = meta.integer("context_length");
  config["rms_norm_eps"] = meta.number("attention.layer_norm_rms_epsilon");
  config["rope_parameters"] = rope_parameters(file, meta, width);
  config["hidden_act"] = "silu";
  config["attention_dropout"] = 0.0;
  config["initializer_range"] = 0.02;
  config["use_cache"] = true;
  config["tie_word_embeddings"] = !has_tensor(file, "output.weight");
  if (meta.family().out_bias.key != nullptr) config["attention_bias"] = has_tensor(file, "blk.0.attn_q.bias");
  if (meta.family().mlp_bias.key != nullptr) config["mlp_bias"] = has_tensor(file, "blk.0.ffn_gate.bias");
  if (meta.family().window.rule == WindowRule::every_layer) {
    constexpr const char* kWindow = "attention.sliding_window";
    config["sliding_window"] = meta.has(kWindow) ? Json(meta.integer(kWindow)) : Json();
  }
  add_token_ids(file, config);
  return config;
}

Json gguf_generation_config_json(const io::Gguf& file) {
  Json config = {{"_from_model_config", true}};
  add_token_ids(file, config);
  // The ends of a turn and of a message, where they are not the end of the text (Llama 3): generation stops
  // at each.
  std::vector<int64_t> ends;
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (file.find(key) == nullptr) continue;
    const int64_t id = file.integer(key);
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  }
  if (ends.size() > 1 && config.contains("eos_token_id")) config["eos_token_id"] = ends;
  return config;
}

}  // namespace trl::model
