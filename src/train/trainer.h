// The one training loop. A step fills a window of micro-batches, runs them forward and backward, clips,
// updates and only then counts. Until the update only gradients and the window have changed, and the next
// call repeats both from the start, so a step happened or it did not. The work after an update (log,
// evaluate, save, end of the epoch) is remembered until it is done. The order of everything is transformers'
// Trainer's.
//
// With optimizer_in_backward the update begins in the middle of backward. All that can be known earlier (the
// loss, a request to stop, changed files of the model) is checked earlier; a later request to stop waits
// until backward ends. Another failure in that time, such as a gradient that is not finite or too little
// memory, leaves some weights updated and others not: the trainer says so, naming its last checkpoint, and
// refuses all further work.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/log.h"
#include "checkpoint/checkpoint.h"
#include "config/training_arguments.h"
#include "engine/engine.h"
#include "kernels/path.h"
#include "model/model.h"
#include "optim/optim.h"
#include "optim/schedule.h"
#include "telemetry/trainer_state.h"
#include "tensor/memory/gives_back.h"
#include "train/backward_step.h"
#include "train/batches.h"
#include "train/disk_room.h"
#include "train/gradients.h"
#include "train/method.h"
#include "train/run_state.h"
#include "train/run_steps.h"

namespace trl::train {

class FrozenLayers;
class Offloading;

struct Setup {
  config::TrainingArguments arguments;
  model::Model* model = nullptr;
  std::string model_path = {};                      // for messages
  kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
  engine::BatchSource* train = nullptr;
  engine::BatchSource* eval = nullptr;                       // or null
  int64_t longest_row = 0;                                   // the most tokens of a row; 0: not known
  engine::EventSink* events = nullptr;                       // or null
  std::vector<engine::NamedBytes> files;                     // for every saved directory; outlive the trainer
  engine::GgufVocabulary vocabulary = {};                    // for save_format gguf; outlives the trainer
  base::LogSink* log = nullptr;                              // or null
  std::vector<std::pair<std::string, std::string>> options;  // the options that a resume compares
  const base::WriteFault* write_fault = nullptr;             // for tests
  int64_t predicted_peak = 0;  // resident bytes, for the last record; 0: not known
};

// Refuses options that need our kernels, or those of plug-ins, if the model is not on the CPU: they run only
// there.
void check_device(const config::TrainingArguments& arguments, at::Device device);

// Checks, before rows and weights are read, that output_dir can take this run and that the checkpoint of
// resume_from_checkpoint exists. saves_model: the run saves a model there, not an adapter. Throws Error with
// the key.
void check_output(const config::TrainingArguments& arguments, bool saves_model);

class Trainer {
 public:
  explicit Trainer(Setup setup);
  ~Trainer();

  bool step();                          // false: nothing left, or the host has stopped the run
  const telemetry::Record& evaluate();  // logged like any other evaluation; valid until the next call
  void finish();                        // summary, train_end, trainer_state.json; a second call only writes
  bool complete() const;                // finished, and a step would not resume the run
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
  // Returns the disk space that this run takes from here on, without headers and small files. Activations: of
  // the rehearsed batches.
  DiskNeeds disk_needs() const;
  // Throws Error(io) before the first step if the disks have less room than that; warns if they may have
  // enough once activations are compressed.
  void need_disks();

  const telemetry::Record& metrics() const { return metrics_; }  // of the last step
  const telemetry::TrainerState& state() const { return state_; }
  int64_t max_steps() const { return steps_.max_steps; }

 private:
  using Clock = std::chrono::steady_clock;
  kernels::Path path() const {  // of all kernels of this run
    using config::FusedKernels;
    return arguments().fused_kernels == FusedKernels::off ? kernels::Path::plain : kernels::Path::fused;
  }
  struct Pass;  // sums over the micro-batches of one window

  // Gets the loss of a part of a micro-batch; the loss may have no graph.
  using Backward = std::function<void(const at::Tensor& loss, const MicroBatch& batch, bool last_part)>;

