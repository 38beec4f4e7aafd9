// Options that change what memory a step takes.
#pragma once
#include <vector>

#include "support/runs.h"

namespace trl::bench {

struct Lever {
  const char* name;
  Json options;
};

inline std::vector<Lever> levers() {
  const auto again = [](Json how) {
    return Json{{"gradient_checkpointing", true}, {"gradient_checkpointing_kwargs", std::move(how)}};
  };
  const Json inside = {{"optimizer_in_backward", true}, {"max_grad_norm", 0}};
  Json all = {{"activation_offloading", true},
              {"gradient_checkpointing", true},
              {"optim", "paged_adamw_8bit"},
              {"optim_8bit_embeddings", true}};
  all.update(inside);
  return {{"activations kept", Json::object()},
          {"layers again", {{"gradient_checkpointing", true}}},
          {"selective", again({{"selective", true}})},
          {"every second layer", again({{"every_n_layers", 2}})},
          {"inputs of layers leave", again({{"offload", true}})},
          {"products kept", {{"gradient_checkpointing", true}, {"recompute", "products"}}},
          {"activations leave", {{"activation_offloading", true}}},
          {"autocast", {{"dtype", "float32"}, {"bf16", true}}},
          {"8-bit states", {{"optim", "adamw_8bit"}, {"optim_8bit_embeddings", true}}},
          {"paged states", {{"optim", "paged_adamw_32bit"}}},
          {"bf16 gradients", {{"dtype", "float32"}, {"bf16", true}, {"gradient_dtype", "bfloat16"}}},
          {"inside backward", inside},
          {"LoRA", {{"use_peft", true}, {"lora_target_modules", "all-linear"}}},
          {"all together", all}};
}

}  // namespace trl::bench
