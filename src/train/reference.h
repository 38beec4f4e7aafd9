// The model that a policy is measured against: it gives each target of a micro-batch a log-probability.
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
  // Returns the log-probabilities of the part's targets, in their order, as float32 numbers. No graph, no
  // random numbers.
  virtual std::vector<float> log_probs(const MicroBatch& part) = 0;
  // Names a weight that is not finite, and its model if it is not the policy's; empty: all are finite.
  virtual std::string faulty_weight() { return {}; }
  // sync_ref_model: the weights become (1 - share) of themselves plus share of the policy's.
  virtual void mix(double share);
  // Returns the weights, for a checkpoint of a run that changes them: "reference.<parameter>". Empty: they
  // never change.
  virtual std::vector<optim::StateTensor> weights() { return {}; }
};

// Makes the reference as TRL's trainers choose it: the model of ref_model_name_or_path; if a previously saved
// adapter is trained, a frozen copy of that; if another adapter is trained, the model without it; else the
// model's weights as in their files. precompute_ref_log_probs: its recorded values (recorded_reference.h). If
// nothing is trained: ref_model_name_or_path, or the model without its adapter. causal outlives it.
std::unique_ptr<Reference> make_reference(const MethodContext& context, const Causal& causal);

// The reference before anything is trained, when the policy itself can serve as one.
struct FirstReference {
  std::unique_ptr<Reference> reference;
  std::string identity;  // equal for equal weights
};
FirstReference first_reference(const MethodContext& context, const Causal& causal);

}  // namespace trl::train
