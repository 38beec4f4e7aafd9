// engine::Beside over a twin of the trained model and versions of its adapter.
#pragma once
#include <cstdint>
#include <memory>

#include "config/beside_arguments.h"
#include "entry/model_object.h"
#include "model/adapter/versions.h"
#include "tensor/parameter/parameter.h"

namespace trl::entry {

class BesideObject final : public engine::Beside {
 public:
  // version: of the adapter as it is. Throws Error(invalid_config) if this model cannot answer meanwhile.
  BesideObject(engine::Host& host, ModelObject& trained, const config::BesideArguments& arguments,
               int64_t version);
  // On the thread that trains, between two changes of the adapter.
  void publish(int64_t version) { versions_->publish(version); }

  engine::Model& model() noexcept override { return *model_; }
  engine::UsedWeights weights_of(engine::Generator& generator, int64_t sequence) noexcept override;

 private:
  struct Release {
    void operator()(ModelObject* model) const noexcept { model->release(); }
  };
  const std::unique_ptr<ModelObject, Release> model_;
  const tensor::Fixing fixing_;
  std::unique_ptr<model::AdapterVersions> versions_;
};

}  // namespace trl::entry
