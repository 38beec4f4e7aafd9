#include "train/step_profile.h"

namespace trl::train {

namespace {

constexpr std::pair<std::string_view, tensor::Part> kNames[tensor::kParts] = {
    {"profile/gemm", tensor::Part::gemm},
    {"profile/attention", tensor::Part::attention},
    {"profile/elementwise", tensor::Part::elementwise},
    {"profile/head", tensor::Part::head},
    {"profile/optimizer", tensor::Part::optimizer}};

}  // namespace

MethodMetrics StepProfile::metrics(std::span<const MicroBatch> window) const {
  if (!on_) return {};
  MethodMetrics metrics;
  double other = std::chrono::duration<double>(Clock::now() - begin_).count();
  for (const auto& [name, part] : kNames) {
    metrics.emplace_back(name, times_.seconds(part));
    other -= times_.seconds(part);
  }
  metrics.emplace_back("profile/other", other);
  double loss_tokens = 0, tokens = 0, pairs = 0;
  for (const MicroBatch& batch : window) {
    loss_tokens += static_cast<double>(batch.targets.size());
    for (const int32_t count : batch.sequence_tokens) {
      const auto length = static_cast<double>(count);
      tokens += length;
      pairs += length * length;
    }
  }
  metrics.emplace_back("profile/loss_tokens", loss_tokens);
  metrics.emplace_back("profile/document_length", tokens > 0 ? pairs / tokens : 0);
  return metrics;
}

}  // namespace trl::train
