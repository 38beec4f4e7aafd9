// trl_trainer_*.
#include "capi/trainer_handle.h"

#include <vector>

#include "base/memory/resident.h"
#include "base/text/quantity.h"
#include "capi/callback.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "config/training_arguments.h"
#include "config/warnings.h"
#include "engine/error_capture.h"
#include "run/check.h"
#include "run/convert_model.h"
#include "run/open_model.h"
#include "run/plan/choose_way.h"
#include "run/plan/limit_check.h"
#include "run/plan/memory_budget.h"
#include "run/plan/plan.h"
#include "run/reference_check.h"
#include "run/rows/position_check.h"
#include "run/rows/prepare.h"
#include "run/training_run.h"

namespace trl::capi {
namespace {

// Names an event for the log.
std::string name_of(const engine::Event& event) {
  constexpr std::string_view kNames[] = {"training begins", "step",  "record",        "evaluated",
                                         "saved",           "epoch", "training ended"};
  if (event.kind == engine::EventKind::save) return fmt::format("saved checkpoint-{}", event.step);
  if (event.kind == engine::EventKind::epoch) {
    const auto whole = static_cast<int64_t>(event.epoch);
    const bool done = static_cast<double>(whole) == event.epoch;
    return fmt::format("{} epoch {}", done ? "finished" : "stopped within", done ? whole : whole + 1);
  }
  return std::string(kNames[static_cast<size_t>(event.kind)]);
}

// Logs "evaluated at step 4 of 8, epoch 1: eval_loss 2.31, ..."; steps and records, which are frequent, as
// debug lines.
void write_line(const engine::Event& event) {
  RuntimeLog* const log = current_log();
  if (log == nullptr) return;
  const bool often = event.kind == engine::EventKind::step || event.kind == engine::EventKind::log;
  std::string line = fmt::format("{} at step {} of {}, epoch {:.4g}", name_of(event), event.step,
                                 event.max_steps, event.epoch);
  std::string_view before = ": ";
  for (const engine::Metric& metric : event.metrics) {
    if (metric.name == "step" || metric.name == "epoch") continue;
    line += fmt::format("{}{} {:.6g}", std::exchange(before, ", "), metric.name, metric.value);
  }
  log->write(often ? base::LogLevel::debug : base::LogLevel::info, "train", line);
}

}  // namespace

int32_t Trainer::Events::on_event(const engine::Event& event) noexcept {
  try {
    write_line(event);
    if (samples != nullptr) samples->on_event(event);
    if (function == nullptr) return 0;
    trl_metrics metrics;
    metrics.assign(event.metrics);
    metrics.add_if_missing("step", static_cast<double>(event.step));
    metrics.add_if_missing("max_steps", static_cast<double>(event.max_steps));
    metrics.add_if_missing("epoch", event.epoch);
    if (!event.path.empty()) metrics.texts.push_back({"path", std::string(event.path)});
    const int32_t answer =
        call_host("event", [&] { return function(user_data, static_cast<int32_t>(event.kind), &metrics); });
    if (answer < 0) fail_callback("event", answer);
    return answer;
  } catch (...) {
    if (failure == nullptr) failure = std::current_exception();
    return engine::kEventStop;
  }
}

Trainer::Trainer(std::shared_ptr<Runtime> runtime, config::Config config, std::shared_ptr<Dataset> train,
                 std::shared_ptr<Dataset> eval)
    : runtime_(std::move(runtime)),
      config_(run::with_whole_paths(std::move(config))),
      train_(std::move(train)),
      eval_(std::move(eval)),
      model_path_(run::needed_model_path(config_)) {
  interrupt_.works_for(runtime_.get());
  // refuses invalid values before anything is read
  const auto arguments = config::training_arguments(config_);
  const std::optional<int64_t> budget = run::memory_budget(*runtime_, config_);
  if (eval_ == nullptr) config::refuse_evaluation(arguments);
  run::check_run(*runtime_, config_, arguments);
  std::vector<std::string> warnings = config_.warnings();
  for (std::string& line : config::idle_options(config_)) warnings.push_back(std::move(line));
  for (const std::string& warning : config::by_reason(warnings))
    runtime_->log().write(base::LogLevel::warning, "config", warning);
  for (const std::string& note : config::run_notes(config_))
    runtime_->log().write(base::LogLevel::info, "config", note);
  std::vector<engine::KeyValue> values;
  for (const auto& [key, value] : config_.values()) values.push_back({key, value});
  run::EngineObject<engine::Attention> attention;
  if (!arguments.attention.plugin.empty()) attention = run::open_attention(*runtime_, values, model_path_);
  tokenizer_ = run::open_training_tokenizer(config_, model_path_, new_tokens_, runtime_->log());
  if (const std::string& path = arguments.preference.reference; !path.empty())
    run::check_reference_tokens(path, tokenizer_->get());
  config::SampleArguments sampling = config::sample_arguments(config_);
  std::vector<run::SamplePrompt> prompts = run::read_sample_prompts(sampling);
  run::encode(prompts, *tokenizer_);
  run::Prepared prepared =
      run::prepare(*runtime_, config_, arguments, tokenizer_->get(), *train_, eval_.get());
  pool_ = std::move(prepared.pool);
  train_batches_ = std::move(prepared.train);
  eval_batches_ = std::move(prepared.eval);
  embedding_rows_ = run::wanted_embedding_rows(config_, *tokenizer_);
  std::optional<run::Choice> choice;
  if (budget) {
    run::PlansMade made;
    choice = run::choose_way(*runtime_, config_, arguments, *budget,
                             run::largest_batch(config_, arguments, *train_batches_, eval_batches_.get()),
                             embedding_rows_, new_tokens_, made);
    values.clear();
    for (const auto& [key, value] : choice->config.values()) values.push_back({key, value});
    expected_.prediction = run::prediction_of(choice->plan);
    cap_.emplace(*budget, expected_.prediction, process().memory());
  }
  const config::Config& chosen = choice ? choice->config : config_;
  run::check_disks(*runtime_, chosen, embedding_rows_, new_tokens_, 0);
  const bool all_read = arguments.max_steps <= 0 || arguments.save_strategy == config::Strategy::epoch;
  if (all_read) {
    train_batches_->settle();  // before weights are in memory
    run::check_disks(*runtime_, chosen, embedding_rows_, new_tokens_, train_batches_->batches_per_epoch());
  }
  if (!budget) {
    run::check_memory_limit(*runtime_, config_, arguments, *train_batches_, eval_batches_.get(),
                            embedding_rows_, new_tokens_);
    expected_ = run::expected_peak(*runtime_, config_, arguments, *train_batches_, eval_batches_.get(),
                                   all_read, embedding_rows_, new_tokens_);
  }
  const run::MemoryCapScope capped(cap());
  model_ = run::open_model(*runtime_, model_path_, config_, {embedding_rows_, arguments.method->scores()});
  if (!prompts.empty()) {
    samples_ = std::make_unique<run::Samples>(*runtime_, std::move(sampling), arguments.output_dir,
                                              std::move(prompts), tokenizer_, *model_);
    events_.samples = samples_.get();
  }
  train_batches_->settle();
  if (eval_batches_) settle_evaluation();
  run::check_positions(config_, model_->learned_positions(), *train_batches_, eval_batches_.get());

  const auto files = tokenizer_->get().files();
  std::vector<engine::NamedBytes> named;
  for (const auto& [name, bytes] : files) named.push_back({name, bytes});
  engine::TrainerSpec spec;
  spec.config = values;
  spec.model = model_.get();
  spec.attention = attention.get();
  spec.train = train_batches_.get();
  spec.eval = eval_batches_.get();
  spec.events = &events_;
  spec.files = named;
  std::optional<run::EncodedVocabulary> vocabulary;
  if (arguments.save_format == config::SaveFormat::gguf) {
    const base::Json model_config = base::parse_json(model_->config_json(), "config.json");
    vocabulary.emplace(tokenizer_->get(), run::embedding_rows(model_config, model_path_), model_path_,
                       runtime_->log());
    spec.vocabulary = vocabulary->view();
  }
  spec.tokens = run::special_tokens(tokenizer_->get(), config_);
  spec.new_tokens = new_tokens_;
  if (choice) spec.levers = choice->levers;
  told_ = expected_;
  spec.prediction = &told_.prediction;
  engine::Trainer* made = nullptr;
  engine::ErrorCapture error;
  engine::Engine& engine = process().engine();
  error.check(process().use_engine(Use::open, [&] { return engine.create_trainer(spec, &made, error); }));
  trainer_.reset(made);
}

void Trainer::settle_evaluation() {
  eval_batches_->settle();
  if (eval_batches_->batches_per_epoch() != 0) return;
  const int64_t rows = eval_batches_->rows();
  const std::string why =
      rows == 0 ? "nothing is left of the evaluation rows"
                : fmt::format("dataloader_drop_last: the {} evaluation rows are fewer than one batch of {}",
                              rows, config_.get("per_device_eval_batch_size"));
  runtime_->log().warning("data", "{}: evaluations report no metrics except their time", why);
}

// Logs the memory of the process, which may include memory of other work.
void Trainer::tell_memory() {
  if (told_.prediction.peak == 0) return;
  const auto both = [](int64_t predicted, int64_t measured) {
    const auto text = [](int64_t bytes) { return base::bytes_text(static_cast<double>(bytes)); };
    return fmt::format("{} ({})", text(measured), text(predicted));
  };
  std::string of;
  if (told_.size.rows > 0)
    of = fmt::format(" of {} of up to {} at a time", base::quantity(told_.size.rows, "row"),
                     base::quantity(told_.size.longest, "token"));
  std::string line = fmt::format("measured peak, and in parentheses the predicted one{}: resident {}", of,
                                 both(told_.prediction.peak, base::peak_resident_bytes()));
  for (int32_t i = 0; cap_ && i < base::kMemoryKinds; ++i) {
    const auto kind = static_cast<base::MemoryKind>(i);
    line += fmt::format(", {} {}", base::measured_kind_name(kind),
                        both(told_.prediction.kinds[static_cast<size_t>(i)], cap_->most(kind)));
  }
  runtime_->log().write(base::LogLevel::info, "plan", line);
}

bool Trainer::step_locked() {
  metrics_.entries.clear();
  if (trainer_->complete()) return false;
  if (samples_) samples_->take_due();
  std::span<const engine::Metric> numbers;
  engine::ErrorCapture error;
  const bool stepped =
      error.check(process().use_engine(Use::train, [&] { return trainer_->step(&numbers, error); }));
  metrics_.assign(numbers);
  if (samples_) samples_->take_due();
  if (!stepped) {
    if (samples_) samples_->take_last();
    if (!cap_) {
      told_ = run::peak_of_what_ran(*runtime_, config_, expected_, train_batches_->largest(),
                                    eval_batches_ ? eval_batches_->largest() : run::BatchSize(),
                                    embedding_rows_, new_tokens_);
    }
    error.check(trainer_->finish(error));
    interrupt_.answered();
    train_batches_->tell();
    tell_memory();
  }
  return stepped;
}

bool Trainer::step() {
  return exclusively([&] { return step_locked(); }, true);
}

Status Trainer::train(trl_event_fn on_event, void* user_data) {
  return exclusively(
      [&] {
        if (trainer_->complete()) return Status::end;
        struct Registered {
          explicit Registered(Events& sink) : events(sink) { events.failure = nullptr; }
          ~Registered() { events.function = nullptr; }
          void check() const {
            if (events.failure != nullptr) std::rethrow_exception(std::exchange(events.failure, nullptr));
          }
          Events& events;
        };
        const Registered registered(events_);
        events_.user_data = user_data;
        events_.function = on_event;
        try {
          while (step_locked()) {
          }
        } catch (...) {
          registered.check();  // the callback's failure takes precedence
          throw;
        }
        registered.check();
        return Status::ok;
      },
      true);
}

void Trainer::evaluate() {
  exclusively(
      [&] {
        metrics_.entries.clear();
        if (!eval_batches_) fail(Status::invalid_argument, "the trainer was created without evaluation rows");
        std::span<const engine::Metric> numbers;
        engine::ErrorCapture error;
        error.check(process().use_engine(Use::evaluate, [&] { return trainer_->evaluate(&numbers, error); }));
        metrics_.assign(numbers);
      },
      true);
}

void Trainer::save(const std::string& directory, engine::SaveKind kind) {
  exclusively([&] {
    engine::ErrorCapture error;
    error.check(process().use_engine(Use::save, [&] { return trainer_->save(directory, kind, error); }));
  });
}

void Trainer::add_adapter(const std::string& name, const std::string& directory) {
  exclusively([&] {
    engine::ErrorCapture error;
    error.check(process().use_engine(Use::open, [&] { return model_->add_adapter(name, directory, error); }));
    added_.insert(name);
  });
}

void Trainer::remove_adapter(std::string_view name) {
  exclusively([&] {
    const auto found = added_.find(name);
    if (found == added_.end()) {
      fail(Status::not_found,
           "trl_trainer_add_adapter has added no adapter \"{}\" to this trainer, and those "
           "of the run itself stay",
           name);
    }
    engine::ErrorCapture error;
    error.check(process().use_engine(Use::open, [&] { return model_->remove_adapter(name, error); }));
    added_.erase(found);
  });
}

const char* Trainer::describe() {
  return exclusively([&] {
    described_ = base::parse_python_json(trainer_->state_json(), "trainer_state.json").dump();
    return described_.c_str();
  });
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_trainer_create(trl_runtime* runtime, const trl_config* config, trl_dataset* train,
                              trl_dataset* eval, trl_trainer** out_trainer, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        need(out_trainer, "out_trainer");
        const auto held = runtime_of(runtime);
        const RuntimeScope scope(*held);
        *out_trainer = new trl_trainer(std::make_shared<Trainer>(
            held, get(config, "config")->copy(), get(train, "train"), get_or_null(eval, "eval")));
      },
      out_trainer);
}

