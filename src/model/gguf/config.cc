#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "model/gguf/config_reader.h"
#include "model/gguf/metadata.h"

namespace trl::model {

namespace {

using base::Json;

void add_token_ids(const io::Gguf& file, Json& config) {
  constexpr std::pair<const char*, const char*> kIds[] = {
      {"bos_token_id", "tokenizer.ggml.bos_token_id"},
      {"eos_token_id", "tokenizer.ggml.eos_token_id"},
      {"pad_token_id", "tokenizer.ggml.padding_token_id"}};
  for (const auto& [ours, theirs] : kIds)
    if (file.find(theirs) != nullptr) config[ours] = file.integer(theirs);
}

}  // namespace

GgufConfigReader::GgufConfigReader(const io::Gguf& file)
    : file_(file), architecture_(file.text("general.architecture")) {
  const bool experts = has("expert_count") && integer("expert_count") > 0;
  row_ = find_gguf_architecture(architecture_, experts);
  if (row_ == nullptr) {
    fail(Status::unsupported, "{}: general.architecture \"{}\"{} is not a known family; these are: {}",
         Place::in(file.path()), architecture_, experts ? " with experts" : "", gguf_architectures());
  }
  family_ = find_family(row_->model_type);
}

Json GgufConfigReader::made() {
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

void GgufConfigReader::sizes() {
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

int64_t GgufConfigReader::head_width() const {
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

void GgufConfigReader::need_equal(std::string_view name, int64_t width) const {
  if (integer_or(name, width) == width) return;
  fail(Status::unsupported, "{}: {} is {}, heads have {}; they must be equal", Place::in(file_.path()),
       key(name), integer(name), width);
}

void GgufConfigReader::biases() {
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

const io::GgufValue& GgufConfigReader::flag(std::string_view name) const {
  const io::GgufValue* value = file_.find(key(name));
  if (value == nullptr)
    fail(Status::format, "{}: metadata key {} is missing", Place::in(file_.path()), key(name));
  if (!std::holds_alternative<bool>(*value))
    fail(Status::format, "{}: {} is not a boolean", Place::in(file_.path()), key(name));
  return *value;
}

void GgufConfigReader::rope() {
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

void GgufConfigReader::scales() {
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

Json gguf_config_json(const io::Gguf& file) {
  Json config = GgufConfigReader(file).made();
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

}  // namespace trl::model
