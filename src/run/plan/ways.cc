#include "run/plan/plan.h"

#include <algorithm>

#include "base/error.h"

namespace trl::run {

namespace {

constexpr const char *kSwitch = "gradient_checkpointing", *kEntries = "gradient_checkpointing_kwargs";

bool is_free(const config::Config& config, const Lever& lever) {
  return std::ranges::all_of(lever.options, [&](const auto& option) {
    return !config.is_set(option.first) || config.get(option.first) == option.second;
  });
}

// Checks for contradictions that only the whole configuration shows.
bool is_accepted(const config::Config& config) {
  try {
    config::training_arguments(config);
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Returns the levers of which each way has one, as its first.
std::vector<Lever> first_levers(const config::Config& config) {
  const auto again = [](const char* name, const char* part) {
    return Lever{name, {{kSwitch, "true"}, {"recompute", part}}};
  };
  const std::vector<Lever> all = {
      {"everything is kept for backward", {{kSwitch, "false"}}},
      {"feed-forward parts are computed again", {{kSwitch, "false"}}, /*converts=*/false, /*tiles=*/true},
      again("norms, rotary embeddings and gates are computed again", "products"),
      again("all but attention is computed again", "selective"),
      again("whole layers are computed again", "layers")};
  std::vector<Lever> out;
  // The newer name, or entries, already decide what is recomputed.
  const bool decided = config.is_set("activation_checkpointing") || config.is_set(kEntries) ||
                       config.is_set("activation_checkpointing_kwargs");
  for (const Lever& lever : all)
    if (!decided && is_free(config, lever) && is_accepted(Way{{lever}}.options(config))) out.push_back(lever);
  if (out.empty()) out.push_back({"activations are kept or computed again as configured"});
  return out;
}

// Says whether two levers are alternatives: a way has exactly one of them.
bool are_alike(const Lever& a, const Lever& b) {
  if (a.leaves || b.leaves) return a.leaves && b.leaves;
  return !a.options.empty() && !b.options.empty() && a.options.front().first == b.options.front().first;
}

// Splits a micro-batch into 2, 4, ... parts, up to one for each row; each lever replaces the previous one.
std::vector<Lever> parts_of(const RunSize& size) {
  std::vector<Lever> out;
  for (int64_t parts = 2, before = size.rows; before > 1; parts *= 2) {
    const int64_t rows = (size.rows + parts - 1) / parts;
    before = rows;
    out.push_back({fmt::format("a micro-batch is split into {} parts", (size.rows + rows - 1) / rows),
                   {{std::string(kParts), std::to_string(rows * size.longest)}}});
  }
  return out;
}

Way with_levers(const Lever& first, const config::Config& config, const RunSize& size,
                const Allowed& allowed) {
  const bool again =
      std::ranges::any_of(first.options, [](const auto& option) { return option.first == "recompute"; });
  std::vector<Lever> all = {{"weights are converted at each use"}};
  all.back().converts = true;
  const auto leaving = [&](const char* name, const char* key, const char* value) {
    all.push_back({name, {{key, value}}});
    all.back().leaves = true;
  };
  if (again) {
    all.push_back({"feed-forward parts go by small tiles"});
    all.back().tiles = true;
  }
  if (allowed.parts)
    for (Lever& lever : parts_of(size)) all.push_back(std::move(lever));
  if (again && allowed.leaving) leaving("inputs of layers leave for a file", kEntries, "{offload: true}");
  if (allowed.leaving) leaving("activations leave for a file", "activation_offloading", "true");
  Way way{{first}};
  for (const Lever& lever : all)
    if (is_free(config, lever) && is_accepted(Way{{first, lever}}.options(config)))
      way.levers.push_back(lever);
  return way;
}

}  // namespace

std::string Way::name() const {
  std::string out;
  for (const Lever& lever : levers) out += (out.empty() ? "" : ", ") + lever.name;
  return out;
}

config::Config Way::options(const config::Config& config) const {
  config::Config out = config;
  for (const Lever& lever : levers)
    for (const auto& [key, value] : lever.options) out.set(key, value);
  return out;
}

config::Levers Way::settings() const {
  config::Levers out;
  for (const Lever& lever : levers) {
    out.small_tiles |= lever.tiles;
    out.weight_copies &= !lever.converts;
  }
  return out;
}

size_t Way::staying() const {
  return static_cast<size_t>(std::ranges::count_if(levers, [](const Lever& lever) { return !lever.leaves; }));
}

Way Way::first(size_t count) const {
  Way way{{levers.front()}};
  for (size_t i = 1; i < count; ++i) {
    if (are_alike(way.levers.back(), levers[i])) way.levers.pop_back();
    way.levers.push_back(levers[i]);
  }
  return way;
}

std::vector<Way> ways(const config::Config& config, const RunSize& size, const Allowed& allowed) {
  std::vector<Way> out;
  for (const Lever& first : first_levers(config)) out.push_back(with_levers(first, config, size, allowed));
  return out;
}

}  // namespace trl::run
