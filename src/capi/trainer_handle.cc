// trl_trainer_*.
#include "capi/trainer_handle.h"

#include <algorithm>
#include <vector>

#include "base/files/files.h"
#include "capi/callback.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "report/plan_report.h"
#include "run/open_model.h"
#include "run/plan/plan.h"
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

// Returns the interrupt of a trainer; null: the handle is not a trainer of this process.
Interrupt* interrupt_of(trl_trainer* trainer) noexcept {
  if (trainer == nullptr || !trainer->is(Tag::trainer) || trainer->inherited()) return nullptr;
  return &trainer->object->interrupt();
}

int ask(trl_trainer* trainer, void (Interrupt::*request)() noexcept) noexcept {
  if (Interrupt* const asked = interrupt_of(trainer)) (asked->*request)();
  return 0;
}

// Ends a held call, which could never be resumed now.
trl_trainer* unheld(trl_trainer* trainer) noexcept {
  if (interrupt_of(trainer) != nullptr) trainer->object->end_pause();
  return trainer;
}

}  // namespace

int32_t Trainer::Events::on_event(const engine::Event& event) noexcept {
  try {
    write_line(event);
    if (samples != nullptr) samples->on_event(event);
    std::string completions;
    if (event.kind == engine::EventKind::log) completions = run->at_record(event);
    if (function == nullptr) return 0;
    trl_metrics metrics;
    metrics.assign(event.metrics);
    metrics.add_if_missing("step", static_cast<double>(event.step));
    metrics.add_if_missing("max_steps", static_cast<double>(event.max_steps));
    metrics.add_if_missing("epoch", event.epoch);
    if (!event.path.empty()) metrics.texts.push_back({"path", std::string(event.path)});
    if (!completions.empty()) metrics.texts.push_back({"completions", std::move(completions)});
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
    : runtime_(std::move(runtime)), train_(std::move(train)), eval_(std::move(eval)) {
  interrupt_.works_for(runtime_.get());
  run_.emplace(*runtime_, std::move(config), *train_, eval_.get());
  events_.run = &*run_;
  const run::MemoryCapScope capped(run_->cap());
  model_ = run_->open_model();
  samples_ = run_->open_samples(*model_);
  events_.samples = samples_.get();
  trainer_ = run_->create_trainer(*model_, events_);
  beside_ = static_cast<engine::ServingTrainer&>(*trainer_).beside();
  complete_ = trainer_->complete();
  if (samples_) samples_->check();
}

bool Trainer::step_locked() {
  try {
    return take_step();
  } catch (const Error& error) {
    if (error.status() != Status::io || error.key() != run::kServerKey) throw;
    throw saved_without_server(error);
  }
}

Error Trainer::saved_without_server(const Error& why) {
  const int64_t step = trainer_->global_step();
  if (step == 0) return why;  // nothing was learned
  try {
    engine::ErrorCapture error;
    error.check(process().use_engine(
        Use::save, [&] { return trainer_->save("", engine::SaveKind::checkpoint, error); }));
  } catch (const Error& error) {
    return why.with(fmt::format("{}; the run cannot be saved: {}", why.message(), error.message()));
  }
  return why.with(fmt::format("{}; the run is saved in {}/checkpoint-{}: start a server and resume from it",
                              why.message(), options().get("output_dir"), step));
}

bool Trainer::take_step() {
  metrics_.entries.clear();
  if (trainer_->complete()) return false;
  run_->check_rollouts();
  if (samples_) samples_->take_due();
  const bool stepped =
      measure(Use::train, [&](auto* numbers, auto& error) { return trainer_->step(numbers, error); });
  if (samples_) samples_->take_due();
  if (!stepped) {
    if (samples_) samples_->take_last();
    run_->predict_what_ran();
    engine::ErrorCapture error;
    error.check(trainer_->finish(error));
    interrupt_.answered();
    run_->tell();
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
          while (step_locked()) give_way();
        } catch (...) {
          registered.check();  // the callback's failure takes precedence
          throw;
        }
        registered.check();
        return Status::ok;
      },
      true);
}

void Trainer::evaluate(const Dataset* rows) {
  exclusively(
      [&] {
        metrics_.entries.clear();
        run::Prepared others;
        if (rows != nullptr)
          others = run_->prepare_evaluation(*rows, *model_);
        else if (!run_->evaluates())
          fail(Status::invalid_argument, "the trainer was created without evaluation rows");
        run_->check_rollouts();
        measure(Use::evaluate, [&](auto* numbers, auto& error) {
          return trainer_->evaluate(others.eval.get(), numbers, error);
        });
      },
      true);
}

// The weights have the adapter in them while a merged model is written: nothing is answered with them then.
void Trainer::save(const std::string& directory, engine::SaveKind kind) {
  exclusively([&] {
    base::Turn alone(beside_turns_);
    if (kind == engine::SaveKind::merged) alone.wait([this] { return may_wait(false); });
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
    if (found == added_.end())
      fail(Status::not_found,
           "trl_model_add_adapter has added no adapter \"{}\" to this trainer's model, and those of the run "
           "itself stay",
           name);
    engine::ErrorCapture error;
    error.check(process().use_engine(Use::open, [&] { return model_->remove_adapter(name, error); }));
    added_.erase(found);
  });
}

