#include "generate/roofline.h"

namespace trl::bench {

namespace {

double reading(const Machine& machine, const StepCost& cost) {
  return (cost.weight_bytes + cost.cache_bytes) / machine.bandwidth;
}

double computing(const Machine& machine, const StepCost& cost) {
  const double peak = cost.wide ? machine.f32 : machine.peak();
  return cost.products / (cost.codes ? machine.codes_peak() : peak) + cost.attention / peak;
}

}  // namespace

StepCost step_cost(model::Model& model, const generate::Cache& cache, int64_t sequences, double context) {
  const auto rows = static_cast<double>(sequences);
  const tensor::Parameter* const head = &model.head();
  const model::NarrowWeights* const narrow = cache.narrow();
  StepCost cost;
  for (const tensor::Parameter* parameter : model.parameters()) {
    if (parameter->embedding && parameter != head) continue;  // a few of its rows are read
    const kernels::NarrowWeight* const copy = narrow != nullptr ? narrow->of(parameter) : nullptr;
    const auto count = static_cast<double>(parameter->count());
    cost.weight_bytes += copy != nullptr ? static_cast<double>(copy->bytes())
                                         : count * static_cast<double>(c10::elementSize(parameter->dtype()));
    if (parameter->shape().size() > 1) cost.products += 2 * count * rows;
  }
  const model::ModelConfig& config = model.config();
  cost.cache_bytes = rows * context * static_cast<double>(cache.memory.block_bytes()) / kernels::kCacheRows;
  cost.attention =
      4 * rows * context *
      static_cast<double>(config.num_hidden_layers * config.num_attention_heads * config.head_dim);
  cost.codes = narrow != nullptr && narrow->type() != kernels::NarrowType::bfloat16;
  cost.wide = cache.kind.compute == at::kFloat;
  return cost;
}

double roof_seconds(const Machine& machine, const StepCost& cost) {
  return std::max(reading(machine, cost), computing(machine, cost));
}

bool is_read(const Machine& machine, const StepCost& cost) {
  return reading(machine, cost) >= computing(machine, cost);
}

}  // namespace trl::bench
