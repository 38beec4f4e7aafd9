// config.json and generation_config.json made from a GGUF file's metadata, as transformers would write them.
#pragma once
#include "base/json/json.h"
#include "io/gguf.h"

namespace trl::model {

base::Json gguf_config_json(const io::Gguf& file);
base::Json gguf_generation_config_json(const io::Gguf& file);

}  // namespace trl::model
