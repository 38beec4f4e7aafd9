#include "serve/engine/model.h"

#include <algorithm>
#include <ctime>

namespace trl::serve {

namespace {

base::Json description(const trl_model* model) {
  ErrorHandle error;
  const char* json = nullptr;
  check(trl_model_describe(model, &json, error.out()), error);
  return base::parse_json(json, "model");
}

uint64_t parameters_of(const trl_model* model) { return description(model).value("parameters", uint64_t{0}); }

// Returns the first of these sizes that config.json names, at its top or within the text model's part.
std::optional<int64_t> size_of(const base::Json& config, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const auto found = config.find(name);
    if (found != config.end() && found->is_number_integer() && *found > 0) return found->get<int64_t>();
  }
  const auto part = config.find("text_config");
  return part != config.end() && part->is_object() ? size_of(*part, names) : std::nullopt;
}

// Has the library look at the options of requests that do not give them, so that what is wrong is told now.
void check_options(trl_generator* generator, const ModelOptions& options) {
  if (options.generation.empty()) return;
  std::map<std::string, std::string> all = options.generation;
  all.erase("generate.min_new_tokens");
  all["generate.max_new_tokens"] = "1";
  const auto config = job_options({all.begin(), all.end()});
  const int32_t id = 0;
  size_t number = 0;
  ErrorHandle error;
  const trl_status status =
      trl_generator_add(generator, nullptr, 0, &id, 1, config->get(), &number, error.out());
  if (status == TRL_E_BUSY) return;  // the host uses the model: requests tell
  check(status, error);
  CompletionsHandle nothing;
  trl_generator_cancel(generator, number, 1, nullptr);
  trl_generator_take(generator, number, 1, nothing.out(), nullptr);
}

}  // namespace

ServedModel::ServedModel(const capi::ServeTable& table, std::vector<std::string> names, ModelOptions options,
                         std::unique_ptr<ModelHandle> model, std::unique_ptr<GeneratorHandle> generator,
                         std::unique_ptr<TokenizerHandle> tokenizer, bool adapts)
    : names_(std::move(names)),
      options_(std::move(options)),
      model_(std::move(model)),
      generator_(std::move(generator)),
      tokenizer_(std::move(tokenizer)),
      created_(static_cast<int64_t>(std::time(nullptr))),
      worker_(table, generator_->get(), options_),
      adapters_(adapts ? model_->get() : nullptr, worker_, options_.max_loras),
      weights_(table, adapts ? model_->get() : nullptr, worker_, parameters_of(model_->get())) {
  check_options(generator_->get(), options_);
  worker_.before_work([this] { return adapters_.sweep(); });
  const base::Json described = description(model_->get());
  const base::Json config = described.value("config", base::Json::object());
  max_length_ = size_of(config, {"max_position_embeddings", "n_positions", "n_ctx", "max_sequence_length"});
  const auto text = config.find("text_config");
  most_ids_ = size_of(text != config.end() && text->is_object() ? *text : config, {"vocab_size"});
  if (options_.max_model_len && max_length_ && *options_.max_model_len > *max_length_)
    fail_key("serve.max_model_len",
             "serve.max_model_len: {} is more than the {} positions of the model; give at most {}",
             *options_.max_model_len, *max_length_, *max_length_);
  if (options_.max_model_len) max_length_ = options_.max_model_len;
  const base::Json dtype = config.value("torch_dtype", config.value("dtype", base::Json()));
  dtype_ = dtype.is_string() ? dtype.get<std::string>() : "float32";
  ErrorHandle error;
  const char* json = nullptr;
  check(trl_tokenizer_describe(tokenizer_->get(), &json, error.out()), error);
  const base::Json tokens = base::parse_json(json, "tokenizer");
  vocab_size_ = tokens.value("vocab_size", int64_t{0});
  const base::Json templates = tokens.value("chat_template", base::Json());
  for (const bool tools : {false, true}) {
    if (templates.is_string()) templates_[tools] = templates.get<std::string>();
    if (!templates.is_object()) continue;
    const std::string own = templates.value("default", "");
    templates_[tools] = tools ? templates.value("tool_use", own) : own;
  }
}

bool ServedModel::has(std::string_view name) const {
  return std::ranges::find(names_, name) != names_.end() || adapters_.find(name) != nullptr;
}

std::string ServedModel::name_in_answers(const std::optional<std::string>& name) const {
  if (!name || name->empty() || std::ranges::find(names_, *name) != names_.end()) return names_.front();
  return *name;
}

std::vector<int32_t> ServedModel::encode(std::string_view text, bool add_special_tokens) const {
  return filled<std::vector<int32_t>>([&](int32_t* ids, size_t capacity, size_t* count, trl_error** error) {
    return trl_tokenizer_encode(tokenizer_->get(), text.data(), text.size(), add_special_tokens ? 1 : 0, -1,
                                ids, capacity, count, error);
  });
}

std::string ServedModel::decode(std::span<const int32_t> all, bool skip_special_tokens) const {
  std::vector<int32_t> ids(all.begin(), all.end());
  std::erase_if(ids, [this](int32_t id) { return id >= vocab_size_; });
  return filled<std::string>([&](char* text, size_t capacity, size_t* size, trl_error** error) {
    return trl_tokenizer_decode(tokenizer_->get(), ids.data(), ids.size(), skip_special_tokens ? 1 : 0, text,
                                capacity, size, error);
  });
}

std::string ServedModel::render(const base::Json& conversation) const {
  const std::string json = base::exact_text(conversation);
  return filled<std::string>([&](char* text, size_t capacity, size_t* size, trl_error** error) {
    return trl_tokenizer_apply_chat_template(tokenizer_->get(), json.data(), json.size(), text, capacity,
                                             size, error);
  });
}

}  // namespace trl::serve
