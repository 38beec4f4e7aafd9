#include "generate/roofline.h"

namespace trl::bench {

namespace {

struct Parts {
  double weights = 0, cache = 0;       // seconds of reading
  double products = 0, attention = 0;  // seconds of computing
};

Parts parts(const Machine& machine, const StepCost& cost) {
  const double peak = cost.wide ? machine.f32 : machine.peak();
  return {cost.weight_bytes / machine.bandwidth, cost.cache_bytes / machine.bandwidth,
          cost.products / (cost.codes ? machine.codes_peak() : peak), cost.attention / peak};
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
  const Parts p = parts(machine, cost);
  return std::max(p.weights + p.cache, p.products + p.attention);
}

double roof_seconds_by_parts(const Machine& machine, const StepCost& cost) {
  const Parts p = parts(machine, cost);
  return std::max(p.weights, p.products) + std::max(p.cache, p.attention);
}

bool is_read(const Machine& machine, const StepCost& cost) {
  const Parts p = parts(machine, cost);
  return p.weights + p.cache >= p.products + p.attention;
}

}  // namespace trl::bench
