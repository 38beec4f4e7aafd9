#include "config/lora_config.h"

#include <algorithm>
#include <cmath>

#include "base/json/is_text.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "config/lora_fields.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

constexpr std::string_view kOption = "peft_config";

// Fields of adapter_config.json that do not describe the adapter itself.
constexpr std::string_view kPassedOver[] = {"peft_type",     "peft_version",  "inference_mode",
                                            "auto_mapping",  "megatron_core", "qalora_group_size",
                                            "fan_in_fan_out"};

// Methods that PEFT's LoraConfig can select and that are not built, by the field that selects them.
struct NotBuilt {
  std::string_view field, method;
};
constexpr NotBuilt kNotBuilt[] = {
    {"eva_config", "EVA"},
    {"corda_config", "CorDA"},
    {"loftq_config", "LoftQ"},
    {"lora_ga_config", "LoRA-GA"},
    {"alora_invocation_tokens", "Activated LoRA (aLoRA)"},
    {"arrow_config", "Arrow"},
    {"kasa_config", "KaSA"},
    {"velora_config", "VeLoRA"},
    {"monteclora_config", "MonteCLoRA"},
    {"use_bdlora", "BD-LoRA"},
    {"use_qalora", "QALoRA"},
    {"layer_replication", "layer replication"},
    {"megatron_config", "LoRA over Megatron's layers"},
    {"runtime_config", "offloading to another device"},
};

LoraInit init_of(const LoraFields& fields, const base::Json& value, std::optional<int64_t>& iterations) {
  if (value.is_boolean()) return value.get<bool>() ? LoraInit::standard : LoraInit::random;
  const std::string name = value.is_string() ? value.get<std::string>() : value.dump();
  constexpr std::string_view kFast = "pissa_niter_";
  if (name.starts_with(kFast)) {
    iterations = base::parse_int64(name.substr(kFast.size()));
    if (iterations && *iterations >= 0) return LoraInit::pissa;
  }
  if (name == "gaussian") return LoraInit::gaussian;
  if (name == "orthogonal") return LoraInit::orthogonal;
  if (name == "olora") return LoraInit::olora;
  if (name == "pissa") return LoraInit::pissa;
  for (const std::string_view other : {"eva", "corda", "loftq", "lora_ga", "mica"}) {
    if (name == other)
      fields.refuse(
          "init_lora_weights",
          fmt::format(
              "{} is not supported; give true, false, gaussian, orthogonal, olora, pissa or pissa_niter_N",
              other));
  }
  fields.refuse(
      "init_lora_weights",
      shown(name) +
          " is not accepted; give true, false, gaussian, orthogonal, olora, pissa or pissa_niter_N");
}

void refuse_not_built(LoraFields& fields) {
  for (const NotBuilt& method : kNotBuilt) {
    const base::Json* const value = fields.find(method.field);
    if (value == nullptr || value->empty() || *value == base::Json(false)) continue;
    fields.refuse(method.field, fmt::format("{} is not built: leave {} out", method.method, method.field));
  }
  for (const std::string_view field : kPassedOver) fields.find(field);
  const base::Json* const type = fields.find("peft_type");
  if (type != nullptr && !base::is_text(*type, "LORA"))
    fields.refuse("peft_type", fmt::format("{} is not supported; only 'LORA' is", shown(as_text(*type))));
}

void read_modules(LoraFields& fields, LoraConfig& out) {
  fields.modules("target_modules", out.target_modules);
  std::optional<ModuleNames> excluded;
  fields.modules("exclude_modules", excluded);
  if (excluded) out.exclude_modules = *excluded;
  fields.texts("target_parameters", out.target_parameters);
  fields.texts("modules_to_save", out.modules_to_save);
  fields.integers("layers_to_transform", out.layers_to_transform);
  fields.texts("layers_pattern", out.layers_pattern);
  fields.pattern("rank_pattern", out.rank_pattern);
  fields.pattern("alpha_pattern", out.alpha_pattern);
  fields.tokens("trainable_token_indices", out.trainable_token_indices);
}

