// Opens the files of a model, wherever they are, without reading weights.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "io/model_source.h"
#include "model/config/model_config.h"
#include "model/weights/weights.h"

namespace trl::model {

struct ModelFiles {
  ModelConfig config;
  base::Json config_json;
  base::Json generation_config_json;
  std::vector<int32_t> end_ids;
};

struct OpenedFiles {
  ModelFiles files;
  std::string stored_dtype;  // from config.json or else the embedding's tensor: "bfloat16", "F16", "Q8_0"
  std::unique_ptr<WeightSource> weights;
};
OpenedFiles open_files(const io::ModelSource& from, Head head = Head::language);

}  // namespace trl::model
