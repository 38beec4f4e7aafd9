// Converts the rotary embedding of a GGUF file to the form of config.json.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/config/rope.h"
#include "model/gguf/metadata.h"

namespace trl::model {

namespace {

using base::Json;

constexpr std::string_view kRopeFactors = "rope_freqs.weight";

// Original context lengths to try, Llama's own first.
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

// Llama 3.1's scaling is stored as one divisor per frequency; config.json needs the rule behind them. Llama's
// models share all but the factor and the original length, so the rule is rebuilt from the largest divisor
// and the power of two that reproduces all others.
Json llama3_rope(const io::Gguf& file, const io::GgufTensor& divisors, double theta, int64_t head_dim) {
  RopeConfig rope{.type = "llama3", .theta = theta};
  bool same = false;
  if (divisors.type_name == "F32" && divisors.shape == std::vector<int64_t>{head_dim / 2}) {
    std::vector<float> stored(static_cast<size_t>(head_dim / 2));
    base::MappedFile::need(divisors.stored());
    io::dequantize(divisors, 0, head_dim / 2, stored.data());
    rope.factor = *std::ranges::max_element(stored);
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
        Place::in(file.path()), kRopeFactors);
  }
  return {
      {"rope_type", "llama3"},   {"rope_theta", theta},
      {"factor", rope.factor},   {"low_freq_factor", 1.0},
      {"high_freq_factor", 4.0}, {"original_max_position_embeddings", rope.original_max_position_embeddings}};
}

// One number for each frequency.
Json factors(const io::Gguf& file, std::string_view name) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end())
    fail(Status::format, "{}: tensor {} is missing", Place::in(file.path()), name);
  const io::GgufTensor& tensor = found->second;
  if (tensor.type_name != "F32" || tensor.shape.size() != 1) {
    fail(Status::format, "{}: tensor {} is a {} of {} dimensions; expected F32 and 1", Place::in(file.path()),
         name, tensor.type_name, tensor.shape.size());
  }
  std::vector<float> values(static_cast<size_t>(tensor.shape.front()));
  base::MappedFile::need(tensor.stored());
  io::dequantize(tensor, 0, std::ssize(values), values.data());
  return values;
}

Json longrope(const io::Gguf& file, const std::string& prefix, double theta) {
  const std::string factor = prefix + "rope.scaling.attn_factor";
  return {{"rope_type", "longrope"},
          {"rope_theta", theta},
          {"attention_factor", file.find(factor) != nullptr ? file.number(factor) : 1.0},
          {"long_factor", factors(file, "rope_factors_long.weight")},
          {"short_factor", factors(file, "rope_factors_short.weight")}};
}

// The factor of cosines and sines. attn_factor multiplies YaRN's default; yarn_attn_factor, the converter's
// copy of attention_factor, replaces the product, although llama.cpp does not read it for these families.
double yarn_attention(const io::Gguf& file, const std::string& scaling, double factor) {
  const std::string multiplier = scaling + "attn_factor", whole = scaling + "yarn_attn_factor";
  const double attention =
      file.find(multiplier) != nullptr
          ? file.number(multiplier) * rope_attention_factor({.type = "yarn", .factor = factor})
          : file.number(whole);
  return std::round(attention * 1e6) / 1e6;  // the file has float32
}

Json yarn(const io::Gguf& file, const std::string& prefix, double theta) {
  const std::string scaling = prefix + "rope.scaling.";
  const auto has = [&](const char* name) { return file.find(scaling + name) != nullptr; };
  const auto only = [&](const char* name, double value) {
    if (!has(name) || file.number(scaling + name) == value) return;
    fail(Status::unsupported, "{}: {}{} is {}; only {} is supported", Place::in(file.path()), scaling, name,
         file.number(scaling + name), value);
  };
  const double factor = file.number(scaling + "factor");
  if (!(factor > 0))
    fail(Status::format, "{}: {}factor is {}; expected more than 0", Place::in(file.path()), scaling, factor);
  only("yarn_ext_factor", 1);
  only("yarn_log_multiplier", 0);
  const bool counted = has("original_context_length");
  Json rope = {{"rope_type", "yarn"},
               {"rope_theta", theta},
               {"factor", factor},
               {"original_max_position_embeddings",
                file.integer(counted ? scaling + "original_context_length" : prefix + "context_length")}};
  if (has("yarn_beta_fast")) rope["beta_fast"] = file.number(scaling + "yarn_beta_fast");
  if (has("yarn_beta_slow")) rope["beta_slow"] = file.number(scaling + "yarn_beta_slow");
  if (has("attn_factor") || has("yarn_attn_factor"))
    rope["attention_factor"] = yarn_attention(file, scaling, factor);
  return rope;
}

}  // namespace

base::Json gguf_rope(const io::Gguf& file, const std::string& architecture, int64_t head_dim) {
  const std::string prefix = architecture + ".";
  const auto has = [&](const char* name) { return file.find(prefix + name) != nullptr; };
  const double theta = has("rope.freq_base") ? file.number(prefix + "rope.freq_base") : 10000.0;
  const auto divisors = file.tensors().find(kRopeFactors);
  if (divisors != file.tensors().end()) return llama3_rope(file, divisors->second, theta, head_dim);
  if (file.tensors().find("rope_factors_long.weight") != file.tensors().end())
    return longrope(file, prefix, theta);
  // A factor without a type is linear, as in llama.cpp; the other key is that of its first files.
  const char* factor = has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  const std::string type = has("rope.scaling.type") ? file.text(prefix + "rope.scaling.type")
                           : has(factor)            ? "linear"
                                                    : "none";
  if (type == "none") return {{"rope_type", "default"}, {"rope_theta", theta}};
  if (type == "yarn") return yarn(file, prefix, theta);
  if (type != "linear") {
    fail(Status::unsupported, "{}: {}rope.scaling.type is \"{}\"; none, linear and yarn are supported",
         Place::in(file.path()), prefix, type);
  }
  return {{"rope_type", "linear"}, {"rope_theta", theta}, {"factor", file.number(prefix + factor)}};
}

double gguf_rope_multiplier(const RopeConfig& rope) {
  const double own =
      rope.type == "yarn" ? rope_attention_factor({.type = "yarn", .factor = rope.factor}) : 1.0;
  const double ratio = rope_attention_factor(rope) / own;
  return std::abs(ratio - 1) < 1e-6 ? 1 : ratio;
}

}  // namespace trl::model
