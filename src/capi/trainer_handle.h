// A trainer handle: a run, its model and the engine's trainer, and the values that the host reads from them.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "capi/dataset_handle.h"
#include "capi/metrics_handle.h"
#include "capi/open_rollout.h"
#include "capi/rollout_handle.h"
#include "capi/runtime.h"
#include "engine/engine.h"
#include "run/run.h"
#include "trl/trl.h"

namespace trl::capi {

class Trainer {
 public:
  Trainer(std::shared_ptr<Runtime> runtime, config::Config config, std::shared_ptr<Dataset> train,
          std::shared_ptr<Dataset> eval);

  // Each of these throws Error(busy) while another call runs on this trainer.
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
  const char* describe();
  void set_learning_rate(double rate);  // while any other call runs, too
  // Runs body while no other call runs. pausable: a pause holds it.
  template <class Body>
  auto exclusively(Body&& body, bool pausable = false) {
    const auto lock = sole_use(in_use_, "trainer");
    if (trainer_->complete()) interrupt_.answered();  // the request came after the end of the run
    const RuntimeScope scope(*runtime_);
    interrupt_.begin(pausable);
    interrupt_.report_saving_to(runtime_->progress());
    base::poll();  // a request may have come before begin()
    const base::InterruptScope interrupted_by(base::thread_interrupt() != nullptr ? &interrupt_ : nullptr);
    const run::MemoryCapScope capped(run_->cap());
    try {
      return body();
    } catch (const Error& error) {
      if (error.status() == Status::cancelled && !has_failed()) interrupt_.answered();
      throw;
    }
  }

  // Runs body(rollout) for a generator: beside the call that has asked for the rollout that is open, or
  // exclusively, with null.
  template <class Body>
  auto generating(Body&& body, bool pausable = false) {
    if (const auto right = open_rollout_.enter()) {
      const RuntimeScope scope(*runtime_);
      const base::InterruptScope interrupted_by(base::thread_interrupt() != nullptr ? &interrupt_ : nullptr);
      const run::MemoryCapScope capped(run_->cap());
      return body(&open_rollout_);
    }
    check_entry();
    return exclusively([&] { return body(nullptr); }, pausable);
  }

  Interrupt& interrupt() noexcept { return interrupt_; }
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
  };
  bool step_locked();

  const std::shared_ptr<Runtime> runtime_;
  std::set<std::string, std::less<>> added_;  // adapters that the run itself does not use
  const std::shared_ptr<Dataset> train_, eval_;
  ReportingInterrupt interrupt_;
  std::optional<run::Run> run_;  // made when a request can already stop the work
  Events events_;
  run::EngineObject<engine::Model> model_;
  std::unique_ptr<run::Samples> samples_;  // or null
  run::EngineObject<engine::Trainer> trainer_;
  trl_metrics metrics_;
  std::string described_;
  std::mutex in_use_;
  OpenRollout open_rollout_;
};

}  // namespace trl::capi

struct trl_trainer : trl::capi::Handle<trl::capi::Trainer, trl::capi::Tag::trainer> {
  using Handle::Handle;
};
