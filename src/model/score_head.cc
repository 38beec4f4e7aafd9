#include "model/score_head.h"

#include "model/normal_draws.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::model {

at::Tensor new_score_head(const ModelConfig& config, at::ScalarType type, at::Generator& generator) {
  const at::Tensor head =
      tensor::empty({config.labels, config.hidden_size}, at::kFloat, tensor::MemoryKind::workspace);
  if (tensor::Rehearsal::current() == nullptr) draw_normal(head, type, config.initializer_range, generator);
  return head;
}

}  // namespace trl::model
