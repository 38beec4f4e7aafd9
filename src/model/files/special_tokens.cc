#include "model/files/special_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace trl::model {

namespace {

using base::Json;
using engine::EndToken;

constexpr const char* kEos = "eos_token_id";

Json value_or_null(const Json& json, const char* name) { return json.value(name, Json()); }

bool holds(const Json& value, int32_t id) {
  return value.is_array() ? std::ranges::find(value, Json(id)) != value.end() : value == id;
}

// [id, previous ids]
Json before_others(int32_t id, const Json& value) {
  Json ids = Json::array({id});
  for (const Json& other : value.is_array() ? value : Json::array({value}))
    if (!other.is_null() && other != id) ids.push_back(other);
  return ids;
}

void align(Json& config, Json* generation, const char* name, int32_t id) {
  const Json in_config = value_or_null(config, name),
             in_generation = generation != nullptr ? value_or_null(*generation, name) : Json(id);
  if (holds(in_config, id) && holds(in_generation, id)) return;
  const bool several = std::string_view(name) == kEos;
  config[name] = several && in_config.is_array() ? before_others(id, in_config) : Json(id);
  if (generation != nullptr) (*generation)[name] = several ? before_others(id, in_generation) : Json(id);
}

// The step of SFTTrainer before Trainer aligns.
void take_end_token(Json& config, Json* generation, int32_t id, EndToken how) {
  if (how == EndToken::aligned) return;
  config[kEos] = id;
  if (generation == nullptr) return;
  if (how == EndToken::replaced)
    (*generation)[kEos] = id;
  else if (const Json now = value_or_null(*generation, kEos); !holds(now, id))
    (*generation)[kEos] = before_others(id, now);
}

}  // namespace

std::vector<std::string> align_special_tokens(Json& config, Json* generation,
                                              const engine::SpecialTokens& tokens) {
  constexpr std::array kNames = {kEos, "bos_token_id", "pad_token_id"};
  const std::array ids = {tokens.eos, tokens.bos, tokens.pad};
  const auto of_generation = [&] { return generation != nullptr ? *generation : Json::object(); };
  const Json before[] = {config, of_generation()};
  if (tokens.eos >= 0) take_end_token(config, generation, tokens.eos, tokens.end);
  for (size_t i = 0; i < kNames.size(); ++i)
    if (ids[i] >= 0) align(config, generation, kNames[i], ids[i]);
  const Json after = of_generation();
  std::vector<std::string> changes;
  for (const char* name : kNames) {
    const Json was_config = value_or_null(before[0], name), was = value_or_null(before[1], name);
    const Json is_config = value_or_null(config, name), is = value_or_null(after, name);
    if (was_config != is_config)
      changes.push_back(fmt::format("{} of config.json {} -> {}", name, was_config.dump(), is_config.dump()));
    if (was != is)
      changes.push_back(fmt::format("{} of generation_config.json {} -> {}", name, was.dump(), is.dump()));
  }
  return changes;
}

}  // namespace trl::model
