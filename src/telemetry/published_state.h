// The state of a run as all threads may read it, while one trains.
#pragma once
#include <cstdint>
#include <mutex>
#include <string>

#include "telemetry/trainer_state.h"

namespace trl::telemetry {

class PublishedState {
 public:
  // Takes the state over as it is now, on the thread that trains; step: the metrics of the last step. Costs
  // as much as what is new in the history. Without memory for that, part of it is taken over by the next
  // call.
  void publish(const TrainerState& state, const Record& step) noexcept;
  // Any thread: as of the last publish().
  int64_t global_step() const;
  // trainer_state.json in one line, with `metrics`, an object of the last step's; a number that is not finite
  // is null.
  std::string describe() const;

 private:
  mutable std::mutex mutex_;
  TrainerState state_;
  Record step_;
};

}  // namespace trl::telemetry
