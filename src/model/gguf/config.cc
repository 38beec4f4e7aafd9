#include "model/gguf/metadata.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "model/config/families.h"
#include "model/config/rope.h"
#include "model/gguf/architectures.h"
#include "model/gguf/names.h"

namespace trl::model {

namespace {

using base::Json;

class Config {
 public:
  explicit Config(const io::Gguf& file) : file_(file), architecture_(file.text("general.architecture")) {
    const bool experts = has("expert_count") && integer("expert_count") > 0;
    row_ = find_gguf_architecture(architecture_, experts);
    if (row_ == nullptr) {
      fail(Status::unsupported, "{}: general.architecture \"{}\"{} is not a known family; these are: {}",
           Place::in(file.path()), architecture_, experts ? " with experts" : "", gguf_architectures());
    }
    family_ = find_family(row_->model_type);
  }

  Json made() {
    config_["architectures"] = {std::string(family_->architecture)};
    config_["model_type"] = std::string(family_->model_type);
    sizes();
    config_[family_->activation_key] = std::string(family_->activation);
    config_["initializer_range"] = 0.02;
    config_["use_cache"] = true;
    config_["tie_word_embeddings"] = row_->head == GgufHead::tied || !has_tensor("output.weight");
    const Dropouts& dropouts = family_->dropouts;
    for (const NumberKey& rate :
         {dropouts.embedding, dropouts.attention, dropouts.attention_out, dropouts.mlp_out})
      if (rate.key != nullptr) config_[rate.key] = 0.0;
    biases();
    if (family_->rope.used) rope();
    windows();
    scales();
    if (row_->experts) experts();
    return std::move(config_);
  }

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }
  int64_t integer(std::string_view name) const { return file_.integer(key(name)); }
  int64_t integer_or(std::string_view name, int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
  }
  double number(std::string_view name) const { return file_.number(key(name)); }
  double number_or(std::string_view name, double otherwise) const {
    return has(name) ? number(name) : otherwise;
  }
  bool has_tensor(std::string_view name) const { return file_.tensors().find(name) != file_.tensors().end(); }

