#include "run/rollout/rewards/reward_model.h"

#include <cmath>
#include <filesystem>

#include "adapter/config_file.h"
#include "base/error.h"
#include "base/files/files.h"
#include "config/model_options.h"
#include "data/row/row_text.h"
#include "engine/error_capture.h"
#include "run/open_model.h"
#include "run/tokenizer.h"

namespace trl::run {

namespace {

constexpr const char* kModelKey = "reward_model_name_or_path";

class RewardModel final : public reward::Reward {
 public:
  RewardModel(Environment& environment, const std::string& path, const config::RunOptions& options)
      : environment_(environment),
        name_(reward_model_name(path)),
        bf16_(options.arguments.bf16),
        by_ids_(options.arguments.method->episodes),
        batch_(by_ids_ ? options.arguments.online.local_rollout_forward_batch_size
                       : options.arguments.per_device_train_batch_size) {
    config::Config plain;
    for (const char* key : {"dtype", "split_special_tokens"}) plain.set(key, options.config.get(key));
    const io::ModelSource source(base_path(path, plain));
    tokenizer_ = open_tokenizer(tokenizer_source(source, plain), plain, environment.log());
    variables_ = data::template_variables(tokenizer_->get(), options.arguments.online.chat_template_kwargs);
    model_ = open_model(environment, source, plain, {.reward = true, .mapped = true, .bf16 = bf16_});
  }

  std::string_view name() const override { return name_; }

  reward::Rewards score(const reward::RewardBatch& batch) override {
    std::vector<std::vector<int32_t>> ids;
    for (const reward::Completion& own : batch.completions)
      ids.push_back(by_ids_ ? ids_of(own) : ids_of_text(own));
    std::vector<std::span<const int32_t>> texts(ids.begin(), ids.end());
    std::vector<float> scores(ids.size());
    engine::ErrorCapture error;
    error.check(model_->score({.texts = texts, .bf16 = bf16_, .batch = batch_, .at_end = by_ids_},
                              scores.data(), error));
    return {scores.begin(), scores.end()};
  }

 private:
  static std::vector<int32_t> ids_of(const reward::Completion& own) {
    std::vector<int32_t> ids(own.prompt_ids.begin(), own.prompt_ids.end());
    ids.insert(ids.end(), own.ids.begin(), own.ids.end());
    return ids;
  }
  std::vector<int32_t> ids_of_text(const reward::Completion& own) const {
    if (own.messages == nullptr) {
      const std::string text =
          (own.prompt != nullptr ? own.prompt->get<std::string>() : "") + std::string(own.text);
      return tokenizer_->get().encode(text, false, tokenizer_->get().given_of(text.size()));
    }
    base::Json messages = *own.prompt;
    for (const base::Json& message : *own.messages) messages.push_back(message);
    return tokenizer_->encode_messages(messages, variables_);
  }

  Environment& environment_;
  const std::string name_;
  const bool bf16_;
  const bool by_ids_;
  const int64_t batch_;
  std::shared_ptr<Tokenizer> tokenizer_;
  base::Json variables_;  // of its template
  EngineObject<engine::Model> model_;
};

// Makes errors of a body name the key.
template <class Body>
auto naming_model(Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.key() == kModelKey || error.status() == Status::cancelled) throw;
    throw error.with(fmt::format("{}: {}", kModelKey, error.message()), kModelKey);
  }
}

}  // namespace

std::string reward_model_name(const std::string& path) {
  const std::filesystem::path own(adapter::model_name(path));
  return (own.has_filename() ? own : own.parent_path()).filename().string();
}

void check_reward_model(const std::string& path) {
  naming_model([&] {
    if (!base::file_exists(path) && !base::is_directory(path))
      fail_key(kModelKey, "{}: {} does not exist: give a model directory", kModelKey, path);
    if (adapter::is_adapter(path)) adapter::base_model(path, kModelKey);
    config::Config plain;
    const io::ModelSource source(base_path(path, plain));
    if (source.form() == io::ModelForm::directory && !source.has("config.json"))
      fail_key(kModelKey, "{}: {} has no config.json: give a model directory", kModelKey, source.name());
    if (!is_reward(source, plain))
      fail_key(kModelKey,
               "{}: {} is a language model: give a classifier with one label, such as trl reward makes",
               kModelKey, path);
  });
}

std::unique_ptr<reward::Reward> open_reward_model(Environment& environment,
                                                  const config::RunOptions& options) {
  const std::string& path = options.arguments.online.reward_model;
  return naming_model([&] { return std::make_unique<RewardModel>(environment, path, options); });
}

}  // namespace trl::run
