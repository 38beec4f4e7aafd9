// Makes the trainer of a run: its setup, what the log says of its kernels, and the numbers of its model.
#include "config/beside_arguments.h"
#include "entry/attention_object.h"
#include "entry/trained_parts.h"
#include "entry/trainer_object.h"
#include "model/gguf/metadata.h"
#include "model/model.h"
#include "train/rollout/rollouts.h"

namespace trl::entry {

namespace {

engine::TrainedModel in_numbers(model::Model& model) {
  engine::TrainedModel numbers;
  numbers.vocab_size = model.config().vocab_size;
  for (const tensor::Parameter* parameter : model.all_parameters()) {
    numbers.parameters += parameter->count();
    if (parameter->trainable) numbers.trained_parameters += parameter->count();
  }
  numbers.end_ids.assign(model.end_ids().begin(), model.end_ids().end());
  return numbers;
}

}  // namespace

TrainerObject::TrainerObject(engine::Host& host, const engine::TrainerSpec& spec)
    : host_(host),
      log_(host),
      path_(kernels::path_of(spec.options->arguments.plain())),
      model_(*static_cast<ModelObject*>(spec.model)) {
  const config::Config& config = spec.options->config;
  for (const engine::NamedBytes& file : spec.files) files_.emplace_back(file.name, file.bytes);
  refuse_quantised(model_.get(), config);
  train::Setup setup;
  setup.arguments = spec.options->arguments;
  setup.arguments.levers = spec.levers;
  setup.model = &model_.get();
  setup.source = model_.source();
  setup.tokens = spec.tokens;
  if (spec.attention != nullptr)
    setup.attention = static_cast<const AttentionObject*>(spec.attention)->plugin();
  for (const std::string& change : model_.get().align_special_tokens(spec.tokens))
    log_.info("model", "changed to match the tokenizer: {}", change);
  add_adapter(model_.get(), model_.source().name(), config, spec.new_tokens, log_);
  say_kernels(spec, setup.arguments);
  setup.train = spec.train;
  setup.eval = spec.eval;
  if (spec.rollouts != nullptr) {
    setup.rollouts = std::make_shared<train::Rollouts>(setup.arguments, *spec.rollouts,
                                                       model_.completion_writer(*spec.rollouts));
    setup.train = setup.rollouts->train();
    setup.eval = setup.rollouts->eval();
  }
  if (!setup.arguments.method->generates)
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
  events_->watch(*trainer_);
  trainer_->resume_as_configured();
  trainer_->need_disks();
  trained_model_ = in_numbers(model_.get());
  loads_best_ = spec.options->arguments.load_best_model_at_end;
  if (const auto arguments = config::beside_arguments(config)) {
    beside_ = std::make_unique<BesideObject>(host, model_, *arguments, trainer_->state().global_step);
    events_->serve(*beside_);
  }
  events_->publish();
}

void TrainerObject::say_kernels(const engine::TrainerSpec& spec, const config::TrainingArguments& arguments) {
  const bool fused = !arguments.plain();
  if (const std::string why = why_plain(fused, model_.get().device()); !why.empty())
    log_.info("kernels", "libtorch's own operators compute this run, because {}", why);
  const std::string& asked = arguments.attention.name;
  const std::string used = spec.attention != nullptr
                               ? static_cast<const AttentionObject*>(spec.attention)->description()
                               : built_in_attention(fused);
  log_.info("attention", "attention: {}{}{}", asked, asked.empty() ? "" : " -> ", used);
}

}  // namespace trl::entry
