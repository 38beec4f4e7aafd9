// Requests that are answered while a trainer trains: on a model of the same frozen weights, with copies of
// the adapter as it was after single steps.
#pragma once
#include "engine/generator.h"
#include "engine/model.h"
#include "engine/trainer.h"

namespace trl::engine {

// The weights that the tokens of a completion come from. version: the step of the trained adapter; -1: it is
// another one, or none.
struct UsedWeights {
  std::string_view adapter = {};            // valid while the model lives; empty: none
  int64_t version = -1, last_version = -1;  // of the first token and of the last
};

class Beside {
 public:
  // Valid while the trainer lives. Its calls, and those of its generators, are made on one thread at a time,
  // which may be another one than the trainer's. It has no adapter of the trainer's model by name but the one
  // that is trained, and lists no tensors of the trainer's.
  virtual Model& model() noexcept = 0;
  // generator: of that model. The same thread rule; also in a GenerationSink.
  virtual UsedWeights weights_of(Generator& generator, int64_t sequence) noexcept = 0;

 protected:
  ~Beside() = default;
};

// A trainer of Engine::create_trainer(), whose model may be used while it trains.
class ServingTrainer : public Trainer {
 public:
  virtual Beside* beside() noexcept = 0;  // null: the run has no serve_share

 protected:
  ~ServingTrainer() = default;
};

}  // namespace trl::engine
