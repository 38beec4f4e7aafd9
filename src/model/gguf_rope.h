// Rotary embedding of a GGUF file, as in config.json.
#pragma once
#include <string>

#include "base/json.h"
#include "io/gguf.h"

namespace trl::model {

base::Json gguf_rope(const io::Gguf& file, const std::string& architecture, int64_t head_dim);

}  // namespace trl::model
