// The forms of weights that generation computes with, by the names of the bench's option.
#pragma once
#include <stdexcept>
#include <string>

#include "generate/cache.h"

namespace trl::bench {

struct Form {
  std::string name, dtype;   // dtype: of the model
  generate::CacheKind kind;  // without integers as keys and values
};

// f32, bf16, or a bfloat16 model with copies in int8 or int4.
inline Form form_of(const std::string& name) {
  if (name == "f32") return {name, "float32", {at::kFloat}};
  Form form{name, "bfloat16", {at::kBFloat16}};
  if (name == "bf16") return form;
  form.kind.narrow = model::narrow_type(name);
  if (!form.kind.narrow) throw std::runtime_error(name + ": not a form of weights");
  return form;
}

}  // namespace trl::bench