void read_numbers(LoraFields& fields, LoraConfig& out) {
  fields.integer("r", "> 0", out.r);
  fields.number("lora_alpha", "> 0", out.lora_alpha);
  fields.number("lora_dropout", "[0, 1]", out.lora_dropout);
  fields.flag("lora_bias", out.lora_bias);
  fields.flag("use_rslora", out.use_rslora);
  fields.flag("use_dora", out.use_dora);
  fields.flag("fan_in_fan_out", out.fan_in_fan_out);
  fields.flag("ensure_weight_tying", out.ensure_weight_tying);
  if (const base::Json* const bias = fields.find("bias")) {
    if (base::is_text(*bias, "none"))
      out.bias = LoraBias::none;
    else if (base::is_text(*bias, "all"))
      out.bias = LoraBias::all;
    else if (base::is_text(*bias, "lora_only"))
      out.bias = LoraBias::lora_only;
    else
      fields.refuse("bias", shown(as_text(*bias)) + " is not accepted; give none, all or lora_only");
  }
  if (const base::Json* const init = fields.find("init_lora_weights"))
    out.init_lora_weights = init_of(fields, *init, out.pissa_iterations);
}

void read_origin(LoraFields& fields, LoraConfig& out) {
  fields.text("task_type", out.task_type);
  fields.text("base_model_name_or_path", out.base_model_name_or_path);
  fields.text("revision", out.revision);
  if (out.task_type.empty() || out.task_type == "CAUSAL_LM" || out.task_type == "SEQ_CLS") return;
  fields.refuse("task_type", shown(out.task_type) + " is not accepted; give CAUSAL_LM or SEQ_CLS");
}

// Keeps the forms that PEFT saves: [] is not null, and 0 of layers_to_transform is not [0].
void keep_forms(LoraFields& fields, LoraConfig& config) {
  for (const char* const name :
       {"target_parameters", "exclude_modules", "modules_to_save", "layers_to_transform", "layers_pattern",
        "trainable_token_indices", "layer_replication", "alora_invocation_tokens"}) {
    const base::Json* const value = fields.find(name);
    const bool single =
        name == std::string_view("layers_to_transform") || name == std::string_view("layers_pattern");
    if (value != nullptr && (value->empty() || (single && !value->is_array())))
      config.as_given[name] = *value;
  }
}

void check_together(LoraFields& fields, const LoraConfig& config) {
  const bool pattern = config.target_modules && config.target_modules->pattern;
  if (pattern && !config.layers_to_transform.empty())
    fields.refuse("layers_to_transform",
                  "it is for a list of target_modules, and target_modules is an expression");
  if (!config.layers_pattern.empty() && fields.find("layers_to_transform") == nullptr)
    fields.refuse("layers_pattern", "it has an effect only with layers_to_transform");
  const bool plain_init =
      config.init_lora_weights == LoraInit::standard || config.init_lora_weights == LoraInit::random;
  if (config.lora_bias && !plain_init)
    fields.refuse("lora_bias", "it is for init_lora_weights true or false");
  if (config.lora_bias && config.use_dora) fields.refuse("lora_bias", "it cannot be combined with use_dora");
  if (config.target_parameters.empty()) return;
  const std::string reason = config.unfit_for_parameters();
  if (!reason.empty()) fields.refuse("target_parameters", reason);
}

// Marks a new head to be trained whole, under both names that transformers has for it.
void save_classifier(LoraConfig& config) {
  if (config.task_type != "SEQ_CLS") return;
  for (const std::string_view head : kClassifierHeads) {
    std::vector<std::string>& saved = config.modules_to_save;
    if (std::ranges::find(saved, head) == saved.end()) saved.emplace_back(head);
  }
}

// TRL's flags for fields of peft_config.
constexpr std::pair<std::string_view, std::string_view> kFlags[] = {
    {"lora_r", "r"},
    {"lora_alpha", "lora_alpha"},
    {"lora_dropout", "lora_dropout"},
    {"lora_target_modules", "target_modules"},
    {"lora_target_parameters", "target_parameters"},
    {"lora_modules_to_save", "modules_to_save"},
    {"lora_task_type", "task_type"},
    {"use_rslora", "use_rslora"},
    {"use_dora", "use_dora"},
};

base::Json list_or_null(const Config& config, std::string_view flag) {
  return config.get_text(flag) ? base::Json(config.get_list(flag)) : base::Json(nullptr);
}

// Returns whether text is the name of a module, not an expression: it could not match any whole name.
bool is_one_name(const std::string& text) {
  return text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
         std::string::npos;
}

