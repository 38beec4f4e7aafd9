#include "adapter/config_file.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "adapter/old_experts.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"

namespace trl::adapter {

namespace {

using base::Json;
using config::LoraConfig;

Json number(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) < kExact) return static_cast<int64_t>(value);
  return value;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

template <typename T>
Json list_or_null(const std::vector<T>& list) {
  return list.empty() ? Json(nullptr) : Json(list);
}

Json modules_or_null(const config::ModuleNames& modules) {
  if (modules.pattern) return *modules.pattern;
  std::vector<std::string> names = modules.names;
  std::ranges::sort(names);
  return list_or_null(names);
}

// Writes a list in the form in which it was given, unless something was added to it since.
void restore_forms(const LoraConfig& config, std::map<std::string, Json>& fields) {
  for (const auto& [name, given] : config.as_given) {
    Json& value = fields[name];
    const bool same = given.is_array() || given.empty() || given == "" ? value.is_null() : value.size() == 1;
    if (same) value = given;
  }
}

Json init_name(const LoraConfig& config) {
  using config::LoraInit;
  const LoraInit init = config.init_lora_weights;
  if (init == LoraInit::standard || init == LoraInit::random) return init == LoraInit::standard;
  if (init == LoraInit::gaussian) return "gaussian";
  if (init == LoraInit::orthogonal) return "orthogonal";
  if (init == LoraInit::olora) return "olora";
  return config.pissa_iterations ? fmt::format("pissa_niter_{}", *config.pissa_iterations) : "pissa";
}

std::string_view bias_name(config::LoraBias bias) {
  if (bias == config::LoraBias::all) return "all";
  return bias == config::LoraBias::lora_only ? "lora_only" : "none";
}

Json tokens(const LoraConfig& config) {
  const auto& all = config.trainable_token_indices;
  if (all.empty()) return nullptr;
  if (all.size() == 1 && all.front().first.empty()) return all.front().second;
  Json map = Json::object();
  for (const auto& [name, ids] : all) map[name] = ids;
  return map;
}

bool has_conv1d(const Selection& selection, std::span<const Module> modules) {
  return std::ranges::any_of(selection.targets, [&](const Target& target) {
    return modules[target.module].kind == ModuleKind::conv1d;
  });
}

// Calls body(), whose errors then name the directory's file.
template <typename Body>
auto in_file(const std::string& directory, const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    fail(Status::format, "{}: {}", Place{base::join_path(directory, kConfigFile)}, error.message());
  }
}

bool has(const std::string& directory, std::string_view name) {
  return base::file_exists(base::join_path(directory, name));
}

std::vector<std::string> adapter_folders(const std::string& directory) {
  std::vector<std::string> names;
  if (!base::is_directory(directory)) return names;
  for (const std::string& name : base::list_directory(directory))
    if (has(base::join_path(directory, name), kConfigFile)) names.push_back(name);
  return names;
}

