// The one training loop. It orders its parts: batches are read (Batches), learned from (Stepper), reported
// (Records) and saved (Saving). A step fills a window of micro-batches, makes the update and only then
// counts: until then the next call repeats both from the start, so a step happened or it did not, except for
// a torn Stepper. The work after an update (log, evaluate, save, end of the epoch) is remembered until it is
// done. The order of everything is transformers' Trainer's.
#pragma once
#include <atomic>
#include <cmath>
#include <memory>
#include <string>

#include "base/json/json.h"
#include "checkpoint/checkpoint.h"
#include "optim/schedule.h"
#include "telemetry/trainer_state.h"
#include "tensor/memory/counted.h"
#include "train/batches/batches.h"
#include "train/records/records.h"
#include "train/records/step_profile.h"
#include "train/run/run_state.h"
#include "train/run/run_steps.h"
#include "train/run/setup.h"
#include "train/saving/disk_needs.h"
#include "train/saving/saving.h"
#include "train/stepper/stepper.h"

namespace trl::train {

class Trainer {
 public:
  explicit Trainer(Setup setup);
  ~Trainer();

  bool step();  // backward() and update(). false: nothing left, or the host has stopped the run
  // The halves of a step. After backward() it has begun: its gradients exist, and all else is as before, also
  // for evaluations and checkpoints. false: as step(). Error(unsupported): steps of this run have no halves.
  // After an error no step has begun.
  bool backward();
  // Ends a step that has begun. apply: false: the weights stay, as after a window that is not finite
  // (on_nonfinite: skip). After an error in the update itself the step is still begun.
  void update(bool apply);
  bool begun() const { return begun_ != nullptr; }
  // These throw Error for a call of step(), backward() or update() at a wrong time, or in a wrong run.
  void need_whole_step() const;
  void need_halves() const;
  void need_begun() const;
  // Sets the rate of the steps that begin from here on; NaN: the schedule's. Any thread, at any time.
  void set_learning_rate(double rate) noexcept { set_rate_.store(rate); }
  const telemetry::Record& evaluate();  // logged like any other evaluation; valid until the next call
  // Evaluates on other rows, without a trace in the run. The method writes no completions.
  telemetry::Record evaluate(engine::BatchSource& rows);
  void finish();          // summary, train_end, trainer_state.json; a second call only writes
  bool complete() const;  // finished, and a step would not resume the run
  // directory empty: the place where the run itself would save.
  void save_model(const std::string& directory = {});   // or the trained adapter
  void save_merged(const std::string& directory = {});  // the model with that adapter in its weights
  void save_checkpoint(const std::string& directory = {});
  // Resumes from a checkpoint as if the run had never ended. Call before the first step; after an error the
  // weights are unchanged, and this trainer cannot be used.
  void resume(const std::string& directory);
  void resume_as_configured();  // resume_from_checkpoint
  // Makes one update on the next batches in a tensor::Rehearsal: no file is written. The setup has neither
  // events nor log, and on_nonfinite is proceed. Afterwards only evaluate() may be called.
  void rehearse();
  // Returns the needs of disk_needs.h, from here on.
  DiskNeeds disk_needs() const;
  void need_disks();

  const telemetry::Record& metrics() const { return records_.step(); }        // of the last step
  const telemetry::Record& begun_metrics() const { return begun_->metrics; }  // of one that has begun
  const telemetry::TrainerState& state() const { return state_; }
  int64_t max_steps() const { return steps_.max_steps; }
  // Says whether micro-batches of a window go through the model together (train/policy/joint.h).
  bool joins() const { return stepper_.method().joins(); }
  const model::Model* teacher() const;  // that completes prompts; null: none does

 private:
  // waiting: for the first step. finished: the summary is logged. closed: and no work is due.
  enum class Phase : uint8_t { waiting, running, finished, closed };

  // A step between its halves.
  struct Begun {
    double learning_rate;
    double set_rate;  // set_learning_rate() before it began
    StepProfile profile;
    double synced_before;  // Rollouts::sync_seconds()
    telemetry::Record metrics = {};
  };
  // Does the first half of a step, and then rest(); after an error no step has begun. false: nothing is left.
  template <class Rest>
  bool begin_step(const Rest& rest);
  void end_step(bool apply);
  template <class Body>
  auto explained(const Body& body);  // says in an error where the run is
  void begin();
  void whole_step();
  bool first_half();  // false: the epoch held no further batch
  void second_half(bool apply);
  void leave_begun();
  telemetry::Record measure(engine::BatchSource& rows);
  const std::vector<MicroBatch>& fill_window();
  std::optional<double> sync_seconds() const;
  void work_ahead(std::span<const data::Batch> window);
  void count(std::span<const MicroBatch> window, const Learned& learned, double learning_rate);
  void note_due();
  bool stops() const { return ended_ || records_.stopped_by_host() || phase_ >= Phase::finished; }
  void check_usable() const;  // throws Error after an update that was left half done
  // Throws likewise. Makes the updates that are left of a step that ended after some of them.
  void make_whole();
  std::string torn(const std::string& why) const;
  std::string can_go_on(const std::string& why) const;  // after a failure of the host
  void follow_up();
  void save_due();
  // Runs `body`, which writes completions of other rows than those of training. After an error, the state of
  // training is as before.
  template <class Body>
  void beside_training(Body&& body);
  bool samples_follow() const;  // this step
  void sample();
  void end_epoch();
  void reopen();
  void write_checkpoint(const std::string& directory);
  base::Json state_json() const;  // trl_state.json
  void resume(const checkpoint::Checkpoint& from);
  void restore(const checkpoint::Checkpoint& from, telemetry::TrainerState state, const base::Json& json);
  void restore_position(std::string source_state);
  bool keeps_optimizer(const checkpoint::Checkpoint& from, const base::Json& before) const;
  template <typename... Args>
  void warn(fmt::format_string<Args...> text, Args&&... args) const {
    if (setup_.log != nullptr) setup_.log->warning("checkpoint", text, std::forward<Args>(args)...);
  }
  const config::TrainingArguments& arguments() const { return setup_.arguments; }

  const tensor::GivesBack gives_back_;
  const Setup setup_;
  const RunSteps steps_;
  telemetry::TrainerState state_;
  RunState now_;
  Records records_;
  Stepper stepper_;
  Saving saving_;
  optim::Schedule schedule_;
  Batches batches_;
  Phase phase_ = Phase::waiting;
  bool resumed_ = false;  // the run had begun in another process, or was reopened
  bool ended_ = false;    // no step is left
  std::shared_ptr<Begun> begun_;
  std::atomic<double> set_rate_{std::nan("")};  // in place of the schedule's; NaN: none
};

}  // namespace trl::train
