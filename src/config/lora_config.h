// The settings of a LoRA adapter: PEFT's LoraConfig under its names. Read from TRL's options together with
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

// Names modules of a model: by a list, whose entries are whole names or endings after a dot, or by a regular
// expression that must match a whole name.
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
  std::vector<std::pair<std::string, int64_t>> rank_pattern;  // in order: the first match counts
  std::vector<std::pair<std::string, double>> alpha_pattern;
  // Keyed by the module's name; an empty name is the input embedding.
  std::vector<std::pair<std::string, std::vector<int64_t>>> trainable_token_indices;
  LoraBias bias = LoraBias::none;
  bool lora_bias = false;  // lora_B has a bias
  bool use_rslora = false;
  bool use_dora = false;
  bool fan_in_fan_out = false;  // set for Conv1D; the module's kind decides
  // A head that is tied to the embedding is treated as the embedding is.
  bool ensure_weight_tying = false;
  LoraInit init_lora_weights = LoraInit::standard;
  std::optional<int64_t> pissa_iterations;  // N of pissa_niter_N
  std::string task_type;                    // "CAUSAL_LM", "SEQ_CLS"; empty: null
  std::string base_model_name_or_path;      // empty: null
  std::string revision;                     // revision of the base; empty: null
  std::vector<std::string_view> by_flag;    // fields given by a flag of TRL
  // Fields that hold lists and were given as an empty list, or as a single value: saved as given.
  std::map<std::string, base::Json, std::less<>> as_given;

  // Returns the name of a field for messages: its flag's if it has one and peft_config does not give the
  // field.
  std::string_view key(std::string_view field) const;
  // Returns the factor for the product of a module's matrices: alpha / r, or alpha / sqrt(r).
  double scaling(int64_t rank, double alpha) const;
  // Returns the option that rules out adapters of parameters (target_parameters); empty: none does.
  std::string unfit_for_parameters() const;
};

// transformers' names of the head of a classifier: SEQ_CLS trains it whole.
inline constexpr std::string_view kClassifierHeads[] = {"classifier", "score"};

// Reads the fields of `object` over those of `start`. origin: the option ("peft_config") or the file, with
// which messages begin. Throws `status` (with the origin as its key if that is invalid_config) for an unknown
// field, a value that is not accepted, a contradiction, and by name for every method of PEFT that is not
// built.
LoraConfig read_lora_config(const base::Json& object, std::string_view origin, Status status,
                            LoraConfig start = {});

// Reads TRL's flags (lora_r, lora_target_modules, ...) and over them peft_config. None: use_peft is false.
// Throws Error(invalid_config), also if both give a field different values, or if use_peft is false and
// peft_config is not empty. With adapter_name_or_path none of them may be given, and the result only says
// that an adapter is trained.
std::optional<LoraConfig> lora_config(const Config& config);

}  // namespace trl::config
