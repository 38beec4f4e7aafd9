#include "train/records/step_profile.h"

namespace trl::train {

namespace {

constexpr std::pair<std::string_view, tensor::Part> kNames[tensor::kParts] = {
    {"profile/gemm", tensor::Part::gemm},
    {"profile/attention", tensor::Part::attention},
    {"profile/elementwise", tensor::Part::elementwise},
    {"profile/head", tensor::Part::head},
    {"profile/optimizer", tensor::Part::optimizer},
    {"profile/generate", tensor::Part::generate},
    {"profile/reward", tensor::Part::reward},
    {"profile/old", tensor::Part::old},
    {"profile/reference", tensor::Part::reference}};

}  // namespace

MethodMetrics StepProfile::metrics(std::span<const MicroBatch> window, bool generates,
                                   std::optional<double> synced) const {
  if (!on_) return {};
  MethodMetrics metrics;
  double update = seconds(), other = update;
  for (const auto& [name, part] : kNames) {
    const bool before = part >= tensor::Part::generate;
    if (!before || generates) metrics.emplace_back(name, times_.seconds(part));
    if (before) update -= times_.seconds(part);
    other -= times_.seconds(part);
  }
  if (synced) {
    metrics.emplace_back("profile/sync", *synced);
    update -= *synced;
    other -= *synced;
  }
  if (generates) metrics.emplace_back("profile/update", update);
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
