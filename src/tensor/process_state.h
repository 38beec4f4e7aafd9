// The engine's only process-wide state: one object per type, made on first use and never destroyed (threads
// of the host may still compute during exit). Construction is thread-safe; beyond that, thread safety is up
// to the type.
#pragma once

namespace trl::tensor {

template <typename State>
State& process_state() {
  static State* const state = new State();
  return *state;
}

}  // namespace trl::tensor
