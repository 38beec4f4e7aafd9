// engine::Model over model/, generate/ and checkpoint/.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "config/beside_arguments.h"
#include "engine/beside.h"
#include "engine/exchange.h"
#include "generate/cache.h"
#include "kernels/path.h"
#include "model/adapter/versions.h"
#include "model/model.h"
#include "tensor/memory/counted.h"
#include "train/rollout/completion_writer.h"

namespace trl::entry {

// Opens the model of a specification, for real or in a rehearsal.
std::unique_ptr<model::Model> open_model(const engine::ModelSpec& spec, base::LogSink* log,
                                         at::Device device);

// How generators answer beside training.
struct Serving {
  model::AdapterVersions* versions;
  config::BesideArguments arguments;
};

class ModelObject final : public engine::ExchangingModel {
 public:
  ModelObject(engine::Host& host, const engine::ModelSpec& spec);
  ModelObject(engine::Host& host, const ModelObject& of);  // a twin, without adapters (model::Model::twin)
  // Has generators answer with the versions of an adapter, which are this model's own and outlive the calls.
  void serve(model::AdapterVersions& versions, const config::BesideArguments& arguments);
  // Returns the newest of these versions.
  const model::Adapter& newest_version() const;
  // Returns the adapter that a request generates with; null: none. Throws Error if there is none of that
  // name.
  const model::Adapter* adapter_of(const engine::Sampling& sampling) const;
  const Serving* serving() const { return serving_ ? &*serving_ : nullptr; }  // null: not beside training
  model::Model& get() { return *model_; }
  const model::Model& get() const { return *model_; }
  const io::ModelSource& source() const { return source_; }

  void release() noexcept override { delete this; }
  std::string_view config_json() noexcept override { return config_json_; }
  std::span<const int32_t> end_ids() noexcept override { return model_->end_ids(); }
  int64_t parameter_count() noexcept override { return parameter_count_; }
  int32_t save(std::string_view directory, engine::SaveKind kind, std::span<const engine::NamedBytes> files,
               engine::ErrorSink& error) noexcept override;
  int64_t learned_positions() noexcept override { return model_->config().learned_positions(); }
  int64_t positions() noexcept override { return model_->config().positions(); }
  int32_t add_adapter(std::string_view name, std::string_view directory,
                      engine::ErrorSink& error) noexcept override;
  int32_t remove_adapter(std::string_view name, engine::ErrorSink& error) noexcept override;
  int32_t use_adapter(std::string_view name, engine::ErrorSink& error) noexcept override;
  int32_t merge_adapter(std::string_view name, engine::ErrorSink& error) noexcept override;
  int32_t check_sampling(const engine::Sampling& sampling, engine::ErrorSink& error) noexcept override;
  int32_t create_generator(const engine::GeneratorSpec& spec, engine::Generator** out,
                           engine::ErrorSink& error) noexcept override;
  int32_t score(const engine::ScoreSpec& spec, float* scores, engine::ErrorSink& error) noexcept override;
  int32_t list_tensors(engine::TensorList& list, engine::ErrorSink& error) noexcept override;
  int32_t read_tensor(std::string_view name, engine::TensorRead what, engine::HeldTensor* out,
                      engine::ErrorSink& error) noexcept override;
  int32_t write_tensor(std::string_view name, const engine::GivenTensor& values,
                       engine::ErrorSink& error) noexcept override;
  int32_t exchange_tensor(std::string_view name, engine::HeldTensor& other,
                          engine::ErrorSink& error) noexcept override;

  // Returns what writes the completions of a run, with the adapter that is trained.
  std::unique_ptr<train::CompletionWriter> completion_writer(const engine::RolloutSpec& spec);

 private:
  ~ModelObject() = default;
  // Returns the sum of count(cache) over the caches that are in use.
  template <class Count>
  int64_t over_caches(const Count& count) const;
  std::shared_ptr<generate::Cache> cache_for(const generate::CacheKind& kind, int64_t bytes);
  const tensor::GivesBack gives_back_;
  engine::Host& host_;
  const io::ModelSource source_;
  const kernels::Path path_;
  std::unique_ptr<model::Model> model_;
  std::string config_json_;
  int64_t parameter_count_ = 0;
  std::vector<std::weak_ptr<generate::Cache>> caches_;
  std::optional<Serving> serving_;
};

// Gives back pages of libraries that the start of the process leaves resident and that are hardly needed
// again, as opening a model does. Returns the resident bytes of the process with these pages as long as no
// model was opened, then 0. A small run never takes as much.
int64_t start_to_come();

}  // namespace trl::entry
