// Finds options that were given and have no effect on the run, which TRL and PEFT accept in silence.
#include <algorithm>

#include "base/error.h"
#include "config/preference_arguments.h"
#include "config/training_arguments.h"

namespace trl::config {

namespace {

// A key, and the option without which it has no effect.
struct Needs {
  std::string_view key;
  bool met;
  std::string_view what;
};

bool uses(const PreferenceArguments& arguments, std::initializer_list<std::string_view> losses) {
  return std::any_of(arguments.losses.begin(), arguments.losses.end(), [&](const auto& loss) {
    return std::find(losses.begin(), losses.end(), loss.first) != losses.end();
  });
}

void add_preferences(const Config& config, std::vector<std::string>& lines) {
  const PreferenceArguments a = preference_arguments(config);
  const Needs all[] = {
      {"label_smoothing", a.label_smoothing == 0 || uses(a, {"exo_pair", "robust", "aot", "aot_unpaired"}),
       "loss_type exo_pair, robust, aot or aot_unpaired"},
      {"discopop_tau", uses(a, {"discopop"}), "loss_type discopop"},
      {"f_alpha_divergence_coef", a.f_divergence_type == "alpha_divergence",
       "f_divergence_type alpha_divergence"},
      {"ref_model_mixup_alpha", a.sync_ref_model, "sync_ref_model: true"},
      {"ref_model_sync_steps", a.sync_ref_model, "sync_ref_model: true"},
      {"precompute_ref_batch_size", a.precompute_ref_log_probs, "precompute_ref_log_probs: true"},
  };
  for (const Needs& one : all) {
    if (config.is_set(one.key) && !one.met)
      lines.push_back(fmt::format("{}: it has an effect only with {}", one.key, one.what));
  }
  const bool learns =
      std::any_of(a.losses.begin(), a.losses.end(), [](const auto& loss) { return loss.second != 0; });
  if (!a.losses.empty() && !learns)
    lines.emplace_back("loss_weights: all of them are 0, so nothing is learned from the preferences");
  if (a.desirable_weight == 0 && a.undesirable_weight == 0)
    lines.emplace_back(
        "desirable_weight: it is 0, and so is undesirable_weight: nothing is learned from the completions");
}

}  // namespace

bool is_of_adapters(std::string_view key) {
  return key.starts_with("lora_") || key == "use_rslora" || key == "use_dora" ||
         key == "autocast_adapter_dtype";
}

std::vector<std::string> idle_options(const Config& config) {
  std::vector<std::string> lines;
  for (const Option& option : options()) {
    if (is_of_adapters(option.name) && config.is_set(option.name) && !config.get_bool("use_peft"))
      lines.push_back(fmt::format("{}: it has an effect only with use_peft: true", option.name));
  }
  if (config.get_bool("cache_frozen_layers_zstd") && !config.get_text("cache_frozen_layers"))
    lines.emplace_back("cache_frozen_layers_zstd: it has an effect only with cache_frozen_layers");
  add_preferences(config, lines);
  return lines;
}

}  // namespace trl::config
