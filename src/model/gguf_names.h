// What GGUF files call the weights of a family.
#pragma once
#include <string>
#include <string_view>

#include "model/families.h"

namespace trl::model {

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; empty: no such name in GGUF.
std::string gguf_name(const Family& family, std::string_view name);

}  // namespace trl::model
