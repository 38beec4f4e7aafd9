// Calls of tools that a message has, and the messages that answer them.
#pragma once
#include <cstdint>

#include "base/json/json.h"

namespace trl::run {

// Returns those calls of an assistant's message that the host makes, as {name, arguments}: of tools that
// these schemas have.
base::Json known_calls(const base::Json& message, const base::Json& schemas);

struct ToolAnswers {
  base::Json messages = base::Json::array();  // of the role tool, one for each call
  int64_t failures = 0;
};

// results: of the known calls, by the host; any other call fails. Throws Error(callback) for another number
// of results.
ToolAnswers answers_of(const base::Json& message, const base::Json& schemas, const base::Json& results);

// Throws Error(callback) for what no template takes as an assistant's message.
void check_message(const base::Json& message);

}  // namespace trl::run
