// Selects the modules of a model that an adapter changes, by PEFT's rules (peft/tuners/tuners_utils.py,
// check_target_module_exists and get_pattern_key).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/lora_config.h"

namespace trl::adapter {

enum class ModuleKind : uint8_t {
  linear,
  conv1d,     // GPT-2's: its weight is [in, out]
  embedding,  // in: rows of the table, out: width
  experts,    // one matrix of every expert, [experts, out, in]: a parameter, not a module
  router,     // the experts' matrix [out, in] that only target_parameters reaches
  other,      // norms: LoRA has no form for them
};

// A part of transformers' model that has parameters, in the order of its named_modules(): adapters are made,
// and their random numbers drawn, in this order.
struct Module {
  // Its name in transformers: "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.experts.down_proj".
  std::string name;
  ModuleKind kind = ModuleKind::linear;
  int64_t in = 0, out = 0;
  int64_t experts = 0;  // number, for kind experts
  bool bias = false;
  bool head = false;  // the output head: lm_head, or a classifier's score
  bool tied = false;  // a head whose weight is the input embedding's
};

struct Target {
  size_t module;   // its index
  bool parameter;  // target_parameters names it: PEFT makes these adapters after those of modules
  int64_t r;
  double alpha;    // lora_alpha, or the value in alpha_pattern
  double scaling;  // LoraConfig::scaling
};

struct Selection {
  std::vector<Target> targets;  // in the order of the modules
  std::vector<size_t> saved;    // modules_to_save, in that order
  std::vector<size_t> biases;   // modules whose bias of the base is trained
  // Trainable rows of embeddings and of the head.
  std::vector<std::pair<size_t, std::vector<int64_t>>> tokens;
  bool head_has_tokens = false;  // the embedding's rows are the tied head's too, and stored once
  bool head_is_saved = false;    // the tied head and the embedding are saved whole as one
  // target_modules as in the adapter's file: all-linear and null are replaced by their meaning here.
  config::ModuleNames target_modules;
  std::vector<std::string> warnings;
};

// Selects the modules. model_type: from config.json. The configuration is one for transformers 5
// (old_experts.h). Throws Error(invalid_config) if nothing matches (naming the modules or parameters that
// exist), for a rank that does not fit a module, an adapter on the head, a module that LoRA has no form for,
// a layer that the model does not have, an option that a parameter's adapter cannot have, a pattern that is
// not a regular expression, and tokens of a module that the adapter changes otherwise.
Selection select(const config::LoraConfig& config, std::span<const Module> modules,
                 std::string_view model_type);

// Describes a list of modules by the endings of names that select the same ones. names: the modules that are
// selected; others: the modules that must not be. Endings begin after a dot, or
// are whole names. PEFT's own choice (peft/tuners/tuners_utils.py, _find_minimal_target_modules), sorted.
std::vector<std::string> shortest_endings(const std::vector<std::string>& names,
                                          const std::vector<std::string>& others);

}  // namespace trl::adapter
