#include "config/training_arguments.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/number.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

std::vector<std::pair<std::string, double>> losses(const Config& config) {
  const std::vector<std::string> names = config.get_list("loss_type"),
                                 weights = config.get_list("loss_weights");
  if (!weights.empty() && weights.size() != names.size()) {
    fail_key("loss_weights",
             "loss_weights: [{}] is not accepted with loss_type [{}]: give one weight for each loss",
             fmt::join(weights, ", "), fmt::join(names, ", "));
  }
  std::vector<std::pair<std::string, double>> out;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<double> weight = weights.empty() ? 1.0 : base::parse_double(weights[i]);
    if (!weight || !std::isfinite(*weight))
      fail_key("loss_weights", "loss_weights: {} is not a finite number", shown(weights[i]));
    out.emplace_back(names[i], *weight);
  }
  return out;
}

using Names = std::initializer_list<std::string_view>;

bool is_one_of(const std::string& name, Names names) { return std::ranges::find(names, name) != names.end(); }

bool has(const PreferenceArguments& a, Names names) {
  return std::ranges::any_of(a.losses, [&](const auto& loss) { return is_one_of(loss.first, names); });
}

void check_losses(const PreferenceArguments& a) {
  for (const auto& [name, weight] : a.losses) {
    if (a.f_divergence_type == "reverse_kl" ||
        is_one_of(name, {"sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust", "discopop", "sft"}))
      continue;
    fail_key(
        "f_divergence_type",
        "f_divergence_type: {} is refused with loss_type {}, which does not use it: give f_divergence_type: "
        "reverse_kl, or a loss_type of sigmoid, sigmoid_norm, hinge, ipo, exo_pair, robust, discopop and sft",
        a.f_divergence_type, name);
  }
  if (has(a, {"exo_pair"}) && (a.label_smoothing <= 0 || a.label_smoothing >= 1)) {
    fail_key("label_smoothing",
             "label_smoothing: {} is refused with loss_type exo_pair, which takes the logarithms of it and "
             "of 1 minus it: give a value above 0 and below 1, such as 0.001",
             a.label_smoothing);
  }
  if (has(a, {"robust"}) && a.label_smoothing >= 0.5) {
    fail_key("label_smoothing",
             "label_smoothing: {} is refused with loss_type robust, which divides by 1 - 2 * "
             "label_smoothing: give a value below 0.5",
             a.label_smoothing);
  }
  if (a.use_weighting && has(a, {"aot", "aot_unpaired"})) {
    fail_key("use_weighting",
             "use_weighting: true is refused with loss_type aot and aot_unpaired, which compare all pairs of "
             "a batch with each other: give use_weighting: false, or another loss_type");
  }
}

// Checks a loss whose baseline is an estimate from the completions of neighbouring rows.
void check_exchange(const Config& config, const PreferenceArguments& a) {
  if (!a.exchanges) return;
  if (const std::string order = config.get("train_sampling_strategy"); order != "sequential") {
    fail_key("train_sampling_strategy",
             "train_sampling_strategy: {} is refused with loss_type kto, whose KL estimate pairs each prompt "
             "with the completion of a neighbouring row: give sequential, or loss_type: apo_zero_unpaired",
             order);
  }
  if (const int64_t rows = config.get_int("per_device_train_batch_size"); rows < 2) {
    fail_key(
        "per_device_train_batch_size",
        "per_device_train_batch_size: {} is refused with loss_type kto, whose KL estimate pairs each prompt "
        "with the completion of another row of the batch: give 2 or more, or loss_type: apo_zero_unpaired",
        rows);
  }
}

}  // namespace

bool exchanges_completions(const Config& config) {
  const std::string_view loss = config.method().exchanging_loss;
  return !loss.empty() && config.get_list("loss_type").front() == loss;
}

PreferenceArguments preference_arguments(const Config& config) {
  PreferenceArguments a;
  static_cast<ReferenceArguments&>(a) = reference_arguments(config);
  const MethodRow& method = config.method();
  if (!method.smooths_labels && config.get_double("label_smoothing_factor") != 0) {
    const bool smooths = config.has("label_smoothing");
    fail_key("label_smoothing_factor",
             "label_smoothing_factor: {} is refused with method {}, whose loss does not smooth labels: "
             "leave it out{}",
             config.get("label_smoothing_factor"), method.name, smooths ? ", or give label_smoothing" : "");
  }
  a.center_rewards_coefficient = config.get_optional_double("center_rewards_coefficient").value_or(0);
  if (!method.reference || method.generates) return a;
  a.losses = losses(config);
  a.exchanges = exchanges_completions(config);
  a.label_smoothing = config.get_double("label_smoothing");
  a.f_divergence_type = config.get("f_divergence_type");
  a.f_alpha_divergence_coef = config.get_double("f_alpha_divergence_coef");
  a.discopop_tau = config.get_double("discopop_tau");
  a.use_weighting = config.get_bool("use_weighting");
  a.ld_alpha = config.get_optional_double("ld_alpha");
  a.desirable_weight = config.get_double("desirable_weight");
  a.undesirable_weight = config.get_double("undesirable_weight");
  check_losses(a);
  check_exchange(config, a);
  a.beta = config.get_double("beta");
  a.precompute_ref_log_probs = config.get_bool("precompute_ref_log_probs");
  a.precompute_ref_batch_size = config.get_optional_int("precompute_ref_batch_size");
  if (a.sync_ref_model && a.precompute_ref_log_probs) {
    fail_key("sync_ref_model",
             "sync_ref_model: true contradicts precompute_ref_log_probs: true, which asks the reference "
             "once, before the first step: leave one of them out");
  }
  return a;
}

}  // namespace trl::config