trl_status trl_trainer_step(trl_trainer* trainer, const trl_metrics** out_metrics,
                            trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(trainer, "trainer");
        const bool stepped = shared->step();
        if (out_metrics != nullptr) *out_metrics = &shared->metrics();
        return stepped ? trl::Status::ok : trl::Status::end;
      },
      out_metrics);
}

trl_status trl_trainer_train(trl_trainer* trainer, trl_event_fn on_event, void* user_data,
                             trl_error** error) noexcept {
  return guard(error, [&] { return get(trainer, "trainer")->train(on_event, user_data); });
}

trl_status trl_trainer_evaluate(trl_trainer* trainer, const trl_metrics** out_metrics,
                                trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(trainer, "trainer");
        shared->evaluate();
        if (out_metrics != nullptr) *out_metrics = &shared->metrics();
      },
      out_metrics);
}

trl_status trl_trainer_save(trl_trainer* trainer, const char* path, const trl_config* options,
                            trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(trainer, "trainer");
    const auto save_options = get_or_null(options, "options");
    shared->save(path != nullptr ? path_of(path) : std::string(),
                 trl::run::save_kind(save_options ? save_options->copy().get("save.kind") : "model"));
  });
}

trl_status trl_trainer_add_adapter(trl_trainer* trainer, const char* name, const char* path,
                                   trl_error** error) noexcept {
  return guard(error, [&] {
    const std::string given(text(name, "name"));
    get(trainer, "trainer")->add_adapter(given, path_of(path));
  });
}

