// A trainer handle: prepared rows, the model and the engine's trainer, and the values that the host reads
// from them.
#pragma once
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "capi/dataset_handle.h"
#include "capi/metrics_handle.h"
#include "capi/runtime.h"
#include "config/config.h"
#include "engine/engine.h"
#include "run/complete/samples.h"
#include "run/engine_object.h"
#include "run/plan/expected_peak.h"
#include "run/plan/memory_cap.h"
#include "run/rows/batch_source.h"
#include "run/tokenizer.h"
#include "trl/trl.h"

namespace trl::capi {

class Trainer {
 public:
  Trainer(std::shared_ptr<Runtime> runtime, config::Config config, std::shared_ptr<Dataset> train,
          std::shared_ptr<Dataset> eval);

  // Each of these throws Error(busy) while another call runs on this trainer.
  bool step();  // false: nothing was left, and the run is closed
  Status train(trl_event_fn on_event, void* user_data);
  void evaluate();
  void add_adapter(const std::string& name, const std::string& directory);
  void remove_adapter(std::string_view name);
  void save(const std::string& directory, engine::SaveKind kind);  // empty: in output_dir
  const char* describe();
  // Runs body while no other call runs. pausable: a pause holds it.
  template <class Body>
  auto exclusively(Body&& body, bool pausable = false) {
    const std::unique_lock lock(in_use_, std::try_to_lock);
    if (!lock) fail(Status::busy, "trainer is in use on another thread");
    if (trainer_->complete()) interrupt_.answered();  // the request came after the end of the run
    const RuntimeScope scope(*runtime_);
    interrupt_.begin(pausable);
    interrupt_.report_saving_to(runtime_->progress());
    base::poll();  // a request may have come before begin()
    const base::InterruptScope interrupted_by(base::thread_interrupt() != nullptr ? &interrupt_ : nullptr);
    const run::MemoryCapScope capped(cap());
    try {
      return body();
    } catch (const Error& error) {
      if (error.status() == Status::cancelled && !has_failed()) interrupt_.answered();
      throw;
    }
  }

  Interrupt& interrupt() noexcept { return interrupt_; }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  const trl_metrics& metrics() const { return metrics_; }
  engine::Model& model() { return *model_; }
  const std::shared_ptr<run::Tokenizer>& tokenizer() const { return tokenizer_; }

 private:
  class Events final : public engine::EventSink {
   public:
    int32_t on_event(const engine::Event& event) noexcept override;
    trl_event_fn function = nullptr;  // of the current trl_trainer_train
    void* user_data = nullptr;
    std::exception_ptr failure;       // the function's first failure
    run::Samples* samples = nullptr;  // sample_prompts
  };
  void settle_evaluation();  // warns if evaluation has no rows
  bool step_locked();
  void tell_memory();  // logs predicted and measured memory, at the end
  run::MemoryCap* cap() { return cap_ ? &*cap_ : nullptr; }

  const std::shared_ptr<Runtime> runtime_;
  std::set<std::string, std::less<>> added_;  // adapters that the run itself does not use
  const config::Config config_;
  const std::shared_ptr<Dataset> train_, eval_;
  const std::string model_path_;
  std::shared_ptr<run::Tokenizer> tokenizer_;
  std::unique_ptr<base::ThreadPool> pool_;
  std::unique_ptr<run::Batches> train_batches_, eval_batches_;
  ReportingInterrupt interrupt_;
  run::ExpectedPeak expected_, told_;  // before the run, and at the end for the batches that ran
  int64_t embedding_rows_ = 0;         // counted as plan_of does
  std::vector<int32_t> new_tokens_;
  std::optional<run::MemoryCap> cap_;  // memory_budget
  Events events_;
  run::EngineObject<engine::Model> model_;
  std::unique_ptr<run::Samples> samples_;  // or null
  run::EngineObject<engine::Trainer> trainer_;
  trl_metrics metrics_;
  std::string described_;
  std::mutex in_use_;
};

}  // namespace trl::capi

struct trl_trainer : trl::capi::Handle<trl::capi::Trainer, trl::capi::Tag::trainer> {
  using Handle::Handle;
};
