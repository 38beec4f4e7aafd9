#include "entry/beside_object.h"

#include "base/error.h"
#include "entry/generator_object.h"

namespace trl::entry {

namespace {

const model::Adapter& adapter_to_serve(ModelObject& trained) {
  const model::Model& model = trained.get();
  if (!model.device().is_cpu())
    fail_key("serve_share",
             "serve_share: the model is on {}, and a GPU computes one after the other anyway: give use_cpu: "
             "true, or leave it out",
             model.device().str());
  return *model.adapters().trained();
}

}  // namespace

BesideObject::BesideObject(engine::Host& host, ModelObject& trained, const config::BesideArguments& arguments,
                           int64_t version)
    : model_(new ModelObject(host, trained)),
      fixing_(trained.get().parameters(), "serve_share: requests are answered with it meanwhile"),
      versions_(std::make_unique<model::AdapterVersions>(model_->get(), adapter_to_serve(trained),
                                                         arguments.versions, version)) {
  model_->serve(*versions_, arguments);
}

engine::UsedWeights BesideObject::weights_of(engine::Generator& generator, int64_t sequence) noexcept {
  return static_cast<GeneratorObject&>(generator).weights_of(sequence);
}

}  // namespace trl::entry
