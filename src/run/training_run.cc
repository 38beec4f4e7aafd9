#include "run/training_run.h"

#include <algorithm>

#include "adapter/config_file.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/files/host_files.h"
#include "base/json/json.h"
#include "config/beside_arguments.h"
#include "config/dataset/data_arguments.h"
#include "config/lora_config.h"
#include "config/online/completion_records.h"
#include "data/tokenizer/open_tokenizer.h"
#include "engine/error_capture.h"
#include "io/gguf.h"
#include "run/complete/sample_prompts.h"
#include "run/rollout/rewards/reward_options.h"
#include "run/server/http_module.h"

namespace trl::run {

namespace {

void check_folders(const config::TrainingArguments& arguments) {
  need_writable("output_dir", arguments.output_dir);
  const std::vector<std::string>& reports = arguments.report_to;
  if (!arguments.logging_dir.empty() && std::ranges::find(reports, "tensorboard") != reports.end())
    need_writable("logging_dir", arguments.logging_dir);
  if (arguments.makes_offload_dir) need_writable("offload_dir", config::offload_directory(arguments));
  if (!arguments.cache_frozen_layers.empty())
    need_writable("cache_frozen_layers", arguments.cache_frozen_layers);
  if (arguments.preference.precompute_ref_log_probs)
    need_writable("ref_logprobs_cache_dir", arguments.preference.ref_logprobs_cache_dir);
}

// Says whether the engine has to check a run; it is not opened for the others.
bool asks_engine(const config::RunOptions& options) {
  const auto& [config, arguments] = options;
  return !arguments.attention.plugin.empty() || config.get_text("memory_budget") ||
         arguments.fused_kernels == config::FusedKernels::on || arguments.resume_from_checkpoint ||
         base::is_directory(arguments.output_dir);
}

bool brings_tokens(const io::ModelSource& model) {
  if (model.form() != io::ModelForm::gguf) return has_tokenizer(model);
  return model.gguf()->find("tokenizer.ggml.tokens") != nullptr;
}

// Returns the token of an id, with spaces written as spaces. nullopt: no text makes it, like the filler
// tokens of a GGUF file's list.
std::optional<std::string> token_of(const text::Tokenizer& tokenizer, int32_t id) {
  constexpr std::string_view kMark = "\u2581";  // GGUF files have it in some tokens as a space
  std::optional<std::string> token = tokenizer.id_to_token(id);
  if (!token || *token == fmt::format("[PAD{}]", id)) return std::nullopt;
  for (size_t at = 0; (at = token->find(kMark, at)) != token->npos; ++at)
    token->replace(at, kMark.size(), 1, ' ');
  return token;
}

// A value model is trained as a whole. It is the reward model if no other was given.
void refuse_value_adapter(const config::OnlineArguments& online) {
  constexpr const char* kKey = "value_model_name_or_path";
  if (online.value_model.empty() || !adapter::is_adapter(online.value_model)) return;
  fail_key(kKey,
           "{}: {} is an adapter, and the model of values is trained as a whole: give the directory of a "
           "whole classifier, or value_head_on_policy: true; trl convert merges an adapter into its model",
           kKey, online.value_model);
}

void refuse_classifier(std::string_view key, const base::NamedFiles& files) {
  if (!names_classifier(files)) return;
  const base::Json first = base::read_json_file(files, "config.json")["architectures"].front();
  fail_key(key,
           "{}: {}: \"architectures\" begins with {}, a classifier, which gives no log-probabilities of "
           "tokens: give a language model",
           key, files.place("config.json"), first.dump());
}

}  // namespace

void refuse_combinations(const config::Config& config, const config::TrainingArguments& arguments) {
  if (config::lora_config(config) && arguments.save_format == config::SaveFormat::gguf) {
    fail_key("save_format",
             "save_format: gguf saves a whole model, and with use_peft only an adapter is saved: give "
             "safetensors, or leave it out");
  }
  read_sample_prompts(config::sample_arguments(config));
  config::check_teacher(config);
  config::beside_arguments(config);
  config::completion_records(config, arguments.online);
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
       {"ref_model_name_or_path", "teacher_model_name_or_path", "adapter_name_or_path", "output_dir",
        "logging_dir", "offload_dir", "dataset_cache_dir", "cache_frozen_layers", "ref_logprobs_cache_dir",
        "record_rollouts", "replay_rollouts", "vllm_server_adapter_dir", "vllm_server_api_key_file"}) {
    const auto path = config.get_text(key);
    if (!path || path->empty() || path->starts_with('~')) continue;
    config.set(key, base::absolute_path(*path));
  }
  return config;
}

