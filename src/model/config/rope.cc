#include "model/config/rope.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text/nearest.h"
#include "model/config/config_keys.h"
#include "model/config/families.h"

namespace trl::model {

namespace {

using base::Json;

constexpr std::array<std::string_view, 7> kTypes = {"default",  "linear", "dynamic",     "yarn",
                                                    "longrope", "llama3", "proportional"};

const Json* find_object(const ConfigKeys& keys, const char* key) {
  const Json* given = keys.find(key);
  if (given != nullptr && !given->is_object())
    fail(Status::format, "{}: rope parameters are not an object", keys.origin());
  return given;
}

// New style: "rope_parameters" holds all, by kind of layer if the kinds differ. Old style: "rope_theta" next
// to "rope_scaling", which may be null and may call the type "type".
Json given_for(const ConfigKeys& keys, const char* kind) {
  const Json* scaling = find_object(keys, "rope_scaling");
  const Json* parameters = find_object(keys, "rope_parameters");
  const bool full = std::string_view(kind) == "full_attention";
  if (parameters != nullptr && (parameters->contains("full_attention") || parameters->contains(kind))) {
    const Json* mine = find_object(ConfigKeys(*parameters, keys.origin()), kind);
    Json given = mine != nullptr ? *mine : Json::object();
    if (full && scaling != nullptr) given.update(*scaling);
    return given;
  }
  if (!full) return Json::object();
  if (scaling != nullptr) return *scaling;
  return parameters != nullptr ? *parameters : Json::object();
}

// In families that turn a part, the other types make angles only for that part.
double parse_proportion(const ConfigKeys& inner, const NumberKey& rule) {
  if (rule.key != nullptr) {
    fail(Status::unsupported, "{}: rope type \"proportional\" is not supported beside \"{}\"", inner.origin(),
         rule.key);
  }
  const double share = inner.positive_or("partial_rotary_factor", 1.0);
  if (share > 1)
    fail(Status::format, "{}: \"partial_rotary_factor\" is {}; expected at most 1", inner.origin(), share);
  return share;
}

double parse_partial(const ConfigKeys& inner, const ConfigKeys& keys, const NumberKey& rule) {
  constexpr const char* kKey = "partial_rotary_factor";
  for (const ConfigKeys& place : {inner, keys}) {
    const char* key = place.find(kKey) == nullptr && rule.key != nullptr ? rule.key : kKey;
    const double share = place.positive_or(key, 1.0);
    if (share > 1 || (share < 1 && rule.key == nullptr)) {
      fail(Status::unsupported, "{}: \"{}\" is {}; only {} is supported", keys.origin(), key, share,
           rule.key == nullptr ? "1" : "up to 1");
    }
    if (place.find(key) != nullptr) return share;
  }
  return rule.key == nullptr ? 1.0 : rule.otherwise;
}

void parse_llama3(const ConfigKeys& inner, RopeConfig& rope) {
  rope.low_freq_factor = inner.positive("low_freq_factor");
  rope.high_freq_factor = inner.positive("high_freq_factor");
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    fail(Status::format, "{}: \"high_freq_factor\" is {}; expected more than \"low_freq_factor\" ({})",
         inner.origin(), rope.high_freq_factor, rope.low_freq_factor);
  }
}

void parse_yarn(const ConfigKeys& inner, RopeConfig& rope) {
  rope.beta_fast = inner.positive_or("beta_fast", 32);
  rope.beta_slow = inner.positive_or("beta_slow", 1);
  rope.mscale = inner.find("mscale") != nullptr ? inner.number("mscale") : 0;
  rope.mscale_all_dim = inner.find("mscale_all_dim") != nullptr ? inner.number("mscale_all_dim") : 0;
  rope.truncate = inner.flag_or("truncate", true);
}

void parse_longrope(const ConfigKeys& inner, int64_t turned, RopeConfig& rope) {
  rope.short_factor = inner.positives("short_factor", turned / 2);
  rope.long_factor = inner.positives("long_factor", turned / 2);
  if (inner.find("factor") == nullptr) {
    rope.factor = static_cast<double>(rope.max_position_embeddings) /
                  static_cast<double>(rope.original_max_position_embeddings);
  }
}

std::string parse_type(const ConfigKeys& inner, const Rope& rule) {
  std::string type = inner.text_or("rope_type", inner.text_or("type", "default").c_str());
  if (rule.old_longrope_names && (type == "su" || type == "yarn")) type = "longrope";
  if (std::ranges::find(kTypes, type) == kTypes.end()) {
    fail(Status::unsupported, "{}: rope type \"{}\" is not supported; these are: {}", inner.origin(), type,
         base::join(kTypes));
  }
  return type;
}

RopeConfig parse(const ConfigKeys& inner, const ConfigKeys& keys, const Family& family,
                 const NumberKey& theta, int64_t max_positions, int64_t head_dim) {
  RopeConfig rope{.layout = family.rope.layout};
  rope.theta = inner.find("rope_theta") != nullptr ? inner.positive("rope_theta")
                                                   : keys.positive_or(theta.key, theta.otherwise);
  rope.type = parse_type(inner, family.rope);
  const bool proportional = rope.type == "proportional";
  rope.partial = proportional ? parse_proportion(inner, family.rope.partial)
                              : parse_partial(inner, keys, family.rope.partial);
  const auto turned = static_cast<int64_t>(static_cast<double>(head_dim) * rope.partial);
  if (!proportional && (turned < 2 || turned % 2 != 0)) {
    fail(Status::format, "{}: {} of the {} elements of a head would be turned; expected an even number",
         keys.origin(), turned, head_dim);
  }
  rope.max_position_embeddings = max_positions;
  if (rope.type == "default") return rope;
  constexpr const char* kOriginal = "original_max_position_embeddings";
  const int64_t otherwise = family.rope.original_positions > 0
                                ? family.rope.original_positions
                                : inner.size_or(kOriginal, max_positions, INT32_MAX);
  rope.original_max_position_embeddings = keys.size_or(kOriginal, otherwise, INT32_MAX);
  if (inner.find("attention_factor") != nullptr) rope.attention_factor = inner.number("attention_factor");
  rope.factor =
      proportional || rope.type == "longrope" ? inner.positive_or("factor", 1.0) : inner.positive("factor");
  if (rope.type == "llama3") parse_llama3(inner, rope);
  if (rope.type == "yarn") parse_yarn(inner, rope);
  if (rope.type == "longrope") parse_longrope(inner, turned, rope);
  return rope;
}

}  // namespace

RopeConfig parse_rope(const ConfigKeys& keys, const Family& family, int64_t max_positions, int64_t head_dim) {
  if (!family.rope.used) return {.type = "none"};
  const Json given = given_for(keys, "full_attention");
  return parse(ConfigKeys(given, keys.origin()), keys, family, family.rope.theta, max_positions, head_dim);
}

std::optional<RopeConfig> parse_sliding_rope(const ConfigKeys& keys, const Family& family,
                                             int64_t max_positions, int64_t head_dim) {
  if (family.rope.sliding_theta.key == nullptr) return std::nullopt;
  const Json given = given_for(keys, "sliding_attention");
  return parse(ConfigKeys(given, keys.origin()), keys, family, family.rope.sliding_theta, max_positions,
               head_dim);
}

int64_t RopeConfig::stretched_positions() const {
  const bool stretches = type == "linear" || type == "dynamic";
  const double from = static_cast<double>(type == "yarn" ? original_max_position_embeddings
                                          : stretches    ? max_position_embeddings
                                                         : 0);
  const double reach = std::min(from * factor, static_cast<double>(INT32_MAX));
  return std::max(max_position_embeddings, static_cast<int64_t>(reach));
}

}  // namespace trl::model
