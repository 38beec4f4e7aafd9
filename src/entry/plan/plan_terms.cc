#include "entry/plan/plan_terms.h"

#include <string_view>

#include "entry/plan/generation_plan.h"
#include "tensor/memory/libtorch_memory.h"

namespace trl::entry {

using base::MemoryKind;

std::string plan_term(const tensor::Taken& taken) {
  if (std::string name = generation_term(taken); !name.empty()) return name;
  const bool opening = taken.stage == "open", forward = taken.stage == "forward",
             loss = taken.stage == "loss", adapters = taken.stage == "adapters",
             mapped = taken.stage == tensor::kMappedPages;
  switch (taken.kind) {
    case MemoryKind::weights:
      if (mapped) return "weights, as pages of the model's file";
      if (adapters) return "adapters";
      return opening ? "weights" : "weights in the type that is computed in";
    case MemoryKind::gradients:
      return "gradients";
    case MemoryKind::optimizer:
      return mapped ? "optimizer state, as pages of its file" : "optimizer state";
    case MemoryKind::data:
      return "batches";
    case MemoryKind::activations:
      if (forward) return "activations kept for backward";
      break;
    case MemoryKind::workspace:
      if (mapped) return "buffers of OpenBLAS";
      if (forward) return "workspace of forward";
      break;
  }
  if (taken.stage == tensor::kLibtorchMemory) return "decomposition of weights";
  if (taken.stage == "evaluation") return "evaluation";
  if (taken.stage == "reference") return "forward of the reference";
  return loss                         ? "loss workspace"
         : opening || adapters        ? "reading of weights"
         : taken.stage == "optimizer" ? "update"
                                      : "backward";
}

}  // namespace trl::entry
