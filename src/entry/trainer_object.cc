#include "entry/trainer_object.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "base/log.h"
#include "base/memory/system_memory.h"
#include "base/text/number.h"
#include "config/model_options.h"
#include "kernels/attention/attention_plugin.h"
#include "kernels/cpu/cpu_kernels.h"
#include "model/gguf_metadata.h"
#include "model/model.h"
#include "report/page.h"
#include "train/rollout/rollouts.h"

namespace trl::entry {

namespace {

kernels::AttentionNeeds needs_of(const model::Outline& outline, bool bf16) {
  const model::ModelConfig& c = outline.config;
  const bool slides = std::ranges::find(c.sliding_layers, true) != c.sliding_layers.end();
  return {model::Model::compute(outline.dtype, bf16 ? at::kBFloat16 : at::kFloat),
          c.num_attention_heads,
          c.num_key_value_heads,
          c.head_dim,
          slides ? c.sliding_window : 0,
          c.dropout.attention};
}

telemetry::Facts options_of(const config::Config& config) {
  telemetry::Facts options;
  for (const auto& [key, value] : config.values())
    if (const config::Option* option = config::find_option(key);
        value != config::default_of(*option, config.method().name))
      options.emplace_back(key, value);
  return options;
}

telemetry::Facts facts_of(const config::Config& config, const config::TrainingArguments& arguments,
                          const engine::TrainerSpec& spec) {
  telemetry::Facts facts = {
      {"model", config.get("model_name_or_path")},
      {"parameters", std::to_string(spec.model->parameter_count())},
      {"method", arguments.method->name},
      {"training rows",
       std::to_string(spec.rollouts != nullptr ? spec.rollouts->train->prompts() : spec.train->rows())}};
  if (config.is_set("dataset_name")) facts.emplace_back("dataset", config.get("dataset_name"));
  if (spec.eval != nullptr) facts.emplace_back("evaluation rows", std::to_string(spec.eval->rows()));
  if (spec.rollouts != nullptr && spec.rollouts->eval != nullptr)
    facts.emplace_back("evaluation rows", std::to_string(spec.rollouts->eval->prompts()));
  facts.emplace_back("rows a step", std::to_string(arguments.per_device_train_batch_size *
                                                   arguments.gradient_accumulation_steps));
  facts.emplace_back("output_dir", arguments.output_dir);
  facts.emplace_back("libtrl", TRL_VERSION_STRING);
  return facts;
}

// Returns the memory facts of the process: its measured values include the memory of others in it.
telemetry::Facts memory_facts(engine::Host& host, const engine::Prediction& predicted) {
  const auto both = [](int64_t of_plan, int64_t measured) {
    return fmt::format("{} predicted, {} measured", base::bytes_text(of_plan), base::bytes_text(measured));
  };
  telemetry::Facts facts = {{"resident, at most", both(predicted.peak, base::peak_resident_bytes())}};
  for (int32_t i = 0; i < base::kMemoryKinds; ++i) {
    facts.emplace_back(base::measured_kind_name(static_cast<base::MemoryKind>(i)),
                       both(predicted.kinds[static_cast<size_t>(i)], host.memory_peak(i)));
  }
  return facts;
}

telemetry::RecordTo record_to(engine::Host& host, const config::Config& config,
                              const config::TrainingArguments& arguments, const engine::TrainerSpec& spec) {
  std::string model = config.get("model_name_or_path");
  while (model.size() > 1 && model.ends_with('/')) model.pop_back();
  telemetry::RecordTo to = {arguments.report_to,
                            arguments.output_dir,
                            arguments.logging_dir,
                            fmt::format("{} of {}", arguments.method->name, base::file_name(model)),
                            facts_of(config, arguments, spec),
                            options_of(config)};
  if (config.get_text("sample_prompts")) to.samples = telemetry::samples_path(arguments.output_dir);
  if (spec.rollouts != nullptr) to.scored = telemetry::scored_path(arguments.output_dir);
  if (spec.prediction != nullptr && spec.prediction->peak > 0)
    to.memory = [&host, predicted = spec.prediction] { return memory_facts(host, *predicted); };
  return to;
}

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

// Publishes the state at the end of a call, however that ends.
struct PublishesAtEnd {
  ~PublishesAtEnd() { events.publish(); }
  RecordingEvents& events;
};

}  // namespace

AttentionObject::AttentionObject(const engine::AttentionSpec& spec) {
  const auto& [config, arguments] = *spec.options;
  const model::Outline outline =
      model::Model::outline(spec.model, config::model_dtype(config), head_of(config));
  double agreement = 0;
  plugin_ = kernels::open_attention_plugin(arguments.attention.plugin, needs_of(outline, arguments.bf16),
                                           &agreement);
  description_ = fmt::format("{}, which agrees with the built-in attention to {:.1e} of the largest value",
                             plugin_->name(), agreement);
}

std::string built_in_attention(bool fused) {
  return fused ? fmt::format("built-in flash attention ({})", kernels::cpu().name)
               : std::string("plain attention (fused_kernels: off)");
}

std::string why_plain(bool fused, at::Device device) {
  if (!fused) return "fused_kernels is off";
  return device.is_cpu()
             ? ""
             : fmt::format("the model is on {}, and the fused kernels are the CPU's", device.str());
}

RecordingEvents::RecordingEvents(engine::Host& host, const config::Config& config,
                                 const config::TrainingArguments& arguments, const engine::TrainerSpec& spec)
    : host_(host),
      recorders_(record_to(host, config, arguments, spec), report::make_html,
                 [&host](const std::string& line) {
                   host.log(static_cast<int32_t>(base::LogLevel::warning), "records", line);
                 }),
      next_(spec.events) {}

void RecordingEvents::publish_adapter(int64_t step) noexcept {
  if (beside_ == nullptr) return;
  try {
    beside_->publish(step);
  } catch (const std::exception& error) {
    host_.log(static_cast<int32_t>(base::LogLevel::warning), "serve", error.what());
  }
}

int32_t RecordingEvents::on_event(const engine::Event& event) noexcept {
  publish();
  if (event.kind == engine::EventKind::step) publish_adapter(event.step);
  const auto host_answer = [&] { return next_ != nullptr ? next_->on_event(event) : 0; };
  const telemetry::TrainerState& state = trainer_->state();
  try {
    if (event.kind == engine::EventKind::train_begin)
      std::exchange(ended_, false) ? recorders_.begin_again(state) : recorders_.begin(state);
    if (event.kind == engine::EventKind::log) recorders_.add(state);
    if (event.kind == engine::EventKind::save) recorders_.saved(state);
    if (event.kind == engine::EventKind::train_end) {
      ended_ = true;
      recorders_.close(state, event.step >= event.max_steps
                                  ? std::string("finished")
                                  : fmt::format("stopped after step {} of {}", event.step, event.max_steps));
    }
  } catch (...) {  // no memory for a line: the host still gets the event
    return host_answer();
  }
  return host_answer();
}

void RecordingEvents::interrupted(std::string_view why) noexcept {
  try {
    recorders_.close(trainer_->state(), why);
  } catch (...) {
    return;  // no memory for the report: its error is on its way to the host
  }
}

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

std::span<const engine::Metric> HeldMetrics::hold(telemetry::Record record) {
  record_ = std::move(record);
  metrics_.clear();
  for (const telemetry::Entry& entry : record_.entries()) metrics_.push_back({entry.name, entry.value});
  return metrics_;
}

template <class Body>
int32_t TrainerObject::hold_step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error,
                                 void (train::Trainer::*check)() const, const Body& body) noexcept {
  *metrics = {};
  const PublishesAtEnd publishes{*events_};
  return compute(host_, error, [&] {
    (*trainer_.*check)();
    try {
      if (!body()) return Status::end;
    } catch (const Error& why) {
      if (!trainer_->begun()) events_->interrupted(why.message());
      throw;
    }
    *metrics = metrics_.hold(trainer_->begun() ? trainer_->begun_metrics() : trainer_->metrics());
    return Status::ok;
  });
}

