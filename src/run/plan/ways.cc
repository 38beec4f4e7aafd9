#include "run/plan/ways.h"

#include <algorithm>

#include "base/error.h"
#include "config/training_arguments.h"

namespace trl::run {

namespace {

constexpr const char *kSwitch = "gradient_checkpointing", *kEntries = "gradient_checkpointing_kwargs";

bool is_free(const config::Config& config, const Lever& lever) {
  return std::all_of(lever.options.begin(), lever.options.end(), [&](const auto& option) {
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

std::vector<Lever> forms(const config::Config& config) {
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
  for (const Lever& form : all) {
    if (!decided && is_free(config, form) && is_accepted(Way{form, {}}.options(config))) out.push_back(form);
  }
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

std::vector<Lever> levers(const config::Config& config, const Lever& form, const RunSize& size,
                          const Allowed& allowed) {
  const bool again = std::any_of(form.options.begin(), form.options.end(),
                                 [](const auto& option) { return option.first == "recompute"; });
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
  if (allowed.parts) {
    for (Lever& lever : parts_of(size)) all.push_back(std::move(lever));
  }
  if (again && allowed.leaving) leaving("inputs of layers leave for a file", kEntries, "{offload: true}");
  if (allowed.leaving) leaving("activations leave for a file", "activation_offloading", "true");
  std::vector<Lever> out;
  for (const Lever& lever : all) {
    if (is_free(config, lever) && is_accepted(Way{form, {lever}}.options(config))) out.push_back(lever);
  }
  return out;
}

}  // namespace

std::string Way::name() const {
  std::string out = form.name;
  for (const Lever& lever : levers) out += ", " + lever.name;
  return out;
}

bool Way::leaves() const {
  return std::any_of(levers.begin(), levers.end(), [](const Lever& lever) { return lever.leaves; });
}

config::Config Way::options(const config::Config& config) const {
  config::Config out = config;
  for (const auto& [key, value] : form.options) out.set(key, value);
  for (const Lever& lever : levers) {
    for (const auto& [key, value] : lever.options) out.set(key, value);
  }
  return out;
}

config::Levers Way::settings() const {
  config::Levers out{form.tiles, !form.converts};
  for (const Lever& lever : levers) {
    out.small_tiles |= lever.tiles;
    out.weight_copies &= !lever.converts;
  }
  return out;
}

Way Ladder::rung(size_t pulled) const {
  Way way{form, {}};
  for (size_t i = 0; i < pulled; ++i) {
    if (!way.levers.empty() && are_alike(way.levers.back(), levers[i])) way.levers.pop_back();
    way.levers.push_back(levers[i]);
  }
  return way;
}

size_t Ladder::staying() const {
  return static_cast<size_t>(
      std::count_if(levers.begin(), levers.end(), [](const Lever& lever) { return !lever.leaves; }));
}

std::vector<Ladder> ladders(const config::Config& config, const RunSize& size, const Allowed& allowed) {
  std::vector<Ladder> out;
  for (const Lever& form : forms(config)) out.push_back({form, levers(config, form, size, allowed)});
  return out;
}

}  // namespace trl::run
