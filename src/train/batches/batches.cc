#include "train/batches/batches.h"

#include <utility>

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
  if (arguments.generation_exact) return "generation_exact gives a row the sums of its own generation";
  if (!arguments.cache_frozen_layers.empty()) return "cache_frozen_layers keeps rows by themselves";
  return {};
}

}  // namespace

MicroBatch copied(const data::Batch& batch, int64_t vocab_size,
                  const std::optional<data::TreeLimits>& share) {
  const bool shares = share && batch.states.empty();  // the values of a state are of one row
  const std::optional<data::Batch> shared = shares ? data::shared_beginnings(batch, *share) : std::nullopt;
  MicroBatch own = copy_batch(shared ? *shared : batch, vocab_size);
  own.shared_tokens = batch.tokens() - own.input_ids.numel();
  return own;
}

bool draws_by_row(const config::TrainingArguments& arguments, model::Model& model) {
  return drops(arguments, model) || arguments.neftune_noise_alpha > 0;
}

bool takes_trees(const config::TrainingArguments& arguments, model::Model& model,
                 const kernels::AttentionPluginPtr& attention) {
  return why_apart(arguments, model, attention).empty();
}

// A source with a state goes back to the window's beginning, where its state was asked, or to its end.
void Batches::position() {
  engine::ErrorCapture error;
  source_state();
  between_epochs_ = false;
  const std::string& state = after_ ? *after_ : state_;
  if (!after_ && !state.empty()) window_.clear();
  evaluations_.before.resize(std::max(evaluations_.before.size(), static_cast<size_t>(epoch_) + 1),
                             evaluations_.done);
  const auto before = std::span(evaluations_.before).first(static_cast<size_t>(epoch_) + 1);
  error.check(source_.start_epoch(epoch_, done_ + static_cast<int64_t>(window_.size()), before, error));
  if (!state.empty()) error.check(source_.load_state(state, error));
  after_.reset();
  positioned_ = true;
  ended_ = false;
}

void Batches::settle() {
  if (!positioned_ && !between_epochs_) position();
}

const std::vector<MicroBatch>& Batches::fill_window(int64_t count) {
  if (!positioned_) position();
  source_state();
  engine::ErrorCapture error;
  while (!ended_ && static_cast<int64_t>(window_.size()) < count) {
    positioned_ = false;  // unless this batch arrives
    const data::Batch* batch = nullptr;
    if (error.check(source_.next(&batch, error))) {
      window_.push_back(own(*batch));
    } else {
      ended_ = true;
    }
    positioned_ = true;
  }
  return window_;
}

MicroBatch Batches::own(const data::Batch& batch) const {
  MicroBatch own = copied(batch, vocab_size_, share_);
  if (keeps_flat_) own.flat = std::make_shared<const data::Batch>(batch);
  return own;
}

const std::string& Batches::source_state() {
  if ((!positioned_ && !between_epochs_) || !window_.empty()) return state_;
  engine::ErrorCapture error;
  std::string_view bytes;
  error.check(source_.state(&bytes, error));
  return state_ = bytes;
}

std::string Batches::present_state() {
  if (after_) return *after_;
  if (window_.empty()) return source_state();
  engine::ErrorCapture error;
  std::string_view bytes;
  error.check(source_.state(&bytes, error));
  return std::string(bytes);
}

void Batches::return_to(std::string present) {
  if (window_.empty()) return go_to(epoch_, done_, std::move(present));
  after_ = std::move(present);
  positioned_ = false;
}

void Batches::window_done() {
  done_ += static_cast<int64_t>(window_.size());
  window_.clear();
  if (after_) state_ = *std::exchange(after_, std::nullopt);
}

void Batches::next_epoch() {
  const bool follows = positioned_;
  go_to(epoch_ + 1, 0, source_state());
  between_epochs_ = follows;
}

void Batches::go_to(int64_t epoch, int64_t done, std::string state) {
  state_ = std::move(state);
  epoch_ = epoch;
  done_ = done;
  positioned_ = between_epochs_ = false;
  after_.reset();
  window_.clear();
}

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
      log->warning("train",
                   "share_prefix_window changes the order of the rows and saves nothing: those that begin "
                   "alike share nothing, because {}",
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

void SharedTokens::add(int64_t shared, int64_t all) {
  shared_ += shared;
  all_ += all;
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

}  // namespace trl::train
