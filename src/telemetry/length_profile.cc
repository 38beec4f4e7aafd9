// Writes a length profile as JSON.
#include "telemetry/length_profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json.h"

namespace trl::telemetry {

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

namespace {

base::Json to_value(const LengthDistribution& of) {
  base::Json out = {{"rows", of.rows}, {"tokens", of.tokens}, {"min", of.min}};
  for (const int percent : kPercentiles) out[percentile_name(percent)] = of.percentile(percent);
  out["max"] = of.max;
  out["mean"] = of.mean;
  const LengthHistogram& bars = of.histogram;
  out["histogram"] = {
      {"start", bars.start}, {"width", bars.width}, {"counts", bars.counts}, {"above", bars.above}};
  return out;
}

base::Json to_value(const LayoutCost& cost, int64_t max_length, int64_t tokens) {
  base::Json out = base::Json::object();
  out[is_packed(cost.layout) ? "packed_rows" : "rows"] = cost.rows;
  out["batches"] = cost.batches;
  out["optimizer_steps"] = cost.steps;
  out["tokens"] = cost.tokens;
  out["padding_tokens"] = cost.padding;
  out["padding_share"] = share(cost.padding, cost.tokens + cost.padding);
  out["lost_tokens"] = cost.lost;
  out["lost_share"] = share(cost.lost, tokens);
  if (is_packed(cost.layout)) out["fill"] = share(cost.tokens, cost.rows * max_length);
  return out;
}

base::Json to_value(const LengthLimit& limit, const LengthProfile& profile) {
  base::Json out = {{"max_length", limit.max_length},
                    {"rows_cut", limit.rows_cut},
                    {"rows_cut_share", share(limit.rows_cut, profile.rows)},
                    {"rows_dropped", limit.rows_dropped},
                    {"tokens_cut", limit.tokens_cut},
                    {"tokens_cut_share", share(limit.tokens_cut, profile.tokens)}};
  if (limit.peak_bytes > 0) out["peak_bytes"] = limit.peak_bytes;
  if (limit.layouts.empty()) return out;
  base::Json& strategies = out["strategies"] = base::Json::object();
  for (const LayoutCost& cost : limit.layouts)
    strategies[std::string(layout_name(cost.layout))] = to_value(cost, limit.max_length, profile.tokens);
  return out;
}

}  // namespace

std::string percentile_name(int percent) { return percent == 50 ? "median" : fmt::format("p{}", percent); }

double LengthDistribution::percentile(int percent) const {
  const auto at = std::ranges::find(kPercentiles, percent);
  return percentiles[static_cast<size_t>(at - kPercentiles.begin())];
}

std::string_view layout_name(Layout layout) {
  switch (layout) {
    case Layout::padded:
      return "padded";
    case Layout::group_by_length:
      return "group_by_length";
    case Layout::padding_free:
      return "padding_free";
    case Layout::bfd:
      return "bfd";
    case Layout::bfd_split:
      return "bfd_split";
    case Layout::wrapped:
      return "wrapped";
  }
  return "";
}

bool is_packed(Layout layout) {
  return layout == Layout::bfd || layout == Layout::bfd_split || layout == Layout::wrapped;
}

std::string to_json(const LengthProfile& profile) {
  base::Json out = {{"dataset", profile.name},
                    {"format", profile.format},
                    {"rows", profile.rows},
                    {"tokens", profile.tokens},
                    {"per_device_train_batch_size", profile.batch_size},
                    {"gradient_accumulation_steps", profile.accumulation}};
  out["lengths"] = base::Json::object();
  for (const LengthDistribution& of : profile.lengths) out["lengths"][of.name] = to_value(of);
  out["max_lengths"] = base::Json::array();
  for (const LengthLimit& limit : profile.limits) out["max_lengths"].push_back(to_value(limit, profile));
  if (!profile.no_peaks.empty()) out["no_peaks"] = profile.no_peaks;
  return out.dump(2);
}

}  // namespace trl::telemetry