base::Json flags(const Config& config) {
  base::Json all = base::Json::object();
  all["r"] = config.get_int("lora_r");
  all["lora_alpha"] = config.get_int("lora_alpha");
  all["lora_dropout"] = config.get_double("lora_dropout");
  all["target_modules"] = list_or_null(config, "lora_target_modules");
  // Follows TRL: a list of one is its element, so that "all-linear" and an expression can be given.
  if (all["target_modules"].size() == 1) {
    const std::string only = config.get_list("lora_target_modules").front();
    if (!is_one_name(only)) all["target_modules"] = only;
  }
  all["target_parameters"] = list_or_null(config, "lora_target_parameters");
  all["modules_to_save"] = list_or_null(config, "lora_modules_to_save");
  all["task_type"] = config.get("lora_task_type");
  all["use_rslora"] = config.get_bool("use_rslora");
  all["use_dora"] = config.get_bool("use_dora");
  return all;
}

[[noreturn]] void refuse_beside_saved(std::string_view key) {
  fail_key(key, "{}: with adapter_name_or_path the adapter's own configuration counts: leave it out", key);
}

LoraConfig new_lora_config(const Config& config, const base::Json& given) {
  base::Json all = flags(config);
  for (const auto& [flag, field] : kFlags) {
    if (!given.contains(field) || !config.is_set(flag) ||
        given.at(std::string(field)) == all[std::string(field)])
      continue;
    fail_key(flag, "{}: {} contradicts {}: {}: {}; give one of them", flag, shown(config.get(flag)), kOption,
             field, shown(as_text(given.at(std::string(field)))));
  }
  for (const auto& [field, value] : given.items()) all[field] = value;
  LoraConfig out = read_lora_config(all, kOption, Status::invalid_config);
  for (const auto& [flag, field] : kFlags)
    if (!given.contains(field)) out.by_flag.push_back(field);
  return out;
}

}  // namespace

bool ModuleNames::all_linear() const { return pattern && in_small_letters(*pattern) == "all-linear"; }

std::string_view LoraConfig::key(std::string_view field) const {
  if (std::ranges::find(by_flag, field) == by_flag.end()) return field;
  return std::find_if(std::begin(kFlags), std::end(kFlags),
                      [&](const auto& flag) { return flag.second == field; })
      ->first;
}

std::string LoraConfig::unfit_for_parameters() const {
  if (lora_dropout > 0) return "an adapter of a parameter has no dropout: give lora_dropout 0";
  if (use_dora) return "an adapter of a parameter has no DoRA: give use_dora false";
  if (lora_bias) return "an adapter of a parameter has no bias: give lora_bias false";
  if (fan_in_fan_out) return "an adapter of a parameter is never transposed: give fan_in_fan_out false";
  const bool fits = init_lora_weights == LoraInit::standard || init_lora_weights == LoraInit::random ||
                    init_lora_weights == LoraInit::gaussian;
  return fits ? "" : "an adapter of a parameter begins with init_lora_weights true, false or gaussian";
}

double LoraConfig::scaling(int64_t rank, double alpha) const {
  const double root = std::sqrt(static_cast<double>(rank));
  return alpha / (use_rslora ? root : static_cast<double>(rank));
}

LoraConfig read_lora_config(const base::Json& object, std::string_view origin, Status status,
                            LoraConfig start) {
  LoraFields fields(object, origin, status);
  refuse_not_built(fields);
  const base::Json* const frozen = fields.find("inference_mode");
  if (origin == kOption && frozen != nullptr && *frozen == base::Json(true))
    fields.refuse("inference_mode", "true means that nothing is trained: leave it out");
  read_modules(fields, start);
  read_numbers(fields, start);
  read_origin(fields, start);
  keep_forms(fields, start);
  fields.finish();
  check_together(fields, start);
  save_classifier(start);
  return start;
}

std::optional<LoraConfig> lora_config(const Config& config) {
  const base::Json given = base::Json::parse(config.get_text(kOption).value_or("{}"));
  const bool saved = !config.get_text("adapter_name_or_path").value_or("").empty();
  if (!config.get_bool("use_peft")) {
    if (saved) {
      fail_key("adapter_name_or_path",
               "adapter_name_or_path: a run continues to train an adapter only with use_peft: give use_peft: "
               "true, or leave it out");
    }
    if (given.empty()) return std::nullopt;
    fail_key(kOption, "{}: it has an effect only with use_peft: give use_peft: true, or leave it out",
             kOption);
  }
  if (!saved) return new_lora_config(config, given);
  for (const auto& [flag, field] : kFlags)
    if (config.is_set(flag)) refuse_beside_saved(flag);
  if (!given.empty()) refuse_beside_saved(kOption);
  return LoraConfig();
}

}  // namespace trl::config
