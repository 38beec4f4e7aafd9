#include "model/gguf/metadata.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "model/config/rope.h"
#include "model/gguf/architectures.h"

namespace trl::model {

namespace {

bool slides(const ModelConfig& c) {
  return std::ranges::find(c.sliding_layers, true) != c.sliding_layers.end();
}

class Writer {
 public:
  Writer(const ModelConfig& config, const GgufFamily& row)
      : c_(config), row_(row), prefix_(std::string(row.architecture) + ".") {}

  io::GgufPairs made(const std::string& name, base::LogSink* log) {
    pairs_.add("general.architecture", row_.architecture);
    pairs_.add("general.type", "model");
    pairs_.add("general.name", name);
    size("context_length", row_.window_pattern > 0 ? c_.max_position_embeddings : exact_length(log));
    sizes();
    windows();
    rope();
    scales();
    if (row_.experts) experts();
    return std::move(pairs_);
  }

 private:
  void size(const char* key, int64_t value) { pairs_.add(prefix_ + key, static_cast<uint32_t>(value)); }
  void number(const char* key, double value) { pairs_.add(prefix_ + key, static_cast<float>(value)); }

  // The length up to which llama.cpp computes the same: the size of a window, if it has no windows for the
  // family.
  int64_t exact_length(base::LogSink* log) const {
    if (!slides(c_) || c_.sliding_window >= c_.max_position_embeddings) return c_.max_position_embeddings;
    if (log != nullptr)
      log->warning("model",
                   "sliding_window is {} of {} positions, and llama.cpp has no windows for {}: "
                   "context_length is {}, up to which both compute the same",
                   c_.sliding_window, c_.max_position_embeddings, c_.model_type, c_.sliding_window);
    return c_.sliding_window;
  }

  void sizes() {
    size("vocab_size", c_.vocab_size);
    size("block_count", c_.num_hidden_layers);
    size("embedding_length", c_.hidden_size);
    size("feed_forward_length", c_.intermediate_size);
    size("attention.head_count", c_.num_attention_heads);
    size("attention.head_count_kv", c_.num_key_value_heads);
    size("attention.key_length", c_.head_dim);
    size("attention.value_length", c_.head_dim);
    const bool centred = c_.family->norm == kernels::NormKind::layer;
    number(centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", c_.norm_eps);
    if (c_.family->parallel.key != nullptr) pairs_.add(prefix_ + "use_parallel_residual", c_.parallel);
  }

  void windows() {
    if (row_.window_pattern == 0) return;
    const int64_t none = row_.window > 0 ? c_.max_position_embeddings : 0;
    const int64_t window = slides(c_) ? c_.sliding_window : none;
    if (window == 0) return;
    size("attention.sliding_window", window);
    pairs_.add(prefix_ + "attention.sliding_window_pattern", c_.sliding_layers);
  }

  void rope() {
    if (c_.rope.type == "none") return;
    const auto turned = static_cast<int64_t>(static_cast<double>(c_.head_dim) * c_.rope.partial);
    size("rope.dimension_count", turned);
    number("rope.freq_base", c_.rope.theta);
    if (slides(c_) && c_.sliding_rope) number("rope.freq_base_swa", c_.sliding_rope->theta);
    const std::string& type = c_.rope.type;
    if (type != "linear" && type != "yarn" && type != "longrope") return;
    pairs_.add(prefix_ + "rope.scaling.type", type);
    if (type != "longrope") number("rope.scaling.factor", c_.rope.factor);
    if (type == "linear") return;
    size("rope.scaling.original_context_length", c_.rope.original_max_position_embeddings);
    const double multiplier = gguf_rope_multiplier(c_.rope);
    if (type == "longrope" || multiplier != 1) number("rope.scaling.attn_factor", multiplier);
  }

  void scales() {
    if (c_.attention_softcap > 0) number("attn_logit_softcapping", c_.attention_softcap);
    if (c_.logits_softcap > 0) number("final_logit_softcapping", c_.logits_softcap);
    if (!row_.multipliers) return;
    number("embedding_scale", c_.embedding_multiplier);
    number("residual_scale", c_.residual_scale);
    number("attention.scale", c_.attention_scale);
    number("logit_scale", 1 / c_.logits_scale);
  }

  void experts() {
    size("expert_count", c_.experts.count);
    size("expert_used_count", c_.experts.chosen);
    size("expert_feed_forward_length", c_.experts.width);
    if (c_.experts.shared_width > 0) size("expert_shared_feed_forward_length", c_.experts.shared_width);
  }

  const ModelConfig& c_;
  const GgufFamily& row_;
  const std::string prefix_;
  io::GgufPairs pairs_;
};

std::vector<float> llama3_divisors(const ModelConfig& c) {
  std::vector<float> divisors;
  const auto original = static_cast<double>(c.rope.original_max_position_embeddings);
  for (const float frequency : inverse_frequencies({.theta = c.rope.theta}, c.head_dim)) {
    const double turns = original * static_cast<double>(frequency) / (2 * std::numbers::pi);
    const double share = std::clamp(
        (turns - c.rope.low_freq_factor) / (c.rope.high_freq_factor - c.rope.low_freq_factor), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - share) / c.rope.factor + share)));
  }
  return divisors;
}

}  // namespace

io::GgufPairs gguf_metadata(const ModelConfig& c, const std::string& name, base::LogSink* log) {
  const GgufFamily* row = find_gguf_family(c.model_type);
  if (row == nullptr) {
    fail(Status::unsupported, "models of the family {} are not written to GGUF files; these are: {}",
         c.model_type, gguf_families());
  }
  check_gguf(c, *row);
  return Writer(c, *row).made(name, log);
}

std::vector<std::pair<std::string, std::vector<float>>> rope_tensors(const ModelConfig& c) {
  const auto floats = [](const std::vector<double>& values) {
    return std::vector<float>(values.begin(), values.end());
  };
  if (c.rope.type == "llama3") return {{"rope_freqs.weight", llama3_divisors(c)}};
  if (c.rope.type != "longrope") return {};
  return {{"rope_factors_long.weight", floats(c.rope.long_factor)},
          {"rope_factors_short.weight", floats(c.rope.short_factor)}};
}

}  // namespace trl::model
