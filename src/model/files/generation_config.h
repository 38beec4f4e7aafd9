// Makes generation_config.json for files that lack it.
#pragma once
#include "base/json/json.h"

namespace trl::model {

// Takes the entries that transformers reads from config.json
// instead, and from then on keeps in a separate file. Entries that nothing else reads are removed from
// config.json.
base::Json take_generation_config(base::Json& config);

}  // namespace trl::model
