#include "model/gguf_metadata.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "model/gguf_names.h"
#include "model/rope.h"

namespace trl::model {

namespace {

// llama.cpp knows no windows in these architectures, so it is right as far as one reaches.
int64_t exact_length(const ModelConfig& c, base::LogSink* log) {
  const bool slides =
      std::find(c.sliding_layers.begin(), c.sliding_layers.end(), true) != c.sliding_layers.end();
  if (!slides || c.sliding_window >= c.max_position_embeddings) return c.max_position_embeddings;
  if (log != nullptr)
    log->warning("model",
                 "sliding_window is {} of {} positions, and llama.cpp has no windows for {}: context_length "
                 "is {}, up to which both compute the same",
                 c.sliding_window, c.max_position_embeddings, c.model_type, c.sliding_window);
  return c.sliding_window;
}

void add_rope(io::GgufPairs& pairs, const std::string& prefix, const ModelConfig& c) {
  if (c.rope.partial != 1 || c.sliding_rope) {
    fail(Status::unsupported,
         "a rope of a part of each head, or another one for layers with a window, is not written to GGUF "
         "files");
  }
  pairs.add(prefix + "rope.dimension_count", static_cast<uint32_t>(c.head_dim));
  pairs.add(prefix + "rope.freq_base", static_cast<float>(c.rope.theta));
  if (c.rope.type == "default" || c.rope.type == "llama3") return;
  if (c.rope.type != "linear") {
    fail(Status::unsupported,
         "rope type \"{}\" is not written to GGUF files; these are: default, linear, llama3", c.rope.type);
  }
  pairs.add(prefix + "rope.scaling.type", "linear");
  pairs.add(prefix + "rope.scaling.factor", static_cast<float>(c.rope.factor));
}

}  // namespace

io::GgufPairs gguf_metadata(const ModelConfig& c, const std::string& name, base::LogSink* log) {
  if (!is_gguf_family(c.model_type)) {
    fail(Status::unsupported, "models of the family {} are not written to GGUF files; these are: {}",
         c.model_type, gguf_families());
  }
  const std::string architecture(gguf_architecture(c.model_type)), prefix = architecture + ".";
  io::GgufPairs pairs;
  pairs.add("general.architecture", architecture);
  pairs.add("general.type", "model");
  pairs.add("general.name", name);
  const auto add = [&](const char* key, int64_t value) {
    pairs.add(prefix + key, static_cast<uint32_t>(value));
  };
  add("vocab_size", c.vocab_size);
  add("block_count", c.num_hidden_layers);
  add("context_length", exact_length(c, log));
  add("embedding_length", c.hidden_size);
  add("feed_forward_length", c.intermediate_size);
  add("attention.head_count", c.num_attention_heads);
  add("attention.head_count_kv", c.num_key_value_heads);
  add("attention.key_length", c.head_dim);
  add("attention.value_length", c.head_dim);
  pairs.add(prefix + "attention.layer_norm_rms_epsilon", static_cast<float>(c.norm_eps));
  add_rope(pairs, prefix, c);
  return pairs;
}

std::vector<float> rope_divisors(const ModelConfig& c) {
  if (c.rope.type != "llama3") return {};
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

}  // namespace trl::model
