#include "model/score_head.h"

#include <ATen/CPUGeneratorImpl.h>

#include "tensor/counted.h"
#include "tensor/rehearsal.h"

namespace trl::model {

at::Tensor new_score_head(const ModelConfig& config, at::Generator& generator) {
  at::Tensor head =
      tensor::empty({config.labels, config.hidden_size}, at::kFloat, tensor::MemoryKind::workspace);
  if (tensor::Rehearsal::current() == nullptr) head.normal_(0, config.initializer_range, generator);
  return head;
}

at::Generator generator_after_opening(const ModelConfig& config, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  if (config.new_head) new_score_head(config, generator);
  return generator;
}

}  // namespace trl::model
