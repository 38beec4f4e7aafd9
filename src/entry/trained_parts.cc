#include "entry/trained_parts.h"

#include <algorithm>
#include <optional>

#include "adapter/config_file.h"
#include "base/error.h"
#include "config/lora_config.h"
#include "config/model_options.h"

namespace trl::entry {

namespace {

// TRL trains factors in bfloat16 above a model that bitsandbytes holds, whether an option asked for that or
// the checkpoint was saved so.
at::ScalarType factor_type(model::Model& model, const config::Config& config) {
  const bool held = config::quantization(config) || model.config_json().contains("quantization_config");
  if (held) return at::kBFloat16;
  return config.get_bool("autocast_adapter_dtype") ? at::kFloat : model.dtype();
}

// "model.embed_tokens" -> "embed_tokens"
std::string last_name(const std::string& module) { return module.substr(module.rfind('.') + 1); }

// Follows TRL: the adapter trains the rows of new tokens, and the whole head. A head that is the embedding
// has those rows already.
void train_tokens(config::LoraConfig& lora, model::Model& model, std::span<const int32_t> tokens,
                  base::LogSink& log) {
  if (tokens.empty()) return;
  std::string embedding, head;
  for (const model::Slot& slot : model.adapters().slots()) {
    if (!slot.takes_rows) continue;
    if (!slot.module.head) embedding = last_name(slot.module.name);
    if (slot.module.head && !slot.module.tied) head = last_name(slot.module.name);
  }
  auto& all = lora.trainable_token_indices;
  auto own =
      std::ranges::find_if(all, [&](const auto& one) { return one.first.empty() || one.first == embedding; });
  if (own == all.end()) own = all.insert(all.end(), {embedding, {}});
  for (const int32_t token : tokens)
    if (std::ranges::find(own->second, token) == own->second.end()) own->second.push_back(token);
  std::vector<std::string>& saved = lora.modules_to_save;
  if (head.empty() || std::ranges::find(saved, head) != saved.end()) return;
  log.warning("adapter", "chat_template_path: there are new tokens, so {} is trained whole (modules_to_save)",
              head);
  saved.push_back(head);
}

void warn_of_head(const model::Model& model, const model::Adapter& adapter, base::LogSink& log) {
  if (!model.config().new_head) return;
  for (const tensor::Parameter* parameter : adapter.parameters())
    if (parameter->name.ends_with("score.weight")) return;
  log.warning("adapter",
              "lora_task_type: {} leaves the new head as it was drawn: give SEQ_CLS, or "
              "lora_modules_to_save: score, to train it",
              adapter.config().task_type);
}

}  // namespace

model::Head head_of(const config::Config& config) {
  return config.method().scores() ? model::Head::reward : model::Head::language;
}

void retype_adapter(model::Model& model, const config::Config& config) {
  model::Adapters& adapters = model.adapters();
  const at::ScalarType type = factor_type(model, config);
  if (type == at::kFloat || adapters.find("default") == nullptr) return;
  adapters.remove("default");
  adapters.use(&adapters.open("default", config.get("adapter_name_or_path"), nullptr, type));
}

// use_peft: an adapter is trained and the model is frozen.
void add_adapter(model::Model& model, const std::string& path, const config::Config& config,
                 std::span<const int32_t> new_tokens, base::LogSink& log) {
  std::optional<config::LoraConfig> lora = config::lora_config(config);
  if (!lora) return;
  if (model.adapters().find("default") == nullptr) {
    lora->base_model_name_or_path = adapter::model_name(path);
    train_tokens(*lora, model, new_tokens, log);
    model.adapters().add("default", *lora, factor_type(model, config), &log).start(model.generator());
  } else {
    retype_adapter(model, config);
  }
  model.train_only(model.adapters().get("default"));
  warn_of_head(model, model.adapters().get("default"), log);
  int64_t trained = 0, all = 0;
  for (const tensor::Parameter* parameter : model.all_parameters()) {
    all += parameter->count();
    if (parameter->trainable) trained += parameter->count();
  }
  log.info("adapter", "{} of {} parameters are trained ({:.2f} %)", trained, all,
           100 * static_cast<double>(trained) / static_cast<double>(all));
}

// Refused as in transformers' Trainer.
void refuse_quantised(model::Model& model, const config::Config& config) {
  if (config.get_bool("use_peft")) return;
  for (const tensor::Parameter* parameter : model.parameters()) {
    if (parameter->encoded() == nullptr) continue;
    fail_key("use_peft",
             "use_peft: false asks for all weights to be trained, and {} is held as {}, which cannot be "
             "trained: train adapters on top of it (use_peft: true), or open the model without quantisation",
             parameter->name, parameter->encoded()->form());
  }
}

}  // namespace trl::entry