  void sizes() {
    const auto embedding = file_.tensors().find("token_embd.weight");
    if (embedding == file_.tensors().end())
      fail(Status::format, "{}: tensor token_embd.weight is missing", Place::in(file_.path()));
    const Sizes& keys = family_->sizes;
    hidden_ = integer("embedding_length");
    heads_ = integer("attention.head_count");
    layers_ = integer("block_count");
    width_ = head_width();
    config_[keys.vocab.key] = embedding->second.shape.front();
    config_[keys.hidden.key] = hidden_;
    config_[keys.intermediate.key] = integer("feed_forward_length");
    config_[keys.layers.key] = layers_;
    config_[keys.heads.key] = heads_;
    config_[keys.kv_heads.key] = integer_or("attention.head_count_kv", heads_);
    config_["head_dim"] = width_;
    config_[keys.positions.key] = integer("context_length");
    const bool centred = family_->norm == kernels::NormKind::layer;
    config_[family_->eps.key] =
        number(centred ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon");
  }

  int64_t head_width() const {
    if (heads_ < 1)
      fail(Status::format, "{}: {} is {}; expected at least 1", Place::in(file_.path()),
           key("attention.head_count"), heads_);
    const bool given = has("attention.key_length");
    const int64_t width = given ? integer("attention.key_length") : hidden_ / heads_;
    if (width < 2 || width % 2 != 0) {
      fail(Status::format, "{}: {} makes heads of {}; expected an even number", Place::in(file_.path()),
           key(given ? "attention.key_length" : "attention.head_count"), width);
    }
    need_equal("attention.value_length", width);
    if (family_->rope.partial.key == nullptr) need_equal("rope.dimension_count", width);
    return width;
  }

  void need_equal(std::string_view name, int64_t width) const {
    if (integer_or(name, width) == width) return;
    fail(Status::unsupported, "{}: {} is {}, heads have {}; they must be equal", Place::in(file_.path()),
         key(name), integer(name), width);
  }

  void biases() {
    const bool qkv = has_tensor("blk.0.attn_q.bias") || has_tensor("blk.0.attn_qkv.bias");
    if (family_->qkv_bias.key != nullptr) config_[family_->qkv_bias.key] = qkv;
    if (family_->mlp_bias.key != nullptr) config_[family_->mlp_bias.key] = has_tensor("blk.0.ffn_up.bias");
    if (family_->qk_norm.key != nullptr && has_tensor("blk.0.attn_q_norm.weight"))
      fail(Status::unsupported, "{}: tensor blk.0.attn_q_norm.weight: norms of single heads are not read",
           Place::in(file_.path()));
    if (family_->parallel.key == nullptr) return;
    // llama.cpp does not read the key for a family that drops a norm in this case.
    config_[family_->parallel.key] = family_->one_norm_if_parallel
                                         ? !has_tensor("blk.0.ffn_norm.weight")
                                         : std::get<bool>(flag("use_parallel_residual"));
  }

  const io::GgufValue& flag(std::string_view name) const {
    const io::GgufValue* value = file_.find(key(name));
    if (value == nullptr)
      fail(Status::format, "{}: metadata key {} is missing", Place::in(file_.path()), key(name));
    if (!std::holds_alternative<bool>(*value))
      fail(Status::format, "{}: {} is not a boolean", Place::in(file_.path()), key(name));
    return *value;
  }

  void rope() {
    Json rope = gguf_rope(file_, architecture_, width_);
    const int64_t turned = integer_or("rope.dimension_count", width_);
    if (turned != width_)
      rope["partial_rotary_factor"] = static_cast<double>(turned) / static_cast<double>(width_);
    const int64_t original = integer_or("rope.scaling.original_context_length", 0);
    if (original > 0 && row_->longrope) config_["original_max_position_embeddings"] = original;
    if (family_->rope.sliding_theta.key == nullptr) {
      config_["rope_parameters"] = rope;
      return;
    }
    const double local = number_or("rope.freq_base_swa", 10000.0);
    config_["rope_parameters"] = {{"full_attention", rope},
                                  {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", local}}}};
  }

  void windows() {
    if (family_->window.rule == WindowRule::none || family_->window.on.key != nullptr) return;
    const int64_t size = integer_or("attention.sliding_window", row_->window);
    config_["sliding_window"] = size > 0 ? Json(size) : Json();
    if (row_->window_pattern == 0) return;
    const std::vector<bool> slides = sliding_layers(size);
    Json types = Json::array();
    for (const bool one : slides) types.push_back(one ? "sliding_attention" : "full_attention");
    config_["layer_types"] = types;
  }

  // The pattern is a flag for each layer, or a number n: all but every n-th layer have a window.
  std::vector<bool> sliding_layers(int64_t window) const {
    constexpr std::string_view kPattern = "attention.sliding_window_pattern";
    if (layers_ < 0 || layers_ > std::ssize(file_.tensors()))
      fail(Status::format, "{}: {} is {}, and there are {} tensors", Place::in(file_.path()),
           key("block_count"), layers_, file_.tensors().size());
    std::vector<bool> slides(static_cast<size_t>(layers_), false);
    if (window == 0) return slides;
    const io::GgufValue* given = file_.find(key(kPattern));
    const auto* flags = given != nullptr ? std::get_if<std::vector<int64_t>>(given) : nullptr;
    if (flags != nullptr && std::ssize(*flags) != layers_)
      fail(Status::format, "{}: {} has {} entries for {} layers", Place::in(file_.path()), key(kPattern),
           flags->size(), layers_);
    const int64_t n = flags != nullptr ? 0 : integer_or(kPattern, row_->window_pattern);
    for (size_t i = 0; i < slides.size(); ++i)
      slides[i] = flags != nullptr ? (*flags)[i] != 0 : n < 1 || (static_cast<int64_t>(i) + 1) % n != 0;
    return slides;
  }

  void scales() {
    const Scales& scales = family_->scales;
    if (scales.attention_root.key != nullptr) {
      const double scale = gguf_attention_scale(*row_, layers_, hidden_, heads_, width_);
      config_[scales.attention_root.key] = std::round(1 / (scale * scale));
    }
    const auto cap = [&](const NumberKey& known, const char* name) {
      if (known.key == nullptr) return;
      const double value = number_or(name, known.otherwise);
      config_[known.key] = value > 0 ? Json(value) : Json();
    };
    cap(scales.attention_softcap, "attn_logit_softcapping");
    cap(scales.logits_softcap, "final_logit_softcapping");
    if (!row_->multipliers) return;
    config_[scales.embedding.key] = number_or("embedding_scale", 1);
    config_[scales.residual.key] = number_or("residual_scale", 1);
    config_[scales.attention.key] = number_or("attention.scale", 1 / std::sqrt(static_cast<double>(width_)));
    config_[scales.logits_divisor.key] = number("logit_scale");
  }

  void experts() {
    const Experts& keys = family_->experts;
    const int64_t count = integer("expert_count");
    if (count > kMostExperts)
      fail(Status::format, "{}: {} is {}; at most {} are read", Place::in(file_.path()), key("expert_count"),
           count, kMostExperts);
    const int64_t width = expert_width(count);
    config_[family_->model_type == "mixtral" ? "num_local_experts" : keys.count.key] = count;
    config_[keys.chosen.key] = integer("expert_used_count");
    config_[keys.width.key] = width;
    if (keys.normalised.key != nullptr) config_[keys.normalised.key] = row_->normalised;
    if (family_->names.shared_router.empty()) return;
    const auto shared = file_.tensors().find("blk.0.ffn_up_shexp.weight");
    if (shared == file_.tensors().end() || shared->second.shape.size() != 2)
      fail(Status::format, "{}: tensor blk.0.ffn_up_shexp.weight is missing, or not a matrix",
           Place::in(file_.path()));
    config_[keys.shared_width.key] = shared->second.shape.front();
  }

  int64_t expert_width(int64_t count) const {
    const GgufPlace place{"blk.0.ffn_up_exps.weight", 0};
    const auto all = file_.tensors().find(place.name), end = file_.tensors().end();
    const auto single = all == end ? file_.tensors().find(single_expert_name(place)) : end;
    if (all == end && single == end)
      fail(Status::format, "{}: tensor {} is missing", Place::in(file_.path()), place.name);
    const auto& [name, tensor] = all != end ? *all : *single;
    const std::vector<int64_t>& shape = tensor.shape;
    if (all != end ? shape.size() == 3 && shape[0] == count : shape.size() == 2)
      return shape[shape.size() - 2];
    fail(Status::format, "{}: tensor {} has shape [{}], {} is {}", Place::in(file_.path()), name,
         fmt::join(shape, ", "), key("expert_count"), count);
  }

  static constexpr int64_t kMostExperts = 1024;  // the limit of llama.cpp

  const io::Gguf& file_;
  const std::string architecture_;
  const GgufFamily* row_;
  const Family* family_;
  Json config_;
  int64_t hidden_ = 0, heads_ = 0, layers_ = 0, width_ = 0;
};

void add_token_ids(const io::Gguf& file, Json& config) {
  constexpr std::pair<const char*, const char*> kIds[] = {
      {"bos_token_id", "tokenizer.ggml.bos_token_id"},
      {"eos_token_id", "tokenizer.ggml.eos_token_id"},
      {"pad_token_id", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [ours, theirs] : kIds)
    if (file.find(theirs) != nullptr) config[ours] = file.integer(theirs);
}

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

// The factor of cosines and sines: llama.cpp's own factor multiplies yarn's default one; the converter's copy
// of attention_factor, which llama.cpp does not read for these families, replaces both.
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

Json gguf_config_json(const io::Gguf& file) {
  Json config = Config(file).made();
  add_token_ids(file, config);
  return config;
}

Json gguf_generation_config_json(const io::Gguf& file) {
  Json config = {{"_from_model_config", true}};
  add_token_ids(file, config);
  // The ends of a turn and of a message, if they differ from the end of the text (Llama 3): generation stops
  // at each.
  std::vector<int64_t> ends;
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    if (file.find(key) == nullptr) continue;
    const int64_t id = file.integer(key);
    if (std::ranges::find(ends, id) == ends.end()) ends.push_back(id);
  }
  if (ends.size() > 1 && config.contains("eos_token_id")) config["eos_token_id"] = ends;
  return config;
}

Json gguf_rope(const io::Gguf& file, const std::string& architecture, int64_t head_dim) {
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
