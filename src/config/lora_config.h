// How a LoRA adapter is made: PEFT's LoraConfig under its names. Read from TRL's options together with
// peft_config, or from the adapter_config.json of a saved adapter.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "config/config.h"

namespace trl::config {

// Modules of a model by name: a list, whose entries are whole names or what follows a dot in them, or a
// regular expression that must match a whole name.
struct ModuleNames {
  std::vector<std::string> names;
  std::optional<std::string> pattern;  // instead of the list
  bool all_linear() const;             // the pattern "all-linear", in any case of letters
};

enum class LoraBias : uint8_t { none, all, lora_only };  // which biases of the base are trained

enum class LoraInit : uint8_t {
  standard,  // true: A uniform as in nn.Linear, B zero
  random,    // false: both as in nn.Linear
  gaussian,
  orthogonal,
  olora,
  pissa,
};

struct LoraConfig {
  int64_t r = 8;
  double lora_alpha = 8;
  double lora_dropout = 0;
  std::optional<ModuleNames> target_modules;  // none: PEFT's choice for the model type
  ModuleNames exclude_modules;
  std::vector<std::string> target_parameters;
  std::vector<std::string> modules_to_save;  // trained whole, and saved with the adapter
  std::vector<int64_t> layers_to_transform;  // empty: all
  std::vector<std::string> layers_pattern;
  std::vector<std::pair<std::string, int64_t>> rank_pattern;  // in order: the first that matches counts
  std::vector<std::pair<std::string, double>> alpha_pattern;
  // By the module's name; an empty name is the input embedding.
  std::vector<std::pair<std::string, std::vector<int64_t>>> trainable_token_indices;
  LoraBias bias = LoraBias::none;
  bool lora_bias = false;  // lora_B has a bias
  bool use_rslora = false;
  bool use_dora = false;
  bool fan_in_fan_out = false;       // said of Conv1D; what a module is decides
  bool ensure_weight_tying = false;  // what is done to the embedding is done to a head that is tied to it
  LoraInit init_lora_weights = LoraInit::standard;
  std::optional<int64_t> pissa_iterations;  // of pissa_niter_N
  std::string task_type;                    // "CAUSAL_LM", "SEQ_CLS"; empty: null
  std::string base_model_name_or_path;      // empty: null
  std::string revision;                     // of the base; empty: null
  std::vector<std::string_view> by_flag;    // fields that a flag of TRL's gave
  // Fields that hold lists and were given as an empty one, or as the only value of one: saved as they came.
  std::map<std::string, base::Json, std::less<>> as_given;

  // The name of a field for messages: that of its flag where it has one and peft_config does not give it.
  std::string_view key(std::string_view field) const;
  // What the product of a module's matrices is multiplied with: alpha / r, or alpha / sqrt(r).
  double scaling(int64_t rank, double alpha) const;
  // What keeps it from adapters of parameters (target_parameters); empty: nothing.
  std::string unfit_for_parameters() const;
};

// transformers' names of the head of a classifier: SEQ_CLS trains it whole.
inline constexpr std::string_view kClassifierHeads[] = {"classifier", "score"};

// The fields of `object` over those of `start`. origin: the option ("peft_config") or the file, with which
// messages begin. Throws `status` (with the origin as its key where that is invalid_config) for an unknown
// field, a value that is not accepted, a contradiction, and by name for every method of PEFT that is not
// built.
LoraConfig read_lora_config(const base::Json& object, std::string_view origin, Status status,
                            LoraConfig start = {});

// TRL's flags (lora_r, lora_target_modules, ...) and over them peft_config. None: use_peft is false. Throws
// Error(invalid_config), also if both say different things of one field, or where use_peft is false and
// peft_config is not empty. With adapter_name_or_path none of them may be given, and the result says nothing
// but that an adapter is trained.
std::optional<LoraConfig> lora_config(const Config& config);

}  // namespace trl::config
