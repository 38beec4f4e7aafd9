#include "adapter/model_card.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/files/files.h"
#include "base/json/json.h"

namespace trl::adapter {

namespace {

// Writes text as YAML: plain if that means the same text, otherwise as JSON writes it.
std::string yaml(const std::string& text) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '/' || c == '.' || c == '_' || c == '-' ||
           (c >= '0' && c <= '9') || c == ':';
  };
  const bool letter = std::any_of(text.begin(), text.end(),
                                  [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); });
  const bool starts = !text.empty() && text.front() != '-' && text.front() != ':' && text.back() != ':';
  if (letter && starts && std::all_of(text.begin(), text.end(), is_plain)) return text;
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
             "no "
             "weights of the base model.\n\n## Use\n\n```python\nfrom peft import {}\n\nmodel = "
             "{}.from_pretrained(\"path/of/this/folder\")\n```\n",
             base, config.r, config.lora_alpha, config.use_dora ? " and DoRA" : "",
             classifier ? "AutoPeftModelForSequenceClassification" : "AutoPeftModelForCausalLM",
             classifier ? "AutoPeftModelForSequenceClassification" : "AutoPeftModelForCausalLM");
}

}  // namespace trl::adapter
