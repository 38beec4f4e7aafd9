// Statements about a whole configuration. Lines for the log: its warnings by reason, options without an
// effect, and options that act differently from their names. Options that the weights of a run depend on, by
// effect: names with one meaning are one here.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/text/number.h"
#include "config/dataset/data_arguments.h"
#include "config/generation/generation_statements.h"
#include "config/model_options.h"
#include "config/online/parts.h"
#include "config/table/option.h"
#include "config/training/optim_arguments.h"
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
  return std::ranges::any_of(arguments.losses, [&](const auto& loss) {
    return std::ranges::find(losses, loss.first) != losses.end();
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
  for (const Needs& one : all)
    if (config.is_set(one.key) && !one.met)
      lines.push_back(fmt::format("{}: it has an effect only with {}", one.key, one.what));
  const bool learns = std::ranges::any_of(a.losses, [](const auto& loss) { return loss.second != 0; });
  if (!a.losses.empty() && !learns)
    lines.emplace_back("loss_weights: all of them are 0, so nothing is learned from the preferences");
  if (a.desirable_weight == 0 && a.undesirable_weight == 0)
    lines.emplace_back(
        "desirable_weight: it is 0, and so is undesirable_weight: nothing is learned from the completions");
}

std::string text(double value) { return base::format_double(value); }
std::string text(bool value) { return value ? "true" : "false"; }

std::string optim_name(const Config& config) {
  const OptimName& name = optim(config);
  return std::string(name.canonical.empty() ? name.name : name.canonical);
}

// Returns the effect of options that have several names, or that another option changes.
std::map<std::string_view, std::string> effects(const Config& config, const TrainingArguments& a) {
  return {{"dtype", model_dtype(config)},
          {"max_steps", std::to_string(a.max_steps)},
          {"optim", optim_name(config)},
          {"warmup_steps", text(a.warmup_steps)},
          {"neftune_noise_alpha", text(a.neftune_noise_alpha)},
          {"bf16", text(a.bf16)},
          {"fused_kernels", a.fused_kernels == FusedKernels::off ? "off" : "auto"},
          // all names of the built-in one are one
          {"attn_implementation", a.attention.plugin.empty() ? "built-in" : a.attention.name},
          {"load_best_model_at_end", text(a.load_best_model_at_end)}};
}

// Says whether the option's effect is that of another one, in effects(), or on evaluations only.
bool is_left_out(std::string_view name) {
  constexpr std::string_view kOthers[] = {
      "adafactor", "warmup_ratio",      "mixed_precision", "use_liger_kernel",
      "streaming", "model_init_kwargs", "eval_packing",    "per_device_eval_batch_size"};
  return std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

// Says whether other options leave this one without an effect.
bool is_idle(std::string_view name, const Config& config, const TrainingArguments& a) {
  const bool adam = a.optim == Optim::adamw || a.optim == Optim::ademamix;
  if (name == "num_train_epochs") return a.max_steps >= 0;
  if (name == "adam_epsilon") return !adam;
  if (name.starts_with("adam_beta")) return !adam && a.optim != Optim::lion;
  if (name == "optim_8bit_embeddings") return a.optim_states != OptimStates::eight_bit;
  return (is_of_adapters(name) || name == "use_peft" || name == "peft_config" || name == "frozen_compute") &&
         !config.get_bool("use_peft");
}

}  // namespace

std::vector<std::string> by_reason(const std::vector<std::string>& warnings) {
  struct Line {
    std::string keys, reason;
  };
  std::vector<Line> lines;
  for (const std::string& warning : warnings) {
    const size_t colon = std::min(warning.find(": "), warning.size());
    if (colon == warning.size() || find_option(warning.substr(0, colon)) == nullptr) {
      lines.push_back({"", warning});  // from a file, with its place
      continue;
    }
    const std::string key = warning.substr(0, colon), reason = warning.substr(colon + 2);
    const auto same = std::ranges::find_if(
        lines, [&](const Line& line) { return !line.keys.empty() && line.reason == reason; });
    if (same == lines.end())
      lines.push_back({key, reason});
    else
      same->keys += ", " + key;
  }
  std::vector<std::string> out;
  for (const Line& line : lines)
    out.push_back(line.keys.empty() ? line.reason : line.keys + ": " + line.reason);
  return out;
}

bool is_of_adapters(std::string_view key) {
  return key.starts_with("lora_") || key == "use_rslora" || key == "use_dora" ||
         key == "autocast_adapter_dtype";
}

std::vector<std::string> idle_options(const Config& config) {
  std::vector<std::string> lines;
  for (const Option& option : options())
    if (is_of_adapters(option.name) && config.is_set(option.name) && !config.get_bool("use_peft"))
      lines.push_back(fmt::format("{}: it has an effect only with use_peft: true", option.name));
  if (config.get_bool("cache_frozen_layers_zstd") && !config.get_text("cache_frozen_layers"))
    lines.emplace_back("cache_frozen_layers_zstd: it has an effect only with cache_frozen_layers");
  for (const char* const key : {"serve_swap", "serve_versions"})
    if (config.has(key) && config.is_set(key) && !config.get_optional_double("serve_share"))
      lines.push_back(fmt::format("{}: it has an effect only with serve_share", key));
  for (std::string& line : idle_generation_options(config)) lines.push_back(std::move(line));
  add_preferences(config, lines);
  add_online_statements(config, lines);
  return lines;
}

std::vector<std::string> run_notes(const Config& config) {
  std::vector<std::string> notes;
  for (std::string& note : recompute_notes(config)) notes.push_back(std::move(note));
  const DataArguments data = data_arguments(config);
  if (data.padding_free && data.packing == Packing::wrapped) {
    notes.push_back(
        "padding_free with packing_strategy wrapped: the documents of a packed row still see each other, as "
        "in TRL");
  }
  if (data.padding_free && data.packing == Packing::none &&
      config.get_int("per_device_train_batch_size") == 1)
    notes.push_back("padding_free with per_device_train_batch_size 1: a batch of one row has no padding");
  if (data.streaming && data.sampling == Sampling::random) {
    notes.push_back(
        data.shuffle_dataset
            ? "dataset_streaming with shuffle_dataset: rows are shuffled within a buffer of 1000, as in TRL"
            : "dataset_streaming: rows are trained on in the order in which they are read");
  }
  if (data.streaming && data.dataloader_drop_last) {
    notes.push_back(
        "dataset_streaming with dataloader_drop_last: the last batch is trained on even when it is not full, "
        "as in TRL");
  }
  if (const std::optional<double> decay = optim_arguments(config).weight_decay) {
    notes.push_back(
        fmt::format("optim_args: weight_decay {} has no effect, as in Trainer: the weights decay by the "
                    "option weight_decay, which is {}",
                    base::format_double(*decay), config.get("weight_decay")));
  }
  if (config.get_text("offload_dir") && !optim(config).paged && !activation_offload(config) &&
      !config.get_text("memory_budget")) {
    notes.push_back(
        "offload_dir: nothing leaves memory in this run; it has an effect with a paged_ optimizer, with "
        "activation_offloading: true, or with memory_budget");
  }
  if (config.get("save_strategy") == "no")
    notes.push_back("save_strategy no: no checkpoints are written, only the final model");
  if (config.get("loss_type") == "chunked_nll") notes.push_back("loss_type chunked_nll is now called nll");
  if (config.get("truncation_mode") == "keep_end" && config.method().rows != RowForm::conversations)
    notes.push_back("truncation_mode keep_end: it is deprecated in TRL, whose version 2 will remove it");
  return notes;
}

std::vector<std::pair<std::string, std::string>> result_options(const Config& config,
                                                                const TrainingArguments& a) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto others = effects(config, a);
  for (const Option& option : options()) {
    if (option.affects == Affects::source || option.affects == Affects::nothing) continue;
    if (!is_of(option, config.method().name) || is_left_out(option.name) || is_idle(option.name, config, a))
      continue;
    const auto other = others.find(option.name);
    out.emplace_back(option.name, other != others.end() ? other->second : config.get(option.name));
  }
  if (a.load_best_model_at_end) {
    out.emplace_back("metric_for_best_model", a.metric_for_best_model);
    out.emplace_back("greater_is_better", text(a.greater_is_better));
  }
  // The evaluation, if it decides on the learning rate or on the model that remains at the end.
  if (a.load_best_model_at_end || a.lr_scheduler_type == Scheduler::reduce_lr_on_plateau)
    for (const char* name : {"eval_strategy", "eval_steps", "eval_delay"})
      out.emplace_back(name, config.get(name));
  return out;
}

}  // namespace trl::config
