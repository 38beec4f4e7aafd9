// trl_metrics_*: read by name or walked.
#include "capi/metrics_handle.h"

#include <algorithm>

#include "capi/guard.h"

void trl_metrics::assign(std::span<const trl::engine::Metric> metrics) {
  entries.clear();
  for (const auto& metric : metrics) entries.push_back({std::string(metric.name), metric.value});
}

void trl_metrics::add_if_missing(std::string_view name, double value) {
  const auto same = [&](const Entry& entry) { return entry.name == name; };
  if (std::ranges::none_of(entries, same)) entries.push_back({std::string(name), value});
}

using namespace trl::capi;

namespace {

template <class Entries>
auto find(const Entries& entries, std::string_view name) {
  return std::ranges::find_if(entries, [&](const auto& entry) { return entry.name == name; });
}

bool is_metrics(const trl_metrics* metrics) { return metrics != nullptr && metrics->is(Tag::metrics); }

}  // namespace

trl_status trl_metrics_get(const trl_metrics* metrics, const char* name, double* out_value) noexcept {
  return answer(TRL_E_INTERNAL, [&]() -> trl_status {
    if (out_value == nullptr) return TRL_E_INVALID_ARGUMENT;
    *out_value = 0;
    if (!is_metrics(metrics) || name == nullptr) return TRL_E_INVALID_ARGUMENT;
    const auto entry = find(metrics->entries, name);
    if (entry == metrics->entries.end()) return TRL_E_NOT_FOUND;
    *out_value = entry->value;
    return TRL_OK;
  });
}

const char* trl_metrics_text(const trl_metrics* metrics, const char* name) noexcept {
  return answer(nullptr, [&]() -> const char* {
    if (!is_metrics(metrics) || name == nullptr) return nullptr;
    const auto text = find(metrics->texts, name);
    return text == metrics->texts.end() ? nullptr : text->value.c_str();
  });
}

const char* trl_metrics_next(const trl_metrics* metrics, const char* previous) noexcept {
  return answer(nullptr, [&]() -> const char* {
    if (!is_metrics(metrics)) return nullptr;
    auto entry = metrics->entries.begin();
    if (previous != nullptr) {
      entry = find(metrics->entries, previous);
      if (entry != metrics->entries.end()) ++entry;
    }
    return entry == metrics->entries.end() ? nullptr : entry->name.c_str();
  });
}
