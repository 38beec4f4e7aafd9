#include "train/sharing.h"

#include "base/error.h"

namespace trl::train {

namespace {

using config::SharePrefix;

bool drops(const config::TrainingArguments& arguments, model::Model& model) {
  if (arguments.disable_dropout) return false;
  const model::DropoutRates& rates = model.config().dropout;
  const model::Adapter* const adapter = model.adapters().trained();
  return rates.embedding > 0 || rates.attention > 0 || rates.attention_out > 0 || rates.mlp_out > 0 ||
         (adapter != nullptr && adapter->config().lora_dropout > 0);
}

bool has_router_loss(const config::TrainingArguments& arguments, const model::Model& model) {
  const model::ExpertsConfig& experts = model.config().experts;
  return experts.count > 0 && arguments.router_aux_loss_coef.value_or(experts.balance) != 0;
}

// Returns why tokens with the same beginning differ between rows, or are not computed as segments; empty:
// they can be shared.
std::string why_apart(const config::TrainingArguments& arguments, model::Model& model,
                      const kernels::AttentionPluginPtr& attention) {
  if (arguments.method->rows == config::RowForm::unpaired && has_router_loss(arguments, model))
    return "the routers' loss of KTO counts only some of the rows of a batch";
  if (drops(arguments, model)) return "dropout is active, which each row draws for itself";
  if (arguments.neftune_noise_alpha > 0)
    return "neftune_noise_alpha adds noise, which each row draws for itself";
  if (attention != nullptr) return "the plug-in of attn_implementation takes rows by themselves";
  if (!arguments.cache_frozen_layers.empty()) return "cache_frozen_layers keeps rows by themselves";
  return {};
}

std::vector<int32_t> gathered(const int32_t* values, const std::vector<int32_t>& places) {
  std::vector<int32_t> out;
  out.reserve(places.size());
  for (const int32_t place : places) out.push_back(values[place]);
  return out;
}

}  // namespace

std::optional<data::TreeLimits> sharing_of(const config::TrainingArguments& arguments, model::Model& model,
                                           const kernels::AttentionPluginPtr& attention, base::LogSink* log) {
  const SharePrefix asked = arguments.share_prefix;
  if (asked == SharePrefix::never) return std::nullopt;
  const std::string why = why_apart(arguments, model, attention);
  if (!why.empty() && asked == SharePrefix::always) {
    fail_key("share_prefix",
             "share_prefix: true is refused, because {}: give share_prefix: auto, which shares nothing then",
             why);
  }
  if (!why.empty()) {
    if (log == nullptr) return std::nullopt;
    if (arguments.prefix_window) {
      log->warning(
          "train",
          "share_prefix_window changes the order of the rows and saves nothing: those that begin alike "
          "share nothing, because {}",
          why);
    } else {
      log->info("train", "share_prefix: rows that begin alike share nothing, because {}", why);
    }
    return std::nullopt;
  }
  data::TreeLimits limits;
  if (asked == SharePrefix::automatic) limits = data::kWorthwhile;
  limits.most = arguments.max_tokens_per_pass.value_or(INT64_MAX);
  return limits;
}

void SharedTokens::add(const MicroBatch& batch) {
  shared_ += batch.shared_tokens;
  all_ += batch.input_ids.numel() + batch.shared_tokens;
}

void SharedTokens::add(const SharedTokens& others) {
  shared_ += others.shared_;
  all_ += others.all_;
}

void SharedTokens::say(base::LogSink& log) const {
  if (shared_ == 0) return;
  log.info(
      "train",
      "share_prefix: {} of {} tokens ({:.1f} %) were computed together with those of a row that begins alike",
      shared_, all_, 100.0 * static_cast<double>(shared_) / static_cast<double>(all_));
}

SharedBatch::SharedBatch(const engine::Batch& batch, const data::TreeLimits& limits) : batch_(batch) {
  if (batch.parents != nullptr) return;
  const auto documents = static_cast<size_t>(batch.documents);
  tree_ = data::prefix_tree(
      {batch.input_ids, batch.labels, batch.position_ids, {batch.cu_seqlens, documents + 1}}, limits);
  saved_ = batch.tokens - std::ssize(tree_.tokens);
  if (saved_ == 0) return;
  input_ids_ = gathered(batch.input_ids, tree_.tokens);
  labels_ = gathered(batch.labels, tree_.tokens);
  position_ids_ = gathered(batch.position_ids, tree_.tokens);
  sequences_ = tree_.ends;
  if (!batch.sequences.empty())
    sequences_ = gathered(tree_.ends.data(), {batch.sequences.begin(), batch.sequences.end()});
  batch_.input_ids = input_ids_.data();
  batch_.labels = labels_.data();
  batch_.position_ids = position_ids_.data();
  batch_.cu_seqlens = tree_.cu_seqlens.data();
  batch_.parents = tree_.parents.data();
  batch_.sequences = sequences_;
  batch_.tokens = std::ssize(tree_.tokens);
  batch_.documents = std::ssize(tree_.parents);
}

}  // namespace trl::train
