#include "train/online_roof.h"

#include <algorithm>

namespace trl::bench {

namespace {

double operations_per_second(const OnlineStep& step, const Json& machine) {
  return 1e9 * machine.at(step.wide ? "fp32_gflops" : "bf16_gflops").get<double>();
}

}  // namespace

double update_roof(const Architecture& model, const OnlineStep& step, const Json& machine) {
  const double tokens = step.prompt + step.written, mean = step.written / step.group;
  const double each = step.adapter > 0 ? 4 : 6;
  const double pairs = step.prompt * step.prompt / 2 + step.written * (step.prompt + mean / 2);
  const double operations = each * (model.blocks * tokens + model.head * step.written) +
                            6 * step.adapter * tokens + 14 * model.layers * model.attention_width * pairs;
  return operations / operations_per_second(step, machine);
}

double generation_roof(const Architecture& model, const OnlineStep& step, const Json& machine) {
  const double peak = operations_per_second(step, machine), weights = model.blocks + model.head;
  const double read = weights * (step.wide ? 4 : 2) * step.longest / (1e9 * machine.at("gb_s").get<double>());
  return 2 * model.blocks * step.prompt / peak + std::max(read, 2 * weights * step.written / peak);
}

}  // namespace trl::bench
