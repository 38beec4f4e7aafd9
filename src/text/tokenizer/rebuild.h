// Rebuilds a tokenizer.json as a class of transformers does: its vocabulary and merges with the class's
// steps.
#pragma once
#include <string>

#include "text/tokenizer/class_row.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/settings.h"

namespace trl::text {

// json: content of the file at path. Returns, as one sentence, the differences in the file that are no longer
// used; empty: class and file agree. Throws Error(unsupported) if the class has another type of model.
std::string rebuild(TokenizerJson& json, const ClassRow& row, const Settings& settings,
                    const std::string& path);

// Returns a step without the parts that have no effect: defaults, lists of one, how offsets are trimmed. Two
// steps with equal results behave the same.
nlohmann::json bare_step(const base::Json& step);

}  // namespace trl::text
