// The interface between libtrl.so and libtrl_engine.so: abstract classes, plain (pointer, count) structs, and
// the options of a run, which both read with the same code, since they are built together. Every call is
// noexcept and answers with a trl::Status as int32_t; a negative one comes with a message through ErrorSink.
// Each side destroys its own objects (release()). Views are valid during the call unless said otherwise.
#pragma once
#include <cstdint>
#include <string_view>

#include "engine/batch_source.h"
#include "engine/generator.h"
#include "engine/host.h"
#include "engine/model.h"
#include "engine/plan.h"
#include "engine/rollout.h"
#include "engine/sampling.h"
#include "engine/trainer.h"

namespace trl::engine {

inline constexpr uint32_t kInterfaceVersion = 29;  // both libraries must agree; they are built together

class Engine {
 public:
  virtual std::string_view info_json() noexcept = 0;  // versions of libtorch, oneDNN; kernels in use
  virtual int32_t set_threads(int32_t threads, ErrorSink& error) noexcept = 0;
  // Ends the threads that kernels started for calls on this thread; a later call starts them again.
  virtual int32_t end_threads(ErrorSink& error) noexcept = 0;
  // Refuses, before anything is read, a run that this build or machine cannot do, and a run with an invalid
  // output directory or checkpoint to resume from; config as in TrainerSpec.
  virtual int32_t check_run(const config::RunOptions& options, ErrorSink& error) noexcept = 0;
  // Returns Error(io) if the disks have no room for the files that the run will write: its checkpoints, as
  // far as the spec's batches_per_epoch tell how many, and a file of states. Reads headers of the model, and
  // no weights. create_trainer() checks the rest.
  virtual int32_t check_disks(const PlanSpec& spec, ErrorSink& error) noexcept = 0;
  virtual int32_t open_model(const ModelSpec& spec, Model** out, ErrorSink& error) noexcept = 0;
  // Converts the files of a model, or of an adapter, to another format or type.
  virtual int32_t convert(const ConvertSpec& spec, ErrorSink& error) noexcept = 0;
  virtual int32_t open_attention(const AttentionSpec& spec, Attention** out, ErrorSink& error) noexcept = 0;
  virtual int32_t create_trainer(const TrainerSpec& spec, Trainer** out, ErrorSink& error) noexcept = 0;
  virtual int32_t create_evaluator(const EvaluatorSpec& spec, Evaluator** out, ErrorSink& error) noexcept = 0;
  // counted: the peak of the memory counter for an evaluator with its model and one batch, whose rows have
  // the spec's lengths. No weights are read.
  virtual int32_t plan_evaluation(const PlanSpec& spec, int64_t* counted, ErrorSink& error) noexcept = 0;
  // Predicts the run with its samples, and what was asked of generation; room, model, way and rows stay
  // empty. Reads headers of the model, and no weights. With batches_per_epoch the plan's refusal by the disks
  // is that of check_disks().
  virtual int32_t plan(const PlanSpec& spec, PlanSink& plan, ErrorSink& error) noexcept = 0;

 protected:
  ~Engine() = default;
};

// The one exported function of libtrl_engine.so. shared_torch: the host had mapped the engine's own libtorch
// before, so no process-wide setting of libtorch may be changed.
extern "C" using EngineOpen =
    int32_t(*)(uint32_t interface_version, Host* host, int32_t shared_torch, Engine** out, ErrorSink* error);
inline constexpr const char* kEngineOpenName = "trl_engine_open";

}  // namespace trl::engine
