// Refuses a run with cache_frozen_layers whose states cannot be kept, with the reason.
#include "base/error.h"
#include "train/memory/frozen_layers.h"

namespace trl::train {

namespace {

constexpr const char* kKey = "cache_frozen_layers";

// Returns the name of the first trained parameter; the lowest layers are first.
std::string first_trained(model::Model& model) {
  for (const tensor::Parameter* parameter : model.all_parameters())
    if (parameter->trainable) return parameter->name;
  return {};
}

void check_dropout(const model::ModelConfig& config) {
  const model::DropoutRates& rates = config.dropout;
  const model::Dropouts& keys = config.family->dropouts;
  for (const auto& [rate, key] : {std::pair{rates.embedding, keys.embedding},
                                  {rates.attention, keys.attention},
                                  {rates.attention_out, keys.attention_out},
                                  {rates.mlp_out, keys.mlp_out}}) {
    if (rate == 0) continue;
    fail_key(kKey,
             "cache_frozen_layers: config.json has {}: {}, so frozen layers make something else of a row "
             "each time: set it to 0, or leave cache_frozen_layers out",
             key.key, rate);
  }
}

}  // namespace

void FrozenLayers::check(const Setup& setup) {
  model::Model& model = *setup.model;
  if (!model.device().is_cpu())
    fail_key(kKey,
             "cache_frozen_layers: the model is on {}, and states are kept of layers on the CPU: give "
             "use_cpu: true",
             model.device().str());
  if (model.config().experts.count > 0) {
    fail_key(kKey,
             "cache_frozen_layers: this model ({}) is a mixture of experts, where the bits of a row depend "
             "on the other rows of its batch: leave it out",
             model.config().model_type);
  }
  check_dropout(model.config());
  if (setup.train->batches_per_epoch() < 0)
    fail_key(kKey,
             "cache_frozen_layers: with dataset_streaming it is not known before the run how many bytes the "
             "rows take: give dataset_streaming: false");
  if (model.frozen_layers() == 0) {
    fail_key(kKey,
             "cache_frozen_layers: no frozen layer lies below the first trained one ({}): train the upper "
             "layers alone, as with peft_config: {{layers_to_transform: [...]}}",
             first_trained(model));
  }
}

}  // namespace trl::train