int32_t TrainerObject::step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept {
  return hold_step(metrics, error, &train::Trainer::need_whole_step, [&] { return trainer_->step(); });
}

int32_t TrainerObject::backward(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept {
  return hold_step(metrics, error, &train::Trainer::need_halves, [&] { return trainer_->backward(); });
}

int32_t TrainerObject::update(bool apply, std::span<const engine::Metric>* metrics,
                              engine::ErrorSink& error) noexcept {
  return hold_step(metrics, error, &train::Trainer::need_begun, [&] {
    trainer_->update(apply);
    return true;
  });
}

int32_t TrainerObject::evaluate(engine::BatchSource* rows, std::span<const engine::Metric>* metrics,
                                engine::ErrorSink& error) noexcept {
  *metrics = {};
  const PublishesAtEnd publishes{*events_};
  return compute(host_, error, [&] {
    *metrics = metrics_.hold(rows != nullptr ? trainer_->evaluate(*rows) : trainer_->evaluate());
  });
}

int32_t TrainerObject::finish(engine::ErrorSink& error) noexcept {
  const PublishesAtEnd publishes{*events_};
  return compute(host_, path_, error, [&] {
    trainer_->finish();
    const telemetry::TrainerState& state = trainer_->state();
    events_->publish_adapter(loads_best_ ? state.best_global_step : state.global_step);
  });
}

int32_t TrainerObject::save(std::string_view directory, engine::SaveKind kind,
                            engine::ErrorSink& error) noexcept {
  const PublishesAtEnd publishes{*events_};
  return compute(host_, path_, error, [&] {
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
  });
}

int32_t TrainerObject::describe(engine::TextSink& state, engine::ErrorSink& error) noexcept {
  return guard(host_, error, [&] { state.set(events_->published().describe()); });
}

EvaluatorObject::EvaluatorObject(engine::Host& host, const engine::EvaluatorSpec& spec)
    : host_(host), log_(host) {
  ModelObject& object = *static_cast<ModelObject*>(spec.model);
  const config::Config& config = spec.options->config;
  object.get().align_special_tokens(spec.tokens);
  retype_adapter(object.get(), config);
  train::Evaluator::Setup setup{spec.options->arguments, &object.get(), object.source()};
  if (spec.attention != nullptr)
    setup.attention = static_cast<const AttentionObject*>(spec.attention)->plugin();
  setup.log = &log_;
  evaluator_ = std::make_unique<train::Evaluator>(std::move(setup));
}

int32_t EvaluatorObject::evaluate(engine::BatchSource& rows, std::span<const engine::Metric>* metrics,
                                  engine::ErrorSink& error) noexcept {
  *metrics = {};
  return compute(host_, error, [&] { *metrics = metrics_.hold(evaluator_->evaluate(rows)); });
}

}  // namespace trl::entry
