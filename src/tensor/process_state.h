// The one place where the engine keeps process-wide state: one object per type, made by the first use and
// never destroyed (threads of the host may still compute while it exits). Thread-safe construction; the rest
// is the type's.
#pragma once

namespace trl::tensor {

template <typename State>
State& process_state() {
  static State* const state = new State();
  return *state;
}

}  // namespace trl::tensor
