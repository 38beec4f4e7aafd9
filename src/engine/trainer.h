// A run and the evaluation of a model: what they are made from, their events, and their calls.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/memory/memory.h"
#include "config/training_arguments.h"
#include "engine/batch_source.h"
#include "engine/host.h"
#include "engine/model.h"
#include "engine/rollout.h"
#include "io/model_source.h"

namespace trl::config {
struct RunOptions;
}

namespace trl::engine {

enum class EventKind : int32_t { train_begin, step, log, evaluate, save, epoch, train_end };

struct Event {
  EventKind kind;
  int64_t step;  // global_step
  int64_t max_steps;
  double epoch;
  std::span<const Metric> metrics;
  std::string_view path = {};  // save: the directory that was written
};

inline constexpr int32_t kEventStop = 1;
inline constexpr int32_t kEventSave = 2;
inline constexpr int32_t kEventEvaluate = 4;

class EventSink {
 public:
  virtual int32_t on_event(const Event& event) noexcept = 0;  // 0 or kEvent* bits; on the stepping thread

 protected:
  ~EventSink() = default;
};

// The predicted peak of a run's memory, in bytes. peak 0: it is not known.
struct Prediction {
  int64_t peak = 0;     // resident, of the whole process
  int64_t process = 0;  // the part of it that the memory counter does not see
  // The peak of each kind; these peaks are not simultaneous.
  std::array<int64_t, base::kMemoryKinds> kinds = {};
};

struct AttentionSpec {
  const config::RunOptions* options = nullptr;  // attn_implementation names a plug-in
  io::ModelSource model;
};

// The plug-in attention of a run. Opening one checks it, and reads neither rows nor weights.
class Attention {
 public:
  virtual void release() noexcept = 0;

 protected:
  ~Attention() = default;
};

// The tokenizer's EOS and the tokens that end a completion. aligned: it is added to them if it is missing.
// added (eos_token is set): it is added, and becomes the EOS of config.json. replaced (chat_template_path
// names a model): it becomes the only one.
enum class EndToken : int32_t { aligned, added, replaced };

// The special tokens of the tokenizer that a run trains with and saves; -1: it has no such token.
struct SpecialTokens {
  int32_t bos = -1;
  int32_t eos = -1;
  int32_t pad = -1;
  EndToken end = EndToken::aligned;
};

struct TrainerSpec {
  const config::RunOptions* options = nullptr;
  Model* model = nullptr;                 // must outlive the trainer; its weights are trained in place
  Attention* attention = nullptr;         // or null: the built-in one; may be released before the trainer
  BatchSource* train = nullptr;           // or null, with rollouts; outlives the trainer
  BatchSource* eval = nullptr;            // or null; outlives the trainer
  const RolloutSpec* rollouts = nullptr;  // methods that learn from completions
  EventSink* events = nullptr;            // or null
  std::span<const NamedBytes> files;      // go into every saved directory (tokenizer, chat template); copied
  GgufVocabulary vocabulary;              // for save_format gguf; copied
  SpecialTokens tokens;                   // go into config.json and generation_config.json
  std::span<const int32_t> new_tokens;    // from another model's tokenizer: an adapter trains them too
  config::Levers levers = {};
  const Prediction* prediction = nullptr;  // outlives the trainer, and may change until it has finished
};

// The model of a trainer, in numbers that stay.
struct TrainedModel {
  int64_t vocab_size = 0;  // rows of the embedding
  int64_t parameters = 0, trained_parameters = 0;
  std::vector<int64_t> end_ids = {};
};

class Trainer {
 public:
  virtual void release() noexcept = 0;
  // Does one optimizer step and the work after it (log, evaluate, save). ok; end (nothing left, or the event
  // sink stopped it: finish() follows); or an error after which the step did not happen. *metrics: of this
  // step, valid until the next call. After the finish() of a run that the sink stopped, this resumes the run.
  virtual int32_t step(std::span<const Metric>* metrics, ErrorSink& error) noexcept = 0;
  // The halves of step(). backward(): forward and backward of the step's rows; *metrics: those known before
  // the update. It leaves gradients, and all else as it was. end: nothing is left; after an error no step has
  // begun. Error(unsupported): the run's steps have no halves.
  virtual int32_t backward(std::span<const Metric>* metrics, ErrorSink& error) noexcept = 0;
  // Ends the step that backward() has begun. apply: false: the weights and the optimizer's state stay. After
  // an error before the update the step is still begun.
  virtual int32_t update(bool apply, std::span<const Metric>* metrics, ErrorSink& error) noexcept = 0;
  // Sets the learning rate of the steps that begin from here on; NaN: the schedule's. any thread.
  virtual void set_learning_rate(double rate) noexcept = 0;
  // rows: to evaluate on, which leaves no trace in the run; null: the evaluation rows of the run.
  virtual int32_t evaluate(BatchSource* rows, std::span<const Metric>* metrics,
                           ErrorSink& error) noexcept = 0;
  // Tells the reports of the run why it was stopped between two steps.
  virtual void interrupted(std::string_view why) noexcept = 0;
  // Closes the run: the train summary record, train_end, trainer_state.json in output_dir.
  virtual int32_t finish(ErrorSink& error) noexcept = 0;
  virtual bool complete() noexcept = 0;  // the run is closed, and no step is left
  // Saves into `directory`; empty: into output_dir for the model, and into its checkpoint-<step> for a
  // checkpoint, which then counts as one that the run itself wrote (save_total_limit, trainer_state.json).
  virtual int32_t save(std::string_view directory, SaveKind kind, ErrorSink& error) noexcept = 0;
  // These and the ones below may be called on any thread beside a call of the others, and tell of the steps
  // that are done.
  virtual int64_t global_step() noexcept = 0;
  virtual int64_t max_steps() noexcept = 0;
  virtual const TrainedModel& trained_model() noexcept = 0;
  // Gives trainer_state.json with the metrics of the last step (telemetry::PublishedState).
  virtual int32_t describe(TextSink& state, ErrorSink& error) noexcept = 0;

 protected:
  ~Trainer() = default;
};

struct EvaluatorSpec {
  const config::RunOptions* options = nullptr;
  Model* model = nullptr;          // must outlive the evaluator
  Attention* attention = nullptr;  // or null: the built-in one; may be released before the evaluator
  SpecialTokens tokens = {};       // as in TrainerSpec
};

// Measures a model as the evaluations of a run do, without a run.
class Evaluator {
 public:
  virtual void release() noexcept = 0;
  // *metrics: valid until the next call.
  virtual int32_t evaluate(BatchSource& rows, std::span<const Metric>* metrics,
                           ErrorSink& error) noexcept = 0;

 protected:
  ~Evaluator() = default;
};

}  // namespace trl::engine
