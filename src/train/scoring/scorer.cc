#include "train/scoring/scorer.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"
#include "train/batches/micro_batch.h"
#include "train/scoring/weights_digest.h"

namespace trl::train {

namespace {

// The policy's own weights, with another adapter or none.
class OtherAdapter final : public Scorer {
 public:
  OtherAdapter(const Causal& causal, model::Adapter* adapter) : causal_(causal), adapter_(adapter) {}
  Hidden hidden(const MicroBatch& part) override {
    const model::Output output = causal_.forward_by(adapter_, part);
    return {output, causal_.options(output.head)};
  }
  std::string faulty_weight() override { return train::faulty_weight(causal_.model()); }

 private:
  const Causal& causal_;
  model::Adapter* const adapter_;
};

class OtherModel final : public Scorer {
 public:
  OtherModel(const Causal& causal, std::unique_ptr<model::Model> model, std::string name)
      : causal_(causal), model_(std::move(model)), name_(std::move(name)) {}
  Hidden hidden(const MicroBatch& part) override {
    const model::Output output = causal_.forward_by(*model_, part);
    return {output, causal_.options(output.head, *model_)};
  }
  std::string faulty_weight() override {
    const std::string weight = train::faulty_weight(*model_);
    return weight.empty() ? "" : fmt::format("{}: {}", name_, weight);
  }
  void mix(double share) override {
    if (tensor::Rehearsal::current() != nullptr) return;  // no memory: a rehearsal writes none
    const at::NoGradGuard no_graph;
    const std::vector<tensor::Parameter*> own = model_->parameters(), policy = causal_.model().parameters();
    const auto add_share = [share](const at::Tensor& to, const at::Tensor& from) {
      to.mul_(1 - share).add_(from, share);
    };
    for (size_t i = 0; i < own.size(); ++i) {
      const tensor::Reading from = policy[i]->read();
      const tensor::Writing to = own[i]->write();
      tensor::in_parts(add_share, *to, *from);
    }
  }
  std::vector<optim::StateTensor> weights() override {
    std::vector<optim::StateTensor> out;
    for (tensor::Parameter* parameter : model_->parameters())
      out.push_back({"reference." + parameter->name, *parameter->write()});
    return out;
  }

 private:
  const Causal& causal_;
  const std::unique_ptr<model::Model> model_;
  const std::string name_;
};

}  // namespace

std::vector<float> Scorer::log_probs(const MicroBatch& part) {
  const auto [output, options] = hidden(part);
  const at::NoGradGuard no_graph;
  std::vector<float> out;
  for (const kernels::TokenValues& v :
       kernels::head_values(output.hidden, *output.head.weight, part.targets.tokens, options))
    out.push_back(static_cast<float>(v.log_prob));
  return out;
}

std::unique_ptr<model::Model> open_unchanging(const MethodContext& context, const io::ModelSource& from,
                                              std::string_view dtype) {
  if (context.model.device().is_cpu()) return model::Model::open_mapped(from, dtype, context.log);
  return model::Model::open(from, dtype, context.log, context.model.device());
}

std::unique_ptr<Scorer> scorer_by(const Causal& causal, std::unique_ptr<model::Model> model,
                                  std::string name) {
  return std::make_unique<OtherModel>(causal, std::move(model), std::move(name));
}

std::unique_ptr<Scorer> scorer_with(const Causal& causal, model::Adapter* adapter) {
  return std::make_unique<OtherAdapter>(causal, adapter);
}

std::unique_ptr<Scorer> make_policy(const Causal& causal) {
  return scorer_with(causal, causal.model().adapters().trained());
}

void Scorer::mix(double) {
  fail_key("sync_ref_model",
           "sync_ref_model: true needs a reference model of its own; an adapter's is the model without it");
}

}  // namespace trl::train
