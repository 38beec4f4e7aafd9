// The names of a family's weights in GGUF files.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "model/model_config.h"

namespace trl::model {

struct GgufPlace {
  std::string name;     // empty: no such weight in GGUF
  int64_t expert = -1;  // the first index of a tensor that holds all experts; -1: the whole tensor
};
// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight",
// "model.layers.3.mlp.experts.5.up_proj.weight" -> "blk.3.ffn_up_exps.weight", 5.
GgufPlace gguf_place(const Family& family, std::string_view name);
// The inverse; empty: the family has no such weight.
std::string name_of_gguf(const Family& family, std::string_view name, int64_t expert);

// The first files with experts have a matrix for each of them: "blk.3.ffn_up.5.weight" is part 5 of
// "blk.3.ffn_up_exps.weight". -1 and no name: another tensor.
GgufPlace place_of_single_expert(std::string_view name);
std::string single_expert_name(const GgufPlace& place);  // the inverse

inline std::string gguf_name(const Family& family, std::string_view name) {
  return gguf_place(family, name).name;
}

}  // namespace trl::model
