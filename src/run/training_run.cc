#include "run/training_run.h"

#include <filesystem>

#include "config/data_arguments.h"
#include "config/lora_config.h"
#include "data/tokenizer/open_tokenizer.h"
#include "data/tokenizer/template_model.h"
#include "engine/error_capture.h"
#include "run/complete/sample_prompts.h"
#include "run/model_files.h"

namespace trl::run {

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
  refuse_tokens_beside_adapter(config);
}

void refuse_tokens_beside_adapter(const config::Config& config) {
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
  return with_absolute_paths(std::move(config));
}

config::Config with_absolute_paths(config::Config config) {
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
                                                   std::vector<int32_t>& new_tokens, base::LogSink& log) {
  const auto own = data::open_tokenizer(tokenizer_path(model_path, config), &log);
  auto made = std::make_shared<Tokenizer>(data::training_tokenizer(*own, config::data_arguments(config)));
  for (const auto& [id, token] : made->get().added_tokens()) {
    if (!own->token_to_id(token.content)) new_tokens.push_back(id);
  }
  return made;
}

engine::SpecialTokens special_tokens(const text::Tokenizer& tokenizer, const config::Config& config) {
  const auto id = [&](const auto& token) { return tokenizer.special_id(token).value_or(-1); };
  const text::Tokenizer::Special& special = tokenizer.special();
  const auto end = takes_tokens_over(config)      ? engine::EndToken::replaced
                   : config.get_text("eos_token") ? engine::EndToken::added
                                                  : engine::EndToken::aligned;
  return {id(special.bos), id(special.eos), id(special.pad), end};
}

EngineObject<engine::Attention> open_attention(Environment& environment, const config::RunOptions& options,
                                               const std::string& model_path) {
  if (options.arguments.attention.plugin.empty()) return {};
  engine::Attention* attention = nullptr;
  engine::ErrorCapture error;
  error.check(environment.engine().open_attention({&options, model_path}, &attention, error));
  return EngineObject<engine::Attention>(attention);
}

bool takes_tokens_over(const config::Config& config) {
  return data::names_template_model(config::data_arguments(config));
}

int64_t wanted_embedding_rows(const config::Config& config, const Tokenizer& tokenizer) {
  return takes_tokens_over(config) ? tokenizer.get().vocab_size() : adapter_embedding_rows(config);
}

}  // namespace trl::run
