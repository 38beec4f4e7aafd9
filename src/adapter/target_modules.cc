#include "adapter/target_modules.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "adapter/module_names.h"
#include "base/error.h"
#include "base/text/nearest.h"

namespace trl::adapter {

namespace {

using config::LoraConfig;
using config::ModuleNames;

constexpr std::string_view kTargets = "target_modules", kParameters = "target_parameters";

// Returns the name by which target_parameters selects the module.
std::string parameter_name(const Module& module) {
  return module.kind == ModuleKind::experts ? module.name : module.name + ".weight";
}

bool takes_parameter(const Module& module) {
  const bool matrix = module.kind == ModuleKind::experts || module.kind == ModuleKind::router ||
                      module.kind == ModuleKind::linear;
  return matrix && !module.head;
}

// Returns "gate_up_proj, down_proj, gate.weight, q_proj.weight ..."
std::string parameters_there_are(std::span<const Module> modules) {
  std::vector<std::string> names;
  for (const Module& module : modules) {
    if (!takes_parameter(module)) continue;
    const std::string name = parameter_name(module).substr(module.name.rfind('.') + 1);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// Handles layers_to_transform, with the number of the layer as PEFT finds it in a name.
class Layers {
 public:
  explicit Layers(const LoraConfig& config) : wanted_(config.layers_to_transform) {
    if (wanted_.empty()) return;
    for (const std::string& pattern : config.layers_pattern)
      patterns_.emplace_back("layers_pattern", "(?:^|.*?\\.)" + pattern + "\\.(?P<layer>[0-9]+)\\..*");
    if (patterns_.empty()) patterns_.emplace_back("layers_pattern", ".*?\\.[^.]*\\.(?P<layer>[0-9]+)\\..*");
  }
  bool contain(std::string_view name) {
    if (wanted_.empty()) return true;
    for (const ModulePattern& pattern : patterns_) {
      if (!pattern.matches(name)) continue;
      const std::optional<int64_t> layer = pattern.layer(name);
      if (!layer) return false;
      seen_.insert(*layer);
      return std::ranges::find(wanted_, *layer) != wanted_.end();
    }
    return false;
  }
  // Call after every name was asked for.
  void check() const {
    for (const int64_t layer : wanted_) {
      if (seen_.empty() || seen_.contains(layer)) continue;
      fail_key("layers_to_transform", "layers_to_transform: {} is not a layer of this model: give {} to {}",
               layer, *seen_.begin(), *seen_.rbegin());
    }
  }

 private:
  const std::vector<int64_t>& wanted_;
  std::vector<ModulePattern> patterns_;
  std::set<int64_t> seen_;
};

// Looks up rank_pattern or alpha_pattern: the first entry whose key matches the end of a name.
template <typename T>
class Patterns {
 public:
  Patterns(std::string_view key, const std::vector<std::pair<std::string, T>>& entries) : key_(key) {
    for (const auto& [pattern, value] : entries) {
      ModulePattern(key, pattern);  // rejects "a)(b", which the text around it would complete
      all_.push_back({ModulePattern(key, "(.*\\.)?(" + pattern + ")"), pattern, value});
    }
  }
  T of(std::string_view name, T otherwise) {
    for (Item& item : all_) {
      if (!item.pattern.matches(name)) continue;
      item.used = true;
      return item.value;
    }
    return otherwise;
  }
  void report(std::vector<std::string>& warnings) const {
    for (const Item& item : all_) {
      if (!item.used)
        warnings.push_back(
            fmt::format("{}: '{}' does not match any module that gets an adapter", key_, item.text));
    }
  }

 private:
  struct Item {
    ModulePattern pattern;
    std::string text;
    T value;
    bool used = false;
  };
  std::string_view key_;
  std::vector<Item> all_;
};

[[noreturn]] void refuse_head(const LoraConfig& config, std::string_view key, const Module& module) {
  const std::string whole = module.name == "score"
                                ? fmt::format(" (with {} SEQ_CLS it is saved whole)", config.key("task_type"))
                                : "";
  fail_key(key,
           "{}: an adapter on the output head ({}) is refused, because the loss reads only the head's own "
           "weight: list it in {}, or leave it out{}",
           key, module.name, config.key("modules_to_save"), whole);
}

void check_form(const LoraConfig& config, const Entry& entry, std::span<const Module> modules) {
  const std::string_view key = config.key(kTargets);
  if (entry.module != nullptr && entry.module->head) refuse_head(config, key, *entry.module);
  if (entry.module != nullptr && entry.module->kind == ModuleKind::router) {
    fail_key(key, "{}: {} is a router, not a linear layer: give {}.weight in {}", key, entry.name,
             entry.name.substr(entry.name.rfind('.') + 1), config.key(kParameters));
  }
  if (entry.module == nullptr || entry.module->kind == ModuleKind::other) {
    fail_key(key, "{}: {} is {}, and an adapter needs a linear layer or an embedding; the model has {}", key,
             entry.name, entry.module ? "another kind of layer" : "a group of modules", there_are(modules));
  }
}

// Checks a rank, except that all-linear must not fail over two modules: the gate of a shared expert gives one
// number a token, and a router one an expert.
void check_rank(const Module& module, int64_t r, std::string_view key) {
  const bool narrow = module.out == 1 || module.kind == ModuleKind::router;
  const int64_t most = narrow ? module.in : std::min(module.in, module.out);
  if (r >= 1 && r <= most) return;
  fail_key(key, "{}: {} does not fit {} of {} x {}: give 1 to {}", key, r, module.name, module.out, module.in,
           most);
}

// Returns the target_modules for null: PEFT 0.21's TRANSFORMERS_MODELS_TO_LORA_TARGET_MODULES_MAPPING
// (peft/utils/constants.py) for the supported families; empty: PEFT has no entry for the type.
std::vector<std::string> default_targets(std::string_view model_type) {
  if (model_type == "gpt2") return {"c_attn"};
  if (model_type == "gpt_neox") return {"query_key_value"};
  for (const std::string_view type :
       {"llama", "mistral", "mixtral", "stablelm", "gemma", "gemma2", "gemma3_text", "qwen2", "qwen3"})
    if (type == model_type) return {"q_proj", "v_proj"};
  return {};
}

class Selector {
 public:
  Selector(const LoraConfig& config, std::span<const Module> modules, std::string_view model_type)
      : config_(config),
        modules_(modules),
        entries_(entries(modules)),
        wanted_(wanted(model_type)),
        rank_("rank_pattern", config.rank_pattern),
        alpha_("alpha_pattern", config.alpha_pattern) {}

  Selection run() {
    select_modules();
    if (!config_.target_parameters.empty()) select_parameters();
    check_any();
    rank_.report(out_.warnings);
    alpha_.report(out_.warnings);
    std::ranges::sort(out_.targets, [](const Target& a, const Target& b) { return a.module < b.module; });
    select_whole(config_, modules_, out_);
    out_.target_modules = written();
    return std::move(out_);
  }

 private:
  std::string_view targets_key() const { return config_.key(kTargets); }
  std::string_view parameters_key() const { return config_.key(kParameters); }
  size_t index(const Module& module) const { return static_cast<size_t>(&module - modules_.data()); }

  ModuleNames wanted(std::string_view model_type) const {
    if (!config_.target_modules) {
      const std::vector<std::string> names = default_targets(model_type);
      if (names.empty() && config_.target_parameters.empty()) {
        fail_key(targets_key(),
                 "{}: PEFT has no default for model type {}: name the modules; the model has {}",
                 targets_key(), model_type, there_are(modules_));
      }
      return {names, std::nullopt};
    }
    if (!config_.target_modules->all_linear()) return *config_.target_modules;
    ModuleNames all;
    for (const Module& module : modules_) {
      const bool linear = module.kind == ModuleKind::linear || module.kind == ModuleKind::conv1d;
      const bool skipped = module.head && (module.name != "score" || config_.task_type == "SEQ_CLS");
      if (linear && !skipped) all.names.push_back(module.name);
    }
    return all;
  }

  // Returns the modules for the file; a long list is shortened, as PEFT does.
  ModuleNames written() const {
    constexpr size_t kLong = 20;
    if (wanted_.names.size() < kLong) return wanted_;
    const Names wanted(targets_key(), wanted_);
    std::vector<std::string> others;
    for (const Entry& entry : entries_)
      if (!wanted.contain(entry.name)) others.emplace_back(entry.name);
    std::vector<std::string> shorter = shortest_endings(wanted_.names, others);
    if (shorter.size() >= wanted_.names.size()) return {wanted_.names, std::nullopt};
    return {std::move(shorter), std::nullopt};
  }

  void add(const Module& module, const std::string& name, bool parameter) {
    const int64_t r = rank_.of(name, config_.r);
    const double alpha = alpha_.of(name, config_.lora_alpha);
    check_rank(module, r, r == config_.r ? config_.key("r") : "rank_pattern");
    out_.targets.push_back({index(module), parameter, r, alpha, config_.scaling(r, alpha)});
  }

  void select_modules() {
    const Names wanted(targets_key(), wanted_), excluded("exclude_modules", config_.exclude_modules);
    const SavedModules saved(config_.modules_to_save);
    Layers layers(config_);
    bool any_excluded = false;
    for (const Entry& entry : entries_) {
      const bool is_excluded = excluded.contain(entry.name);
      any_excluded |= is_excluded;
      if (is_excluded || saved.contain(entry.name)) continue;
      const bool in_layers = layers.contain(entry.name);  // called for every name, for check()
      if (!wanted.contain(entry.name)) continue;
      if (!in_layers && !wanted.has(entry.name)) continue;  // PEFT ignores the layer of a whole name
      check_form(config_, entry, modules_);
      add(*entry.module, entry.module->name, false);
    }
    layers.check();
    const bool excludes = config_.exclude_modules.pattern || !config_.exclude_modules.names.empty();
    if (excludes && !any_excluded) out_.warnings.push_back("exclude_modules: no module was excluded");
    if (any_excluded) warn_of_unmatched("exclude_modules", config_.exclude_modules.names);
  }

  // Warns of mistyped names among others that match: PEFT accepts them.
  void warn_of_unmatched(std::string_view key, const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const bool found =
          std::ranges::any_of(entries_, [&](const Entry& entry) { return ends_after_dot(entry.name, name); });
      if (!found)
        out_.warnings.push_back(fmt::format("{}: '{}' does not match any module; the model has {}", key, name,
                                            there_are(modules_)));
    }
  }

  void select_parameters() {
    if (const std::string reason = config_.unfit_for_parameters(); !reason.empty())
      fail_key(parameters_key(), "{}: {}", parameters_key(), reason);
    for (const std::string& name : config_.target_parameters) {
      bool found = false;
      for (const Module& module : modules_) {
        const std::string own = parameter_name(module);
        if (!ends_after_dot(own, name)) continue;
        found = true;
        const auto before = target_of(module);
        check_parameter(module, own, before != out_.targets.end() && !before->parameter);
        if (before == out_.targets.end()) add(module, own, true);
      }
      if (found) continue;
      fail_key(parameters_key(),
               "{}: '{}' is not a parameter that can have an adapter; those that can are {}",
               parameters_key(), name, parameters_there_are(modules_));
    }
  }

  void check_parameter(const Module& module, const std::string& name, bool twice) const {
    if (module.head) refuse_head(config_, parameters_key(), module);
    if (twice) {
      fail_key(parameters_key(), "{}: {} belongs to {}, which has an adapter by {}: leave one of them out",
               parameters_key(), name, module.name, targets_key());
    }
    if (takes_parameter(module)) return;
    fail_key(
        parameters_key(), "{}: {} {}; parameters that can have an adapter are {}", parameters_key(), name,
        is_module(module.kind) ? fmt::format("is adapted through its module: list that in {}", targets_key())
                               : "is not a matrix",
        parameters_there_are(modules_));
  }

  std::vector<Target>::const_iterator target_of(const Module& module) const {
    return std::ranges::find(out_.targets, index(module), &Target::module);
  }

  // Returns the selection of target_modules, for messages; empty: nothing.
  std::string asked_for() const {
    if (wanted_.pattern) return "'" + *wanted_.pattern + "'";
    return wanted_.names.empty()
               ? ""
               : base::join(std::vector<std::string_view>(wanted_.names.begin(), wanted_.names.end()));
  }

  void check_any() {
    const std::string asked = asked_for();
    const bool modules =
        std::ranges::any_of(out_.targets, [](const Target& target) { return !target.parameter; });
    if (modules && config_.target_modules) warn_of_unmatched(targets_key(), config_.target_modules->names);
    if (!out_.targets.empty() && !modules && !asked.empty()) {
      out_.warnings.push_back(
          fmt::format("{}: {} does not match any module, so only {} get an adapter; the model has {}",
                      targets_key(), asked, parameters_key(), there_are(modules_)));
    }
    if (!out_.targets.empty()) return;
    fail_key(targets_key(), "{}: {} does not match any module{}; the model has {}", targets_key(),
             asked.empty() ? "[]" : asked,
             config_.exclude_modules.pattern || !config_.exclude_modules.names.empty() ||
                     !config_.modules_to_save.empty() || !config_.layers_to_transform.empty()
                 ? fmt::format(" that exclude_modules, {} and layers_to_transform leave",
                               config_.key("modules_to_save"))
                 : "",
             there_are(modules_));
  }

  const LoraConfig& config_;
  const std::span<const Module> modules_;
  const std::vector<Entry> entries_;
  const ModuleNames wanted_;
  Patterns<int64_t> rank_;
  Patterns<double> alpha_;
  Selection out_;
};

// Returns the endings of a name, shortest first.
std::vector<std::string> endings(const std::string& name) {
  std::vector<std::string> all;
  for (size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0; dot = name.rfind('.', dot - 1))
    all.push_back(name.substr(dot + 1));
  all.push_back(name);
  return all;
}

}  // namespace

Selection select(const LoraConfig& config, std::span<const Module> modules, std::string_view model_type) {
  return Selector(config, modules, model_type).run();
}

std::vector<std::string> shortest_endings(const std::vector<std::string>& names,
                                          const std::vector<std::string>& others) {
  std::set<std::string> taken, chosen;
  for (const std::string& other : others)
    for (std::string& ending : endings(other)) taken.insert(std::move(ending));
  std::set<std::vector<std::string>> ordered;
  for (const std::string& name : names) ordered.insert(endings(name));
  for (const std::vector<std::string>& one : ordered) {
    const bool covered = std::any_of(one.begin(), one.end() - 1,
                                     [&](const std::string& ending) { return chosen.contains(ending); });
    if (covered) continue;
    const auto free = std::ranges::find_if(
        one, [&](const std::string& ending) { return !taken.contains(ending) && !chosen.contains(ending); });
    if (free != one.end()) chosen.insert(*free);
  }
  return chosen.empty() ? names : std::vector<std::string>(chosen.begin(), chosen.end());
}

}  // namespace trl::adapter
