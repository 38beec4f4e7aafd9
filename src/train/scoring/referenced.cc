// The shared part of the methods that train against a reference.
#include "tensor/memory/rehearsal.h"
#include "train/scoring/scorer.h"

namespace trl::train {

Referenced::Referenced(const MethodContext& context)
    : causal_(context.arguments, context.model, context.attention),
      arguments_(context.arguments.preference),
      reference_(make_reference(context, causal_)) {}

std::vector<float> Referenced::reference(std::span<const MicroBatch> parts) {
  const tensor::Stage stage("reference");
  std::vector<float> all;
  for (const MicroBatch& part : parts) {
    const std::vector<float> own = reference_->log_probs(part);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

void Referenced::updated(int64_t step) {
  if (arguments_.sync_ref_model && step % arguments_.ref_model_sync_steps == 0)
    reference_->mix(arguments_.ref_model_mixup_alpha);
}

std::vector<optim::StateTensor> Referenced::state(int64_t step) {
  const bool mixed = arguments_.sync_ref_model && step >= arguments_.ref_model_sync_steps;
  return mixed ? reference_->weights() : std::vector<optim::StateTensor>();
}

}  // namespace trl::train
