#include "online/roof.h"

#include <algorithm>

namespace trl::bench {

namespace {

double operations_per_second(const OnlineStep& step, const Json& machine) {
  return 1e9 * machine.at(step.wide ? "fp32_gflops" : "bf16_gflops").get<double>();
}

// Counts the pairs of tokens that attention relates.
double pairs_of(const OnlineStep& step) {
  const double mean = step.written / step.group;
  return step.prompt * step.prompt / 2 + step.written * (step.prompt + mean / 2);
}

}  // namespace

double update_roof(const Architecture& model, const OnlineStep& step, const Json& machine) {
  const double tokens = step.prompt + step.written, each = step.adapter > 0 ? 4 : 6;
  const double operations = each * (model.blocks * tokens + model.head * step.written) +
                            6 * step.adapter * tokens +
                            14 * model.layers * model.attention_width * pairs_of(step);
  return operations / operations_per_second(step, machine);
}

double reference_roof(const Architecture& model, const OnlineStep& step, const Json& machine) {
  if (!step.reference) return 0;
  const double operations = 2 * (model.blocks * (step.prompt + step.written) + model.head * step.written) +
                            4 * model.layers * model.attention_width * pairs_of(step);
  return operations / operations_per_second(step, machine);
}

double generation_roof(const Architecture& model, const OnlineStep& step, const Json& machine) {
  const double peak = operations_per_second(step, machine), weights = model.blocks + model.head;
  const double read = weights * (step.wide ? 4 : 2) * step.longest / (1e9 * machine.at("gb_s").get<double>());
  return 2 * model.blocks * step.prompt / peak + std::max(read, 2 * weights * step.written / peak);
}

}  // namespace trl::bench
