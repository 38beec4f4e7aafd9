// A trainer handle: a run, its model and the engine's trainer, and the values that the host reads from them.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads/turns.h"
#include "capi/dataset/dataset_handle.h"
#include "capi/metrics_handle.h"
#include "capi/process/process.h"
#include "capi/rollout/open_rollout.h"
#include "capi/rollout/rollout_handle.h"
#include "capi/runtime/runtime.h"
#include "engine/beside.h"
#include "engine/error_capture.h"
#include "run/run.h"
#include "trl/trl.h"

namespace trl::capi {

class Trainer {
 public:
  Trainer(std::shared_ptr<Runtime> runtime, config::Config config, std::shared_ptr<Dataset> train,
          std::shared_ptr<Dataset> eval);

  // Each of these throws Error(busy) while another of them runs on this trainer.
  bool step();      // false: nothing was left, and the run is closed
  bool backward();  // false: nothing is left
  void update(bool apply);
  Status train(trl_event_fn on_event, void* user_data);
  void evaluate(const Dataset* rows);  // null: those of the run
  void add_adapter(const std::string& name, const std::string& directory);
  void remove_adapter(std::string_view name);
  void add_reward(const std::string& name, std::unique_ptr<HostFunction> function);
  void set_rollout(std::shared_ptr<HostFunction> function);
  void set_tools(std::shared_ptr<HostFunction> function);
  void save(const std::string& directory, engine::SaveKind kind);  // empty: in output_dir
  // These may be called beside any call, and inside callbacks.
  void set_learning_rate(double rate);
  const char* describe();  // lives until this thread calls it again
  std::vector<int64_t> integers(std::string_view name) const;

  // Runs body as a call of the trainer itself: in its turn with generators of its model, and while no other
  // such call runs. pausable: a pause holds it.
  template <class Body>
  auto exclusively(Body&& body, bool pausable = false) {
    const auto lock = sole_use(in_use_, "trainer");
    const RuntimeScope scope(*runtime_);
    const Present present(interrupt_);
    base::Turn turn(turns_);
    turn.wait([&, late = interrupt_.cancelled()] {
      if (!late && interrupt_.cancelled()) refuse_cancelled();
      return may_wait(pausable);
    });
    const Began began(*this, &turn, pausable);
    interrupt_.report_saving_to(runtime_->progress());
    base::poll();  // a request may have come before the interrupt began
    const base::InterruptScope interrupted_by(base::thread_interrupt() != nullptr ? &interrupt_ : nullptr);
    const run::MemoryCapScope capped(run_->cap());
    try {
      // A request ends the next call, however short that is; the engine polls in what a pause can hold.
      if (!pausable) base::poll();
      return body();
    } catch (const Error& error) {
      if (error.status() == Status::cancelled && !has_failed()) interrupt_.answered();
      throw;
    }
  }

  // Runs body(rollout) for a generator of the model: beside the call that has asked for the rollout that is
  // open, or with null in its turn, which comes between the steps of a call that trains.
  template <class Body>
  auto generating(Body&& body, bool pausable = false) {
    const RuntimeScope scope(*runtime_);
    const run::MemoryCapScope capped(run_->cap());
    auto right = open_rollout_.enter();
    base::Turn turn(turns_);
    if (!right) {
      check_entry();
      turn.wait([&] {
        right = open_rollout_.try_enter();  // the call before may wait for what this thread is to write
        return !right && guest_may_wait(pausable);
      });
    }
    if (right) {
      const base::InterruptScope interrupted_by(base::thread_interrupt() != nullptr ? &interrupt_ : nullptr);
      return body(&open_rollout_);
    }
    return as_guest([&] { return body(nullptr); }, pausable);
  }

  // The same for what the host may not do for a rollout.
  template <class Body>
  auto in_turn(Body&& body, bool pausable = false) {
    const RuntimeScope scope(*runtime_);
    const run::MemoryCapScope capped(run_->cap());
    base::Turn turn(turns_);
    turn.wait([&] { return guest_may_wait(pausable); });
    return as_guest(std::forward<Body>(body), pausable);
  }

  // Runs body for a generator of beside()'s model: while steps are made, one such call at a time.
  template <class Body>
  auto besides(Body&& body, bool pausable = false) {
    check_entry();
    const RuntimeScope scope(*runtime_);
    base::Turn turn(beside_turns_);
    turn.wait([&] { return may_wait(pausable); });
    return as_guest(std::forward<Body>(body), pausable);
  }

