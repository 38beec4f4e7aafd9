#include "entry/trainer_object.h"

#include "base/error.h"
#include "config/run_options.h"
#include "entry/attention_object.h"
#include "entry/trained.h"
#include "model/gguf_metadata.h"

namespace trl::entry {

TrainerObject::TrainerObject(engine::Host& host, const engine::TrainerSpec& spec)
    : host_(host), log_(host), model_(*static_cast<ModelObject*>(spec.model)) {
  const config::Config& config = spec.options->config;
  for (const engine::NamedBytes& file : spec.files) files_.emplace_back(file.name, file.bytes);
  refuse_quantised(model_.get(), config);
  train::Setup setup;
  setup.arguments = spec.options->arguments;
  setup.arguments.levers = spec.levers;
  setup.model = &model_.get();
  setup.model_path = model_.path();
  if (spec.attention != nullptr)
    setup.attention = static_cast<const AttentionObject*>(spec.attention)->plugin();
  for (const std::string& change : model_.get().align_special_tokens(spec.tokens))
    log_.info("model", "changed to match the tokenizer: {}", change);
  add_adapter(model_.get(), model_.path(), config, spec.new_tokens, log_);
  say_kernels(spec, setup.arguments);
  setup.train = spec.train;
  setup.eval = spec.eval;
  setup.longest_row = config.get_optional_int("max_length").value_or(0);
  events_ = std::make_unique<RecordingEvents>(host, config, setup.arguments, spec);
  setup.events = events_.get();
  for (const auto& [name, bytes] : files_) setup.files.push_back({name, bytes});
  setup.log = &log_;
  if (setup.arguments.save_format == config::SaveFormat::gguf)  // refused before it trains, not at the end
    model::gguf_metadata(model_.get().config(), {}, nullptr);
  vocabulary_ = spec.vocabulary.bytes;
  setup.vocabulary = {spec.vocabulary.pairs, vocabulary_, spec.vocabulary.eos};
  // Records have only TRL's names, unless more was requested.
  if (config.get_text("memory_budget")) setup.predicted_peak = spec.prediction->peak;
  setup.options = config::result_options(config, setup.arguments);
  trainer_ = std::make_unique<train::Trainer>(std::move(setup));
  events_->watch(trainer_->state());
  trainer_->resume_as_configured();
  trainer_->need_disks();
}

void TrainerObject::say_kernels(const engine::TrainerSpec& spec, const config::TrainingArguments& arguments) {
  const bool fused = arguments.fused_kernels != config::FusedKernels::off;
  if (const std::string why = why_plain(fused, model_.get().device()); !why.empty())
    log_.info("kernels", "libtorch's own operators compute this run, because {}", why);
  const std::string& asked = arguments.attention.name;
  const std::string used = spec.attention != nullptr
                               ? static_cast<const AttentionObject*>(spec.attention)->description()
                               : built_in_attention(fused);
  log_.info("attention", "attention: {}{}{}", asked, asked.empty() ? "" : " -> ", used);
}

std::span<const engine::Metric> TrainerObject::view(const telemetry::Record& record) {
  record_ = record;
  metrics_.clear();
  for (const telemetry::Entry& entry : record_.entries()) metrics_.push_back({entry.name, entry.value});
  return metrics_;
}

int32_t TrainerObject::step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept {
  *metrics = {};
  return compute(host_, error, [&] {
    try {
      if (!trainer_->step()) return Status::end;
    } catch (const Error& why) {
      events_->interrupted(why.message());
      throw;
    }
    *metrics = view(trainer_->metrics());
    return Status::ok;
  });
}

int32_t TrainerObject::evaluate(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept {
  *metrics = {};
  return compute(host_, error, [&] {
    *metrics = view(trainer_->evaluate());
    return Status::ok;
  });
}

int32_t TrainerObject::finish(engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    trainer_->finish();
    return Status::ok;
  });
}

int32_t TrainerObject::save(std::string_view directory, engine::SaveKind kind,
                            engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    const std::string target(directory);
    if (kind == engine::SaveKind::checkpoint) {
      trainer_->save_checkpoint(target);
    } else if (kind == engine::SaveKind::merged) {
      trainer_->save_merged(target);
    } else {
      if (kind == engine::SaveKind::adapter && model_.get().adapters().trained() == nullptr)
        fail_key("save.kind", "save.kind: adapter needs use_peft, and this run trains the model itself");
      trainer_->save_model(target);
    }
    return Status::ok;
  });
}

std::string_view TrainerObject::state_json() noexcept {
  try {
    state_json_ = telemetry::trainer_state_json(trainer_->state());
  } catch (const std::bad_alloc&) {
    state_json_.clear();
  }
  return state_json_;
}

}  // namespace trl::entry