trl_status trl_trainer_remove_adapter(trl_trainer* trainer, const char* name, trl_error** error) noexcept {
  return guard(error, [&] { get(trainer, "trainer")->remove_adapter(text(name, "name")); });
}

namespace {

// Returns the interrupt of a trainer; null: the handle is not a trainer of this process.
Interrupt* interrupt_of(trl_trainer* trainer) noexcept {
  if (trainer == nullptr || !trainer->is(Tag::trainer) || trainer->inherited()) return nullptr;
  return &trainer->object->interrupt();
}

// Ends a held call, which could never be resumed now.
trl_trainer* unheld(trl_trainer* trainer) noexcept {
  Interrupt* const asked = interrupt_of(trainer);
  if (asked != nullptr && asked->paused()) {
    asked->cancel();
    asked->resume();
  }
  return trainer;
}

}  // namespace

void trl_trainer_cancel(trl_trainer* trainer) noexcept {
  answer(0, [&] {
    if (Interrupt* const asked = interrupt_of(trainer)) asked->cancel();
    return 0;
  });
}

void trl_trainer_pause(trl_trainer* trainer) noexcept {
  answer(0, [&] {
    if (Interrupt* const asked = interrupt_of(trainer)) asked->pause();
    return 0;
  });
}

void trl_trainer_resume(trl_trainer* trainer) noexcept {
  answer(0, [&] {
    if (Interrupt* const asked = interrupt_of(trainer)) asked->resume();
    return 0;
  });
}

trl_status trl_trainer_describe(trl_trainer* trainer, const char** out_json, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(trainer, "trainer");
        need(out_json, "out_json");
        *out_json = shared->describe();
      },
      out_json);
}

void trl_trainer_destroy(trl_trainer* trainer) noexcept { destroy(unheld(trainer)); }
