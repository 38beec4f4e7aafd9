// A tokenizer.json as a class of transformers rebuilds it: its vocabulary and merges with the class's steps.
#pragma once
#include <string>

#include "text/tokenizer/class_row.h"
#include "text/tokenizer/settings.h"

namespace trl::text {

// tokenizer: without vocabulary and merges. Returns, as one sentence, what in the file differed and is
// no longer used; empty: class and file agree.
std::string rebuild(base::Json& tokenizer, const ClassRow& row, const Settings& settings);

}  // namespace trl::text
