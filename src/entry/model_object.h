// engine::Model over model/, generate/ and checkpoint/.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "engine/engine.h"
#include "model/model.h"
#include "tensor/memory/gives_back.h"

namespace trl::entry {

// Opens the model of a specification, for real or in a rehearsal.
std::unique_ptr<model::Model> open_model(const engine::ModelSpec& spec, base::LogSink* log,
                                         at::Device device);

class ModelObject final : public engine::Model {
 public:
  ModelObject(engine::Host& host, const engine::ModelSpec& spec);
  model::Model& get() { return *model_; }
  const std::string& path() const { return path_; }  // of the model's files

  void release() noexcept override { delete this; }
  std::string_view config_json() noexcept override { return config_json_; }
  std::span<const int32_t> end_ids() noexcept override { return model_->end_ids(); }
  int64_t parameter_count() noexcept override { return parameter_count_; }
  int32_t save(std::string_view directory, engine::SaveKind kind, std::span<const engine::NamedBytes> files,
               engine::ErrorSink& error) noexcept override;
  int64_t learned_positions() noexcept override { return model_->config().learned_positions(); }
  int32_t add_adapter(std::string_view name, std::string_view directory,
                      engine::ErrorSink& error) noexcept override;
  int32_t remove_adapter(std::string_view name, engine::ErrorSink& error) noexcept override;
  int32_t use_adapter(std::string_view name, engine::ErrorSink& error) noexcept override;
  int32_t merge_adapter(std::string_view name, engine::ErrorSink& error) noexcept override;
  int32_t generate(std::span<const std::span<const int32_t>> prompts, const engine::Sampling& sampling,
                   engine::TokenSink& sink, engine::ErrorSink& error) noexcept override;
  int32_t score(const engine::ScoreSpec& spec, float* scores, engine::ErrorSink& error) noexcept override;

 private:
  ~ModelObject() = default;
  void warn_of_length(std::span<const std::span<const int32_t>> prompts, int64_t max_new_tokens) const;
  const tensor::GivesBack gives_back_;
  engine::Host& host_;
  const std::string path_;
  std::unique_ptr<model::Model> model_;
  std::string config_json_;
  int64_t parameter_count_ = 0;
};

}  // namespace trl::entry