// Writes text as YAML: plain if that means the same text, otherwise as JSON writes it.
std::string yaml(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '.' || c == '_' || c == '-' ||
           (c >= '0' && c <= '9') || c == ':';
  };
  const bool letter =
      std::ranges::any_of(text, [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  const bool starts = !text.empty() && text.front() != '-' && text.front() != ':' && text.back() != ':';
  if (letter && starts && std::ranges::all_of(text, is_plain)) return text;
  return base::Json(text).dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

std::string metadata(const config::LoraConfig& config, std::span<const std::string_view> more) {
  const std::string& base = config.base_model_name_or_path;
  std::set<std::string> tags = {"lora", "transformers"};
  for (const std::string_view tag : more) tags.emplace(tag);
  std::string text = "---\n";
  if (!base.empty()) {
    text += fmt::format("base_model: {}\n", yaml(base));
    tags.insert("base_model:adapter:" + base);
  }
  text += "library_name: peft\n";
  if (config.task_type == "CAUSAL_LM") text += "pipeline_tag: text-generation\n";
  text += "tags:\n";
  for (const std::string& tag : tags) text += fmt::format("- {}\n", yaml(tag));
  return text + "---\n";
}

// Accepts owner/name. Local paths mean nothing elsewhere.
bool is_hub_name(const std::string& base) {
  const size_t slash = base.find('/');
  return slash != base.npos && slash == base.rfind('/') && slash != 0 && base.front() != '.' &&
         !base::file_exists(base);
}

constexpr std::string_view kPipeline = R"(```python
from transformers import pipeline

pipe = pipeline("{}", model="path/of/this/folder")
```
)";

}  // namespace

std::string config_text(const LoraConfig& config, const Selection& selection,
                        std::span<const Module> modules) {
  std::map<std::string, Json> fields;
  for (const char* const name : {"alora_invocation_tokens", "arrow_config", "auto_mapping", "corda_config",
                                 "eva_config", "kasa_config", "layer_replication", "lora_ga_config",
                                 "megatron_config", "monteclora_config", "use_bdlora", "velora_config"})
    fields[name] = nullptr;
  fields["loftq_config"] = Json::object();
  fields["megatron_core"] = "megatron.core";
  fields["qalora_group_size"] = 16;
  fields["use_qalora"] = false;
  fields["inference_mode"] = true;
  fields["peft_type"] = "LORA";
  fields["peft_version"] = "0.21.2";
  fields["base_model_name_or_path"] = text_or_null(config.base_model_name_or_path);
  fields["revision"] = text_or_null(config.revision);
  fields["task_type"] = text_or_null(config.task_type);
  fields["r"] = config.r;
  fields["lora_alpha"] = number(config.lora_alpha);
  fields["lora_dropout"] = config.lora_dropout;
  fields["rank_pattern"] = Json::object();
  for (const auto& [name, rank] : config.rank_pattern) fields["rank_pattern"][name] = rank;
  fields["alpha_pattern"] = Json::object();
  for (const auto& [name, alpha] : config.alpha_pattern) fields["alpha_pattern"][name] = number(alpha);
  fields["target_modules"] = modules_or_null(selection.target_modules);
  if (fields["target_modules"].is_null()) fields["target_modules"] = Json::array();
  fields["exclude_modules"] = modules_or_null(config.exclude_modules);
  fields["target_parameters"] = list_or_null(config.target_parameters);
  fields["modules_to_save"] = list_or_null(config.modules_to_save);
  fields["layers_to_transform"] = list_or_null(config.layers_to_transform);
  fields["layers_pattern"] = list_or_null(config.layers_pattern);
  fields["trainable_token_indices"] = tokens(config);
  fields["bias"] = bias_name(config.bias);
  fields["lora_bias"] = config.lora_bias;
  fields["use_rslora"] = config.use_rslora;
  fields["use_dora"] = config.use_dora;
  fields["fan_in_fan_out"] = has_conv1d(selection, modules);
  fields["ensure_weight_tying"] = config.ensure_weight_tying;
  fields["init_lora_weights"] = init_name(config);
  restore_forms(config, fields);
  Json sorted = Json::object();
  for (auto& [name, value] : fields) sorted[name] = std::move(value);
  return sorted.dump(2, ' ', true);
}

bool is_adapter(const std::string& directory) {
  return has(directory, kConfigFile) && !has(directory, "config.json");
}

std::string base_model(const std::string& directory, std::string_view key) {
  const std::string path = read_config(directory).base_model_name_or_path;
  if (base::file_exists(path) || base::is_directory(path)) return path;
  fail_key(key,
           "{}: the adapter {} belongs to the model '{}' (base_model_name_or_path), which does not exist: "
           "give its model, a directory or a GGUF file",
           key, directory, path);
}

std::string model_name(const std::string& path) {
  constexpr std::string_view kPrefix = "models--";
  std::filesystem::path place(path);
  if (!place.has_filename()) place = place.parent_path();  // without the slash at its end
  const std::filesystem::path snapshots = place.parent_path();
  const std::string folder = snapshots.parent_path().filename().string();
  if (snapshots.filename() != "snapshots" || !folder.starts_with(kPrefix)) return path;
  std::string name = folder.substr(kPrefix.size());
  if (const size_t at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
  return name;
}

Selection select_saved(const std::string& directory, const LoraConfig& config,
                       std::span<const Module> modules, std::string_view model_type) {
  return in_file(directory, [&] { return select(config, modules, model_type); });
}

LoraConfig read_config(const std::string& directory, std::span<const Module> modules,
                       std::string_view model_type) {
  const LoraConfig config = read_config(directory);
  return in_file(directory, [&] { return with_stacked_experts(config, modules, model_type); });
}

LoraConfig read_config(const std::string& directory) {
  const std::string path = base::join_path(directory, kConfigFile);
  if (!base::file_exists(path)) {
    const std::vector<std::string> folders = adapter_folders(directory);
    fail(Status::not_found, "{}: this is not an adapter: {} is missing{}", Place::in(directory), kConfigFile,
         folders.empty()
             ? ""
             : fmt::format("; the folders {} have it: give one of them", fmt::join(folders, ", ")));
  }
  return reading(path,
                 [&] { return config::read_lora_config(base::read_json_file(path), path, Status::format); });
}

std::string model_card(const WholeModel& model, std::span<const std::string_view> tags) {
  const std::string base = model.base.empty() ? "another model" : "`" + model.base + "`";
  std::string text = "---\n";
  if (is_hub_name(model.base)) text += fmt::format("base_model: {}\n", yaml(model.base));
  text += fmt::format("library_name: transformers\nmodel_name: {}\ntags:\n", yaml(model.name));
  if (!tags.empty()) text += "- generated_from_trainer\n";
  for (const std::string_view tag : tags) text += fmt::format("- {}\n", yaml(std::string(tag)));
  if (model.gguf) text += "- gguf\n";
  if (tags.empty() && !model.gguf) text += "- transformers\n";
  text += fmt::format("---\n\n# {}\n\n{} made from {}{}.\n\n## Use\n\n", model.name,
                      model.classifier ? "A reward model" : "A language model", base,
                      tags.empty() ? "" : fmt::format(" with {}", fmt::join(tags, ", ")));
  if (model.gguf) return text + "```sh\nllama-cli -m path/of/this/folder/model.gguf\n```\n";
  return text +
         fmt::format(fmt::runtime(kPipeline), model.classifier ? "text-classification" : "text-generation");
}

std::string model_card(const config::LoraConfig& config, std::span<const std::string_view> tags) {
  const bool classifier = config.task_type == "SEQ_CLS";
  const std::string base =
      config.base_model_name_or_path.empty() ? "its base model" : "`" + config.base_model_name_or_path + "`";
  return metadata(config, tags) +
         fmt::format(
             "\n# LoRA adapter\n\nA LoRA adapter of {}, with rank {} and lora_alpha {:g}{}. The folder holds "
             "no weights of the base model.\n\n## Use\n\n```python\nfrom peft import {}\n\nmodel = "
             "{}.from_pretrained(\"path/of/this/folder\")\n```\n",
             base, config.r, config.lora_alpha, config.use_dora ? " and DoRA" : "",
             classifier ? "AutoPeftModelForSequenceClassification" : "AutoPeftModelForCausalLM",
             classifier ? "AutoPeftModelForSequenceClassification" : "AutoPeftModelForCausalLM");
}

}  // namespace trl::adapter
