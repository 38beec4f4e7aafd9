#include "train/means.h"

namespace trl::train {

void Means::add(const MethodMetrics& metrics) {
  for (const auto& [name, value] : metrics) {
    auto sum = std::find_if(sums_.begin(), sums_.end(), [&](const Sum& s) { return s.name == name; });
    if (sum == sums_.end()) sum = sums_.insert(sums_.end(), Sum{std::string(name)});
    sum->total += value;
    ++sum->count;
  }
}

void Means::write(telemetry::Record& record, std::string_view prefix) const {
  for (const Sum& sum : sums_) {
    record.set(std::string(prefix) + sum.name, sum.total / static_cast<double>(sum.count));
  }
}

}  // namespace trl::train
