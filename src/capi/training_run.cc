#include "capi/training_run.h"

#include <filesystem>

#include "capi/model_handle.h"
#include "capi/runtime.h"
#include "capi/sample_prompts.h"
#include "config/data_arguments.h"
#include "config/lora_config.h"
#include "data/open_tokenizer.h"
#include "data/template_model.h"

namespace trl::capi {

std::string needed_model_path(const config::Config& config) {
  const auto path = config.get_text("model_name_or_path");
  if (!path || path->empty()) {
    fail_key("model_name_or_path", "model_name_or_path is not set; give a model directory or a GGUF file");
  }
  return *path;
}

void refuse_combinations(const config::Config& config, const config::TrainingArguments& arguments) {
  if (config::lora_config(config) && arguments.save_format == config::SaveFormat::gguf) {
    fail_key("save_format",
             "save_format: gguf saves a whole model, and with use_peft only an adapter is saved: give "
             "safetensors, or leave it out");
  }
  read_sample_prompts(config::sample_arguments(config));
  if (config.is_set("adapter_name_or_path") && takes_tokens_over(config)) {
    fail_key("chat_template_path",
             "chat_template_path: a model's directory brings tokens that the adapter of adapter_name_or_path "
             "does not have: give the file of a chat template, or begin a new adapter");
  }
}

config::Config with_whole_paths(config::Config config) {
  if (const auto model = config.get_text("model_name_or_path"); model && !model->empty()) {
    if (const std::string path = base_path(*model, config); path != *model) {
      if (!config.get_bool("use_peft")) {
        fail_key("model_name_or_path",
                 "model_name_or_path: {} is an adapter, which is trained on only with use_peft: give "
                 "use_peft: true, or the directory of a whole model",
                 *model);
      }
      config.set("model_name_or_path", path);
    }
  }
  if (!config.get_text("output_dir")) config.set("output_dir", "trainer_output");
  for (const std::string_view key :
       {"ref_model_name_or_path", "adapter_name_or_path", "output_dir", "logging_dir", "offload_dir",
        "dataset_cache_dir", "cache_frozen_layers", "ref_logprobs_cache_dir"}) {
    const auto path = config.get_text(key);
    if (!path || path->empty() || path->starts_with('~')) continue;
    config.set(key, std::filesystem::absolute(*path).string());
  }
  return config;
}

std::shared_ptr<Tokenizer> open_training_tokenizer(const config::Config& config,
                                                   const std::string& model_path,
                                                   std::vector<int32_t>& new_tokens) {
  const auto own = data::open_tokenizer(tokenizer_path(model_path, config), current_log());
  auto made = std::make_shared<Tokenizer>(data::training_tokenizer(*own, config::data_arguments(config)));
  for (const auto& [id, token] : made->get().added_tokens()) {
    if (!own->token_to_id(token.content)) new_tokens.push_back(id);
  }
  return made;
}

bool takes_tokens_over(const config::Config& config) {
  return data::names_template_model(config::data_arguments(config));
}

int64_t wanted_embedding_rows(const config::Config& config, const Tokenizer& tokenizer) {
  return takes_tokens_over(config) ? tokenizer.get().vocab_size() : adapter_embedding_rows(config);
}

}  // namespace trl::capi