std::shared_ptr<Tokenizer> open_training_tokenizer(const config::Config& config, RunModel& model,
                                                   base::LogSink& log) {
  const auto own = data::open_tokenizer(tokenizer_source(model.source, config), &log);
  auto made = std::make_shared<Tokenizer>(data::training_tokenizer(*own, config::data_arguments(config)));
  for (const auto& [id, token] : made->get().added_tokens())
    if (!own->token_to_id(token.content)) model.new_tokens.push_back(id);
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
                                               const io::ModelSource& model) {
  if (options.arguments.attention.plugin.empty()) return {};
  engine::Attention* attention = nullptr;
  engine::ErrorCapture error;
  error.check(environment.engine().open_attention({&options, model}, &attention, error));
  return EngineObject<engine::Attention>(attention);
}

bool takes_tokens_over(const config::Config& config) {
  return data::names_template_model(config::data_arguments(config));
}

int64_t wanted_embedding_rows(const config::Config& config, const Tokenizer& tokenizer) {
  return takes_tokens_over(config) ? tokenizer.get().vocab_size() : adapter_embedding_rows(config);
}

void check_run(Environment& environment, const config::RunOptions& options) {
  const auto& [config, arguments] = options;
  refuse_combinations(config, arguments);
  check_folders(arguments);
  output_path(config, "record_rollouts");
  if (arguments.online.server) http_module();
  check_reward_options(arguments.online);
  for (const auto& [key, path] : models_beside(arguments)) check_other_model(key, path);
  if (arguments.method->episodes) refuse_value_adapter(arguments.online);
  if (!asks_engine(options)) return;
  engine::ErrorCapture error;
  error.check(environment.engine().check_run(options, error));
}

void tell_options(base::LogSink& log, const config::Config& config) {
  std::vector<std::string> warnings = config.warnings();
  for (std::string& line : config::idle_options(config)) warnings.push_back(std::move(line));
  for (const std::string& warning : config::by_reason(warnings))
    log.write(base::LogLevel::warning, "config", warning);
  for (const std::string& note : config::run_notes(config)) log.write(base::LogLevel::info, "config", note);
}

void need_writable(std::string_view key, const std::string& directory) {
  try {
    base::need_writable_directory(directory);
  } catch (const Error& error) {
    throw error.with(fmt::format("{}: {}", key, error.message()), key);
  }
}

std::optional<std::string> output_path(const config::Config& config, const std::string& key) {
  std::optional<std::string> path = config.get_text(key);
  if (!path) return path;
  const size_t slash = path->rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path->substr(0, slash + 1);
  if (!base::is_directory(folder))
    throw Error(Status::not_found, fmt::format("{}: {}: the folder does not exist", key, folder), key);
  if (base::is_directory(*path))
    throw Error(Status::io, fmt::format("{}: {} is a folder; name a file", key, *path), key);
  need_writable(key, folder);
  return path;
}

std::vector<OtherModel> models_beside(const config::TrainingArguments& arguments) {
  std::vector<OtherModel> models = {{"ref_model_name_or_path", arguments.preference.reference},
                                    {"teacher_model_name_or_path", arguments.online.teacher}};
  std::erase_if(models, [](const OtherModel& model) { return model.path.empty(); });
  return models;
}

void check_other_model(std::string_view key, const std::string& path) {
  if (!base::file_exists(path) && !base::is_directory(path))
    fail_key(key, "{}: {} does not exist: give a model directory or a GGUF file", key, path);
  if (adapter::is_adapter(path)) {
    fail_key(key,
             "{}: {} is an adapter: give the directory of a whole model or a GGUF file; trl convert merges "
             "an adapter into its model",
             key, path);
  }
  refuse_classifier(key, path);
}

void check_tokens(std::string_view key, const io::ModelSource& model, const text::Tokenizer& trained) {
  if (!brings_tokens(model)) return;
  const auto own = data::open_tokenizer(model);
  const auto size = static_cast<int32_t>(std::min(own->vocab_size(), trained.vocab_size()));
  for (int32_t id = 0; id < size; ++id) {
    const auto theirs = token_of(*own, id), ours = token_of(trained, id);
    if (!theirs || !ours || *theirs == *ours) continue;
    fail_key(key,
             "{}: {} has another vocabulary than the model that is trained (token {} is {} there, and {} "
             "here): give a model with the same tokenizer",
             key, model.name(), id, base::Json(*own->id_to_token(id)).dump(),
             base::Json(*trained.id_to_token(id)).dump());
  }
}

void check_tokens_of_models(const config::TrainingArguments& arguments, const text::Tokenizer& trained) {
  for (const auto& [key, path] : models_beside(arguments)) check_tokens(key, path, trained);
  if (!arguments.method->episodes) return;
  const config::OnlineArguments& online = arguments.online;
  if (!online.reward_model.empty()) check_tokens("reward_model_name_or_path", online.reward_model, trained);
  if (!online.value_model.empty() && online.value_model != online.reward_model)
    check_tokens("value_model_name_or_path", online.value_model, trained);
}

}  // namespace trl::run