  // Answers requests while the run trains; null: without serve_share.
  engine::Beside* beside() const { return beside_; }
  Interrupt& interrupt() noexcept { return interrupt_; }
  void end_pause() noexcept;  // and the call that it holds
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  const trl_metrics& metrics() const { return metrics_; }
  engine::Model& model() { return *model_; }
  const config::Config& options() const { return run_->options(); }
  const std::shared_ptr<run::Tokenizer>& tokenizer() const { return run_->tokenizer(); }

 private:
  class Events final : public engine::EventSink {
   public:
    int32_t on_event(const engine::Event& event) noexcept override;
    trl_event_fn function = nullptr;  // of the current trl_trainer_train
    void* user_data = nullptr;
    std::exception_ptr failure;  // the function's first failure
    run::Run* run = nullptr;
    run::Samples* samples = nullptr;  // sample_prompts

   private:
    int32_t tell(engine::EventKind kind, const engine::Event& event, trl_metrics& metrics) const;
    trl_metrics begun_;  // of the last train_begin
    bool told_ = false;  // of one, to any function
  };
  struct Counted {
    explicit Counted(std::atomic<int>* count) : count_(count) {
      if (count_ != nullptr) ++*count_;
    }
    ~Counted() {
      if (count_ != nullptr) --*count_;
    }
    Counted(const Counted&) = delete;
    Counted& operator=(const Counted&) = delete;
    std::atomic<int>* const count_;
  };
  struct Present {
    explicit Present(Interrupt& interrupt) : interrupt_(interrupt) { interrupt_.come(); }
    ~Present() { interrupt_.go(); }
    Present(const Present&) = delete;
    Present& operator=(const Present&) = delete;
    Interrupt& interrupt_;
  };
  // A call of the trainer itself that has its turn.
  class Began {
   public:
    Began(Trainer& trainer, base::Turn* turn, bool pausable);
    ~Began();
    Began(const Began&) = delete;
    Began& operator=(const Began&) = delete;

   private:
    Trainer& trainer_;
    const Counted counted_;
  };
  // Runs body as a call that has its turn, maybe between two steps of a call that trains.
  template <class Body>
  auto as_guest(Body&& body, bool pausable) {
    if (!interrupt_.present()) drop_late_cancel();
    const Visit visit(own_interrupt(), interrupt_, pausable);
    const Counted counted(pausable ? &held_ : nullptr);
    base::poll();
    return body();
  }
  [[noreturn]] void refuse_cancelled();  // a call that still waits for its turn
  // Throws Error for a call that can wait for its turn no longer.
  bool may_wait(bool pausable) const;
  bool guest_may_wait(bool pausable) const;  // the same, for calls with its model
  void drop_late_cancel() noexcept;          // a request that came after the end of the run
  void give_way();                           // to whoever waits, between two steps
  bool step_locked();
  // Runs ask(std::span<const engine::Metric>*, engine::ErrorSink&), a call of the engine's trainer, whose
  // numbers become those of the trainer. Returns its answer.
  template <class Ask>
  bool measure(Use purpose, const Ask& ask) {
    std::span<const engine::Metric> numbers;
    engine::ErrorCapture error;
    const bool answer = error.check(process().use_engine(purpose, [&] { return ask(&numbers, error); }));
    metrics_.assign(numbers);
    return answer;
  }
  bool take_step();  // the same, but leaves a run without its server as it is
  // Saves a run that has lost the server of its completions; returns the error with what has become of it.
  Error saved_without_server(const Error& why);

  const std::shared_ptr<Runtime> runtime_;
  std::set<std::string, std::less<>> added_;  // adapters that the run itself does not use
  const std::shared_ptr<Dataset> train_, eval_;
  ReportingInterrupt interrupt_;
  std::optional<run::Run> run_;  // made when a request can already stop the work
  Events events_;
  run::EngineObject<engine::Model> model_;
  std::unique_ptr<run::Samples> samples_;  // or null
  run::EngineObject<engine::Trainer> trainer_;
  engine::Beside* beside_ = nullptr;
  std::atomic<bool> complete_{false};  // as trainer_->complete() said at the end of a call of the trainer
  trl_metrics metrics_;
  TextOfThread described_;
  std::mutex in_use_;  // by a call of the trainer itself, also while it gives way
  base::Turns turns_;
  base::Turns beside_turns_;    // of the calls beside training; later than a turn of turns_
  base::Turn* turn_ = nullptr;  // of that call
  std::atomic<int> held_{0};    // calls at work that a pause holds
  OpenRollout open_rollout_;
};

}  // namespace trl::capi

struct trl_trainer : trl::capi::Handle<trl::capi::Trainer, trl::capi::Tag::trainer> {
  using Handle::Handle;
};
