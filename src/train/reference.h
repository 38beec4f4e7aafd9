// The model that a policy is measured against: what it gives each target of a micro-batch.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "optim/optim.h"
#include "train/method.h"

namespace trl::train {

class Reference {
 public:
  virtual ~Reference() = default;
  // Log-probabilities of the part's targets, in their order, as float32 numbers. No graph, and nothing
  // random.
  virtual std::vector<float> log_probs(const MicroBatch& part) = 0;
  // sync_ref_model: its weights become (1 - share) of themselves and share of the policy's.
  virtual void mix(double share);
  // Its weights, for a checkpoint of a run that changes them: "reference.<parameter>". None: they never
  // change.
  virtual std::vector<optim::StateTensor> weights() { return {}; }
};

// As TRL's trainers choose it: the model of ref_model_name_or_path; where an adapter is trained that was
// saved before, a frozen copy of it; where another adapter is trained, the model without it; else the model's
// weights as in their files. precompute_ref_log_probs: what was recorded of it (recorded_reference.h). If
// nothing is trained: ref_model_name_or_path, or the model without its adapter.
// causal outlives it.
std::unique_ptr<Reference> make_reference(const MethodContext& context, const Causal& causal);

// The same before anything is trained, when the policy itself can serve as the reference.
struct FirstReference {
  std::unique_ptr<Reference> reference;
  std::string identity;  // the same for the same numbers
};
FirstReference first_reference(const MethodContext& context, const Causal& causal);

}  // namespace trl::train