void Trainer::add_reward(const std::string& name, std::unique_ptr<HostFunction> function) {
  exclusively([&] {
    if (name.empty()) fail(Status::invalid_argument, "name is empty: give the name of the reward's metrics");
    const auto seconds = run_->online().reward_timeout;
    run_->rollouts().rewards().add(host_reward(name, std::move(function), seconds));
  });
}

void Trainer::set_rollout(std::shared_ptr<HostFunction> function) {
  exclusively([&] {
    const auto seconds = run_->online().reward_timeout;
    const auto write = [this, function, seconds](const std::shared_ptr<run::HostRollout>& rows) {
      OpenRollout::Scope open(open_rollout_, rows, interrupt_);
      {
        const RolloutScope asked;
        function->begin("rollout", rows);
      }
      function->finish("rollout", *rows, seconds);
      open.close();
    };
    run_->rollouts().write_by(write, [this] { open_rollout_.release_memory(); });
  });
}

void Trainer::set_tools(std::shared_ptr<HostFunction> function) {
  exclusively([&] {
    const auto seconds = run_->online().reward_timeout;
    run_->rollouts().call_tools_by([function, seconds](const std::shared_ptr<run::HostRollout>& rows) {
      function->call("tools", rows, seconds);
    });
  });
}

const char* Trainer::describe() {
  struct Taken final : engine::TextSink {
    void set(std::string_view state) override { text = state; }
    std::string text;
  } taken;
  engine::ErrorCapture error;
  error.check(trainer_->describe(taken, error));
  return described_.keep(std::move(taken.text));
}

std::vector<int64_t> Trainer::integers(std::string_view name) const {
  const engine::TrainedModel& model = trainer_->trained_model();
  if (name == "global_step") return {trainer_->global_step()};
  if (name == "max_steps") return {trainer_->max_steps()};
  if (name == "vocab_size") return {model.vocab_size};
  if (name == "parameter_count") return {model.parameters};
  if (name == "trained_parameter_count") return {model.trained_parameters};
  if (name == "eos_token_ids") return model.end_ids;
  fail(Status::not_found,
       "name: '{}' is not one of global_step, max_steps, vocab_size, parameter_count, "
       "trained_parameter_count, eos_token_ids",
       name);
}

Trainer::Began::Began(Trainer& trainer, base::Turn* turn, bool pausable)
    : trainer_(trainer), counted_(pausable ? &trainer.held_ : nullptr) {
  trainer_.drop_late_cancel();
  trainer_.interrupt_.begin(pausable);
  trainer_.turn_ = turn;
}

Trainer::Began::~Began() {
  trainer_.turn_ = nullptr;
  trainer_.complete_ = trainer_.trainer_->complete();
}

void Trainer::refuse_cancelled() {
  interrupt_.answered();
  fail(Status::cancelled, "cancelled before its turn");
}

bool Trainer::may_wait(bool pausable) const {
  if (!pausable && interrupt_.paused() && held_ > 0)
    fail(Status::busy, "the trainer is paused, and a call that it holds is at work");
  base::poll();
  return true;
}

// The step that waits for this thread's answer would wait for ever.
bool Trainer::guest_may_wait(bool pausable) const {
  if (Rollout::is_answered_here(this))
    fail(Status::busy,
         "the step of this trainer waits for the answer to a rollout that this thread has read, so that its "
         "model has no turn for it: call trl_rollout_finish first, or use another model");
  return may_wait(pausable);
}

// A cancel that no call takes would end the next one of a model of this trainer.
void Trainer::end_pause() noexcept {
  if (!interrupt_.paused()) return;
  if (held_ > 0) interrupt_.cancel();
  interrupt_.resume();
}

void Trainer::drop_late_cancel() noexcept {
  if (complete_) interrupt_.answered();
}

