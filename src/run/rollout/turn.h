// Completions that grow by turns.
#pragma once
#include "engine/rollout.h"

namespace trl::run {

// Appends a turn of the model, or tokens that it did not write. Log-probabilities that one of both lacks are
// not known.
void add_turn(engine::Completion& completion, const engine::Completion& turn);
// Returns an answer as a turn: tokens that the model did not write.
engine::Completion answer_turn(const std::vector<int32_t>& ids);
void cut(engine::Completion& completion, size_t most);

}  // namespace trl::run
