// Models that score a micro-batch beside the one that is trained, such as the reference of a policy or a
// teacher, and the shared part of the methods that train against a reference.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "optim/optim.h"
#include "train/batches/micro_batch.h"
#include "train/method.h"

namespace trl::train {

class Scorer {
 public:
  virtual ~Scorer() = default;
  // Hidden states of a part, the head that they are for and the options to compute with it.
  struct Hidden {
    model::Output output;
    kernels::HeadOptions options;
  };
  // No graph, no random numbers. Throws Error(internal) if it has only recorded values.
  virtual Hidden hidden(const MicroBatch& part) = 0;
  // Returns the log-probabilities of the part's targets, in their order, as float32 numbers.
  virtual std::vector<float> log_probs(const MicroBatch& part);
  // Names a weight that is not finite, and its model if it is not the policy's; empty: all are finite.
  virtual std::string faulty_weight() { return {}; }
  // sync_ref_model: the weights become (1 - share) of themselves plus share of the policy's.
  virtual void mix(double share);
  // Returns the weights, for a checkpoint of a run that changes them: "reference.<parameter>". Empty: they
  // never change.
  virtual std::vector<optim::StateTensor> weights() { return {}; }
};

// Opens a model that is never written, on the policy's device: it stays in its files if that is the host.
std::unique_ptr<model::Model> open_unchanging(const MethodContext& context, const io::ModelSource& from,
                                              std::string_view dtype);
// Another model as a scorer. name: "the teacher <path>", for messages. causal outlives it.
std::unique_ptr<Scorer> scorer_by(const Causal& causal, std::unique_ptr<model::Model> model,
                                  std::string name);
// The policy's own weights as a scorer, with another adapter or none (null). causal outlives it.
std::unique_ptr<Scorer> scorer_with(const Causal& causal, model::Adapter* adapter);

// Makes the reference as TRL's trainers choose it: the model of ref_model_name_or_path; if a previously saved
// adapter is trained, a frozen copy of that; if another adapter is trained, the model without it; else the
// model's weights as in their files. precompute_ref_log_probs: its recorded values. If
// nothing is trained: ref_model_name_or_path, or the model without its adapter. causal outlives it.
std::unique_ptr<Scorer> make_reference(const MethodContext& context, const Causal& causal);

// The policy as it is, with the adapter that is trained. causal outlives it.
std::unique_ptr<Scorer> make_policy(const Causal& causal);

// The reference before anything is trained, when the policy itself can serve as one.
struct FirstReference {
  std::unique_ptr<Scorer> reference;
  std::string identity;  // equal for equal weights
};
FirstReference first_reference(const MethodContext& context, const Causal& causal);

// precompute_ref_log_probs: the reference's log-probabilities of all rows are computed once, before the first
// step, and kept in ref_logprobs_cache_dir; training needs no reference then. Goes through all rows of
// training and of evaluation, unless a file has the values of this reference for these rows. Meanwhile the
// reference is in memory, and no gradient or optimizer state yet.
std::unique_ptr<Scorer> record_reference(const MethodContext& context, const Causal& causal);

// A method that trains a causal model against a reference (DPO, KTO).
class Referenced : public Method {
 public:
  Divisors divisors(std::span<const MicroBatch> window, bool) const final {
    return {.batches = static_cast<double>(window.size())};
  }
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) override {
    return causal_.forward(batch, training, states);
  }
  std::string faulty_reference() final { return reference_->faulty_weight(); }
  void updated(int64_t step) final;
  std::vector<optim::StateTensor> state(int64_t step) final;

 protected:
  explicit Referenced(const MethodContext& context);
  const Causal& causal() const { return causal_; }
  // Returns the reference's log-probabilities of all targets of a micro-batch, in their order.
  std::vector<float> reference(std::span<const MicroBatch> parts);

 private:
  const Causal causal_;
  const config::PreferenceArguments arguments_;
  const std::unique_ptr<Scorer> reference_;
};

}  // namespace trl::train