void Trainer::give_way() {
  try {
    turn_->give_way([this] { return may_wait(true); });
  } catch (const Error& error) {
    if (error.status() != Status::cancelled) throw;
    const Error told = error.with(
        fmt::format("cancelled after step {} of {}", trainer_->global_step(), trainer_->max_steps()));
    trainer_->interrupted(told.message());
    throw told;
  }
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_trainer_check(trl_runtime* runtime, const trl_config* config, trl_error** error) noexcept {
  return guard(error, [&] {
    const auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    const trl::config::Config wanted = trl::run::with_whole_paths(get(config, "config")->copy());
    trl::run::needed_model(wanted);
    trl::run::check_run(*held, trl::config::RunOptions(wanted));
  });
}

trl_status trl_trainer_plan(trl_runtime* runtime, const trl_config* config, const trl_dataset* train,
                            const char** out_json, const char** out_text, trl_error** error) noexcept {
  return guard(error, out_json, out_text, [&] {
    const auto held = get(runtime, "runtime");
    const trl::config::Config wanted = get(config, "config")->copy();
    const auto rows = get_or_null(train, "train");
    const auto report = trl::run::output_path(wanted, "estimate.report");
    const RuntimeScope scope(*held);
    const auto sets = trl::run::plan_run(*held, wanted, rows.get());
    if (report) trl::base::replace_file(*report, trl::report::plan_page(sets));
    if (out_json != nullptr) *out_json = held->keep(to_json(sets).dump());
    if (out_text != nullptr) *out_text = held->keep(trl::report::plan_text(sets));
  });
}

trl_status trl_trainer_create(trl_runtime* runtime, const trl_config* config, trl_dataset* train,
                              trl_dataset* eval, trl_trainer** out_trainer, trl_error** error) noexcept {
  return guard(error, out_trainer, [&] {
    need(out_trainer, "out_trainer");
    const auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    *out_trainer = new trl_trainer(std::make_shared<Trainer>(held, get(config, "config")->copy(),
                                                             get(train, "train"), get_or_null(eval, "eval")));
  });
}

trl_status trl_trainer_step(trl_trainer* trainer, const trl_metrics** out_metrics,
                            trl_error** error) noexcept {
  return guard(error, out_metrics, [&] {
    const auto shared = get(trainer, "trainer");
    const bool stepped = shared->step();
    if (out_metrics != nullptr) *out_metrics = &shared->metrics();
    return stepped ? trl::Status::ok : trl::Status::end;
  });
}

trl_status trl_trainer_train(trl_trainer* trainer, trl_event_fn on_event, void* user_data,
                             trl_error** error) noexcept {
  return guard(error, [&] { return get(trainer, "trainer")->train(on_event, user_data); });
}

trl_status trl_trainer_evaluate(trl_trainer* trainer, const trl_dataset* rows,
                                const trl_metrics** out_metrics, trl_error** error) noexcept {
  return guard(error, out_metrics, [&] {
    const auto shared = get(trainer, "trainer");
    const auto others = get_or_null(rows, "rows");
    shared->evaluate(others.get());
    if (out_metrics != nullptr) *out_metrics = &shared->metrics();
  });
}

trl_status trl_trainer_save(trl_trainer* trainer, const char* path, const trl_config* options,
                            trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared = get(trainer, "trainer");
    const auto kind = trl::run::save_kind(options_of(options).get("save.kind"));
    shared->save(path != nullptr ? path_of(path) : std::string(), kind);
  });
}

trl_status trl_trainer_add_reward(trl_trainer* trainer, const char* name, trl_rollout_fn function,
                                  void* user_data, trl_destroy_fn destroy, trl_error** error) noexcept {
  return guard(error, [&, owned = UserData(user_data, destroy)]() mutable {
    if (function == nullptr) fail_null("function");
    const std::string given(text(name, "name"));
    const auto shared = get(trainer, "trainer");
    shared->add_reward(given, std::make_unique<HostFunction>(function, std::move(owned), shared.get()));
  });
}

trl_status trl_trainer_set_rollout(trl_trainer* trainer, trl_rollout_fn rollout, void* user_data,
                                   trl_destroy_fn destroy, trl_error** error) noexcept {
  return guard(error, [&, owned = UserData(user_data, destroy)]() mutable {
    if (rollout == nullptr) fail_null("rollout");
    const auto shared = get(trainer, "trainer");
    shared->set_rollout(std::make_shared<HostFunction>(rollout, std::move(owned), shared.get()));
  });
}

trl_status trl_trainer_set_tools(trl_trainer* trainer, trl_rollout_fn tools, void* user_data,
                                 trl_destroy_fn destroy, trl_error** error) noexcept {
  return guard(error, [&, owned = UserData(user_data, destroy)]() mutable {
    if (tools == nullptr) fail_null("tools");
    const auto shared = get(trainer, "trainer");
    shared->set_tools(std::make_shared<HostFunction>(tools, std::move(owned), shared.get()));
  });
}

void trl_trainer_cancel(trl_trainer* trainer) noexcept {
  answer(0, [&] { return ask(trainer, &Interrupt::cancel); });
}

void trl_trainer_pause(trl_trainer* trainer) noexcept {
  answer(0, [&] { return ask(trainer, &Interrupt::pause); });
}

void trl_trainer_resume(trl_trainer* trainer) noexcept {
  answer(0, [&] { return ask(trainer, &Interrupt::resume); });
}

trl_status trl_trainer_describe(trl_trainer* trainer, const char** out_json, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_json, [&] {
    const auto shared = get(trainer, "trainer");
    need(out_json, "out_json");
    *out_json = shared->describe();
  });
}

trl_status trl_trainer_get_integers(const trl_trainer* trainer, const char* name, int64_t* values,
                                    size_t capacity, size_t* out_count, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_count, [&] {
    const auto shared = get(trainer, "trainer");
    if (capacity > 0) need(values, "values");
    const std::vector<int64_t> all = shared->integers(text(name, "name"));
    std::copy_n(all.begin(), std::min(all.size(), capacity), values);
    if (out_count != nullptr) *out_count = all.size();
  });
}

void trl_trainer_destroy(trl_trainer* trainer) noexcept { destroy(unheld(trainer)); }
