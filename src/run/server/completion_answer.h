// Reads the completions that a server has written.
#pragma once
#include <vector>

#include "base/json/json.h"
#include "engine/rollout.h"
#include "run/server/completion_request.h"

namespace trl::run {

// Returns a completion for each row of the request. Throws Error(format) that says what the answer lacks.
std::vector<engine::Completion> read_completions(const base::Json& answer, const CompletionRequest& request);

}  // namespace trl::run
