#include "entry/trainer.h"

#include <algorithm>

#include "base/error.h"
#include "config/config.h"
#include "config/lora_config.h"
#include "config/quantization.h"
#include "entry/attention.h"
#include "model/gguf_metadata.h"

namespace trl::entry {

config::Config config_of(std::span<const engine::KeyValue> values) {
  config::Config config;
  for (const engine::KeyValue& pair : values) config.set(pair.key, pair.value);
  return config;
}

namespace {

// TRL trains factors in bfloat16 above a model that bitsandbytes holds, whether an option asked for that or
// the checkpoint came so.
at::ScalarType factor_type(model::Model& model, const config::Config& config) {
  const bool held = config::quantization(config) || model.config_json().contains("quantization_config");
  return held ? at::kBFloat16 : at::kFloat;
}

// "model.embed_tokens" -> "embed_tokens"
std::string last_name(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// As TRL: the adapter trains the rows of new tokens, and the head whole. A head that is the embedding has
// those rows already.
void train_tokens(config::LoraConfig& lora, model::Model& model, std::span<const int32_t> tokens,
                  HostLog& log) {
  if (tokens.empty()) return;
  std::string embedding, head;
  for (const model::Slot& slot : model.adapters().slots()) {
    if (slot.own_rows == nullptr) continue;
    if (!slot.module.head) embedding = last_name(slot.module.name);
    if (slot.module.head && !slot.module.tied) head = last_name(slot.module.name);
  }
  auto& all = lora.trainable_token_indices;
  auto own = std::find_if(all.begin(), all.end(),
                          [&](const auto& one) { return one.first.empty() || one.first == embedding; });
  if (own == all.end()) own = all.insert(all.end(), {embedding, {}});
  for (const int32_t token : tokens) {
    if (std::find(own->second.begin(), own->second.end(), token) == own->second.end())
      own->second.push_back(token);
  }
  std::vector<std::string>& saved = lora.modules_to_save;
  if (head.empty() || std::find(saved.begin(), saved.end(), head) != saved.end()) return;
  log.warning("adapter", "chat_template_path: there are new tokens, so {} is trained whole (modules_to_save)",
              head);
  saved.push_back(head);
}

// use_peft: an adapter is trained and the model is frozen.
void add_adapter(model::Model& model, const std::string& path, const config::Config& config,
                 std::span<const int32_t> new_tokens, HostLog& log) {
  std::optional<config::LoraConfig> lora = config::lora_config(config);
  if (!lora) return;
  const at::ScalarType type = factor_type(model, config);
  if (model.adapters().find("default") == nullptr) {
    lora->base_model_name_or_path = path;
    train_tokens(*lora, model, new_tokens, log);
    model.adapters().add("default", *lora, type, &log).start(static_cast<uint64_t>(config.get_int("seed")));
  } else if (type != at::kFloat) {  // that of adapter_name_or_path, which was opened in float32
    model.adapters().remove("default");
    model.adapters().open("default", config.get("adapter_name_or_path"), nullptr, type);
  }
  model.train_only(model.adapters().get("default"));
  int64_t trained = 0, all = 0;
  for (const tensor::Parameter* parameter : model.all_parameters()) {
    all += parameter->count();
    if (parameter->trainable) trained += parameter->count();
  }
  log.info("adapter", "{} of {} parameters are trained ({:.2f} %)", trained, all,
           100 * static_cast<double>(trained) / static_cast<double>(all));
}

// As transformers' Trainer refuses it.
void refuse_quantised(model::Model& model, const config::Config& config) {
  if (config.get_bool("use_peft")) return;
  for (const tensor::Parameter* parameter : model.parameters()) {
    if (parameter->encoded() == nullptr) continue;
    fail_key("use_peft",
             "use_peft: false asks for all weights to be trained, and {} is held as {}, which cannot be: "
             "train adapters upon it (use_peft: true), or open the model without quantisation",
             parameter->name, parameter->encoded()->form());
  }
}

}  // namespace

TrainerObject::TrainerObject(engine::Host& host, const engine::TrainerSpec& spec)
    : host_(host), log_(host), model_(*static_cast<ModelObject*>(spec.model)) {
  const config::Config config = config_of(spec.config);
  for (const engine::NamedBytes& file : spec.files) files_.emplace_back(file.name, file.bytes);
  refuse_quantised(model_.get(), config);
  train::Setup setup;
  setup.arguments = config::training_arguments(config);
  setup.model = &model_.get();
  setup.model_path = model_.path();
  if (spec.attention != nullptr)
    setup.attention = static_cast<const AttentionObject*>(spec.attention)->plugin();
  for (const std::string& change : model_.get().align_special_tokens(spec.tokens))
    log_.info("model", "changed to match the tokenizer: {}", change);
  add_adapter(model_.get(), model_.path(), config, spec.new_tokens, log_);
  say_kernels(spec, setup.arguments);
  setup.train = spec.train;
  setup.eval = spec.eval;
  events_ = std::make_unique<RecordingEvents>(host, config, spec);
  setup.events = events_.get();
  for (const auto& [name, bytes] : files_) setup.files.push_back({name, bytes});
  setup.log = &log_;
  if (setup.arguments.save_format == config::SaveFormat::gguf)  // refused before it trains, not at the end
    model::gguf_metadata(model_.get().config(), {}, nullptr);
  vocabulary_ = spec.vocabulary.bytes;
  setup.vocabulary = {spec.vocabulary.pairs, vocabulary_, spec.vocabulary.eos};
  setup.options = config::result_options(config);
  trainer_ = std::make_unique<train::Trainer>(std::move(setup));
  events_->watch(trainer_->state());
  trainer_->resume_as_configured();
}

void TrainerObject::say_kernels(const engine::TrainerSpec& spec, const config::TrainingArguments& arguments) {
  const bool fused = arguments.fused_kernels != config::FusedKernels::off;
  if (const std::string why = why_plain(fused, model_.get().device()); !why.empty())
    log_.info("kernels", "libtorch's own operators compute this run, because {}", why);
  const std::string& asked = arguments.attention.name;
  const std::string used = spec.attention != nullptr
                               ? static_cast<const AttentionObject*>(spec.attention)->description()
                               : built_in_attention(fused);
  log_.info("attention", "attention: {}{}{}", asked, asked.empty() ? "" : " -> ", used);
}

std::span<const engine::Metric> TrainerObject::view(const telemetry::Record& record) {
  record_ = record;
  metrics_.clear();
  for (const telemetry::Entry& entry : record_.entries()) metrics_.push_back({entry.name, entry.value});
  return metrics_;
}

int32_t TrainerObject::step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept {
  *metrics = {};
  return compute(host_, error, [&] {
    try {
      if (!trainer_->step()) return Status::end;
    } catch (const Error& why) {
      events_->interrupted(why.message());
      throw;
    }
    *metrics = view(trainer_->metrics());
    return Status::ok;
  });
}

int32_t TrainerObject::evaluate(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept {
  *metrics = {};
  return compute(host_, error, [&] {
    *metrics = view(trainer_->evaluate());
    return Status::ok;
  });
}

int32_t TrainerObject::finish(engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    trainer_->finish();
    return Status::ok;
  });
}

int32_t TrainerObject::save(std::string_view directory, engine::SaveKind kind,
                            engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    const std::string target(directory);
    if (kind == engine::SaveKind::checkpoint) {
      trainer_->save_checkpoint(target);
    } else if (kind == engine::SaveKind::merged) {
      trainer_->save_merged(target);
    } else {
      if (kind == engine::SaveKind::adapter && model_.get().adapters().trained() == nullptr)
        fail_key("save.kind", "save.kind: adapter needs use_peft, and this run trains the model itself");
      trainer_->save_model(target);
    }
    return Status::ok;
  });
}

std::string_view TrainerObject::state_json() noexcept {
  try {
    state_json_ = telemetry::trainer_state_json(trainer_->state());
  } catch (const std::bad_alloc&) {
    state_json_.clear();
  }
  return state_json_;
}

}  // namespace trl::entry