  bool run_step();
  void begin();
  bool update();
  Pass learn(const std::vector<MicroBatch>& window, double learning_rate);
  Pass learn_in_backward(const std::vector<MicroBatch>& window, double learning_rate);
  std::optional<double> previous_scale() const;
  double grad_scale(double norm) const;
  void check_whole() const;  // throws Error if a step was left half done
  std::string torn(const std::string& why) const;
  void begin_collecting(const std::vector<MicroBatch>& window);
  double grad_norm() const;
  int64_t tokens_seen(const MicroBatch& batch) const;
  Pass run_window(const std::vector<MicroBatch>& window, const Backward& backward);
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training);
  bool accepts(double value, std::string_view what, const std::vector<const MicroBatch*>& batches) const;
  void after_update(const Pass& pass, double learning_rate);
  void follow_up();
  void save_due();
  std::vector<std::string_view> run_tags() const;
  void write_model(const std::string& directory);
  int64_t model_bytes() const;       // of the model at the end
  int64_t weight_bytes() const;      // of a checkpoint's weights
  int64_t checkpoint_bytes() const;  // of its weights and the optimizer's states
  int64_t state_file_bytes() const;
  std::string checkpoint_directory() const;  // <output_dir>/checkpoint-<step>
  void end_epoch();
  void log_training();
  void log(telemetry::Record record, bool of_training = false);
  void measure_speed();  // since the previous record of training
  void emit(engine::EventKind kind, const telemetry::Record& record, std::string_view path = {});
  void reopen();
  base::Json state_json() const;  // trl_state.json
  void resume(const checkpoint::Checkpoint& from);
  void restore(const checkpoint::Checkpoint& from, telemetry::TrainerState state, const base::Json& json);
  void restore_position();
  base::Json fingerprint() const;  // of everything that the rest of the run depends on
  void warn_of_changes(const base::Json& before) const;
  bool keeps_optimizer(const checkpoint::Checkpoint& from, const base::Json& before) const;
  void write_checkpoint(const std::string& directory);
  void rotate(int64_t limit, bool keep_newest);
  void note_best();
  void load_best();
  template <typename... Args>
  void warn(fmt::format_string<Args...> text, Args&&... args) const {
    if (setup_.log != nullptr) setup_.log->warning("checkpoint", text, std::forward<Args>(args)...);
  }
  double seconds() const;  // of training, including the time before a resume
  bool has_means() const;
  void write_means(telemetry::Record& record) const;
  const config::TrainingArguments& arguments() const { return setup_.arguments; }

  const tensor::GivesBack gives_back_;
  const Setup setup_;
  const RunSteps steps_;
  const std::vector<tensor::Parameter*> parameters_;
  const std::shared_ptr<void> int8_;  // frozen_compute: int8
  const std::unique_ptr<Method> method_;
  Gradients gradients_;
  std::unique_ptr<FrozenLayers> frozen_;    // null: no states are kept
  std::unique_ptr<Offloading> offloading_;  // null: activations stay in memory
  const std::unique_ptr<optim::Optimizer> optimizer_;
  std::optional<BackwardStep> backward_step_;  // optimizer_in_backward
  optim::Schedule schedule_;
  const std::optional<data::TreeLimits> share_;
  SharedTokens shared_;
  Batches batches_;
  double flos_per_token_ = 0;

  telemetry::TrainerState state_;
  telemetry::Record metrics_;
  telemetry::Record evaluation_;
  RunState now_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point marked_ = started_;  // start of the interval of the next speed record
  int64_t marked_tokens_ = 0;
  std::string run_;              // one name for all its checkpoints
  std::string last_checkpoint_;  // the newest that this trainer wrote or resumed from

  std::shared_ptr<void> lock_;  // of output_dir, from the first step to the end
  bool begun_ = false;
  bool resumed_ = false;  // the run had begun in another process
  bool stop_ = false;
  bool stopped_by_host_ = false;  // in this process, by an event's answer
  bool finished_ = false;
  bool closed_ = false;       // finished, and no work is due
  bool loaded_best_ = false;  // load_best_model_at_end: the weights are those of another step
  size_t summary_ = 0;        // finished: the place of the last record in log_history
};

}  // namespace trl::train
