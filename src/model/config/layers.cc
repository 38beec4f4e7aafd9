// Reads which layers have a window, rotary embedding, and experts.
#include <algorithm>

#include "base/error.h"
#include "model/config/family_keys.h"
#include "model/config/parts.h"

namespace trl::model {

namespace {

using base::Json;

// The size of the window: the family's if the key is missing, none if it is null.
int64_t window_size(const ConfigKeys& keys, const Window& window) {
  if (!keys.has("sliding_window")) return window.size;
  return keys.size_or("sliding_window", 0, INT32_MAX);
}

// The list of layer types; null: none. Checked even if nothing slides: a list that does not fit was written
// for another model.
const Json* find_layer_types(const ConfigKeys& keys, int64_t layers) {
  const Json* types = keys.find("layer_types");
  if (types == nullptr) return nullptr;
  if (!types->is_array() || types->size() != static_cast<size_t>(layers))
    fail(Status::format, "{}: \"layer_types\" is not a list of {} entries", keys.origin(), layers);
  for (size_t i = 0; i < types->size(); ++i) {
    const Json& type = (*types)[i];
    if (type == "full_attention" || type == "sliding_attention") continue;
    fail(Status::unsupported,
         "{}: \"layer_types\"[{}] is {}; full_attention and sliding_attention are supported", keys.origin(),
         i, type.dump());
  }
  return types;
}

// Whether a layer slides if layer_types does not tell.
bool slides(const ConfigKeys& keys, const Window& window, const ModelConfig& config, int64_t layer) {
  if (window.rule == WindowRule::every_layer) return true;
  if (window.rule == WindowRule::unturned_layers) return !config.turned_layers[static_cast<size_t>(layer)];
  if (window.rule == WindowRule::late_layers) {
    const bool zero = keys.find("max_window_layers") != nullptr && keys.number("max_window_layers") == 0;
    return layer >= (zero ? 0 : keys.size_or("max_window_layers", 28));
  }
  if (window.rule == WindowRule::early_layers)
    return layer % 2 == 0 && layer < keys.size_or("max_window_layers", 28);
  const int64_t n =
      window.pattern_key == nullptr ? window.pattern : keys.size_or(window.pattern_key, window.pattern);
  return window.rule == WindowRule::pattern && (layer + 1) % n != 0;
}

bool has_experts(const ConfigKeys& keys, int64_t every, int64_t layer) {
  const Json* dense = keys.find("mlp_only_layers");
  const bool listed = dense != nullptr && std::ranges::find(*dense, Json(layer)) != dense->end();
  return !listed && (layer + 1) % every == 0;
}

}  // namespace

// "no_rope_layers" has 1 for a layer that is turned.
void parse_turned_layers(const ConfigKeys& keys, const Rope& rope, ModelConfig& config) {
  config.turned_layers.assign(static_cast<size_t>(config.num_hidden_layers), rope.used);
  if (rope.unturned_every.key == nullptr) return;
  const Json* list = keys.find("no_rope_layers");
  if (list != nullptr && (!list->is_array() || list->size() != config.turned_layers.size())) {
    fail(Status::format, "{}: \"no_rope_layers\" is not a list of {} entries", keys.origin(),
         config.num_hidden_layers);
  }
  const int64_t every = keys.size_or(rope.unturned_every.key, rope.unturned_every.otherwise);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    config.turned_layers[at] = list != nullptr ? (*list)[at] != 0 : (i + 1) % every != 0;
  }
}

void parse_windows(const ConfigKeys& keys, const Window& window, ModelConfig& config) {
  config.sliding_layers.assign(static_cast<size_t>(config.num_hidden_layers), false);
  const Json* types = find_layer_types(keys, config.num_hidden_layers);
  if (window.rule == WindowRule::none || !flag_of(keys, window.on)) return;
  config.sliding_window = window_size(keys, window);
  if (config.sliding_window == 0) return;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const auto at = static_cast<size_t>(i);
    const bool listed = types != nullptr && window.rule != WindowRule::every_layer;
    config.sliding_layers[at] =
        listed ? (*types)[at] == "sliding_attention" : slides(keys, window, config, i);
  }
}

void parse_experts(const ConfigKeys& keys, const Family& family, ModelConfig& config) {
  config.expert_layers.assign(static_cast<size_t>(config.num_hidden_layers), false);
  if (family.names.router.empty()) return;
  const Experts& rule = family.experts;
  ExpertsConfig& experts = config.experts;
  experts.count = keys.size(keys.find("num_local_experts") != nullptr ? "num_local_experts" : rule.count.key);
  experts.chosen = keys.size(rule.chosen.key, experts.count);
  experts.width = size_of(keys, rule.width);
  if (!family.names.shared_router.empty()) experts.shared_width = size_of(keys, rule.shared_width);
  experts.normalised = flag_of(keys, rule.normalised);
  experts.balance =
      keys.find(rule.balance.key) != nullptr ? keys.number(rule.balance.key) : rule.balance.otherwise;
  experts.jitter = rate_of(keys, rule.jitter);
  const int64_t every = size_of(keys, rule.every);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    config.expert_layers[static_cast<size_t>(i)] = has_experts(keys, every, i);
}

}  // namespace trl::model
