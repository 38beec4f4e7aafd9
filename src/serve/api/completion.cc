#include "serve/api/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace trl::serve {

namespace {

double number_of(const base::Json& value) { return value.is_number() ? value.get<double>() : NAN; }

// The library's reasons by the names that clients know.
std::string finish_of(const base::Json& reason) {
  if (!reason.is_string()) return {};
  const std::string name = reason.get<std::string>();
  if (name == "stop_string") return "stop";
  return name == "cancelled" ? "abort" : name;
}

std::vector<std::vector<RankedId>> prompt_of(const base::Json& from) {
  std::vector<std::vector<RankedId>> places;
  const auto found = from.find("prompt_logprobs");
  if (found == from.end()) return places;
  for (const base::Json& place : *found) {
    std::vector<RankedId>& ids = places.emplace_back();
    if (!place.is_array()) continue;
    for (const base::Json& one : place)
      ids.push_back({one.at(0).get<int32_t>(), number_of(one.at(1)), one.at(2).get<int64_t>()});
  }
  return places;
}

}  // namespace

Completion read_completion(const std::string& json, bool whole) {
  const base::Json from = base::parse_json(json, "completion");
  Completion out{.text = from.value("text", ""),
                 .ids = from.value("token_ids", std::vector<int32_t>()),
                 .finish = finish_of(from.value("finish_reason", base::Json())),
                 .stop_reason = from.value("stop_reason", base::Json()),
                 .error = from.value("error", ""),
                 .weights = from.value("weights", base::Json()),
                 .logprobs = {},
                 .cached_tokens = from.value("cached_tokens", int64_t{0}),
                 .prompt = prompt_of(from)};
  if (!out.error.empty()) out.stop_reason = out.error;
  const char* const of = whole ? "logprobs" : "sampling_logprobs";
  const char* const best = whole ? "top_logprobs" : "sampling_top_logprobs";
  const auto values = from.find(of), tops = from.find(best);
  if (values == from.end()) return out;
  for (size_t i = 0; i < values->size() && i < out.ids.size(); ++i) {
    TokenLogprob& token = out.logprobs.emplace_back();
    token.id = out.ids[i];
    token.value = number_of((*values)[i]);
    if (tops == from.end() || i >= tops->size()) continue;
    for (const base::Json& pair : (*tops)[i])
      if (pair.is_array() && pair.size() == 2)
        token.best.emplace_back(pair[0].get<int32_t>(), number_of(pair[1]));
  }
  return out;
}

std::vector<std::pair<int32_t, double>> ranked(const TokenLogprob& token) {
  std::vector<std::pair<int32_t, double>> all = token.best;
  const bool has = std::ranges::any_of(all, [&](const auto& pair) { return pair.first == token.id; });
  if (!has) all.emplace_back(token.id, token.value);
  return all;
}

base::Json number_or_null(double value) { return std::isfinite(value) ? base::Json(value) : base::Json(); }

std::string random_id(std::string_view prefix) {
  std::random_device device;
  return fmt::format("{}{:08x}{:08x}{:08x}{:08x}", prefix, device(), device(), device(), device());
}

}  // namespace trl::serve
