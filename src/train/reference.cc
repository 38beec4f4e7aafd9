#include "train/reference.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "checkpoint/save_adapter.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/in_parts.h"
#include "train/faulty_weights.h"
#include "train/recorded_reference.h"
#include "train/weights_digest.h"

namespace trl::train {

namespace {

std::vector<float> log_probs_of(const model::Output& output, const MicroBatch& part,
                                const kernels::HeadOptions& options) {
  const at::NoGradGuard no_graph;
  std::vector<float> out;
  for (const kernels::TokenValues& v :
       kernels::head_values(output.hidden, *output.head.weight, part.targets.tokens, options))
    out.push_back(static_cast<float>(v.log_prob));
  return out;
}

// The policy's own weights, with another adapter or none.
class OtherAdapter final : public Reference {
 public:
  OtherAdapter(const Causal& causal, model::Adapter* adapter) : causal_(causal), adapter_(adapter) {}
  std::vector<float> log_probs(const MicroBatch& part) override {
    const model::Output output = causal_.forward_by(adapter_, part);
    return log_probs_of(output, part, causal_.options(output.head));
  }
  std::string faulty_weight() override { return train::faulty_weight(causal_.model()); }

 private:
  const Causal& causal_;
  model::Adapter* const adapter_;
};

class OtherModel final : public Reference {
 public:
  OtherModel(const Causal& causal, std::unique_ptr<model::Model> model, std::string path)
      : causal_(causal), model_(std::move(model)), path_(std::move(path)) {}
  std::vector<float> log_probs(const MicroBatch& part) override {
    const model::Output output = causal_.forward_by(*model_, part);
    return log_probs_of(output, part, model_->head_options(causal_.compute(), output.head));
  }
  std::string faulty_weight() override {
    const std::string weight = train::faulty_weight(*model_);
    return weight.empty() ? "" : fmt::format("the reference model {}: {}", path_, weight);
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
  const std::string path_;
};

// sync_ref_model mixes each weight with the policy's of the same name.
void check_alike(model::Model& reference, model::Model& policy, const std::string& path) {
  const std::vector<tensor::Parameter*> own = reference.parameters(), others = policy.parameters();
  const auto alike = [](const tensor::Parameter* a, const tensor::Parameter* b) {
    return a->name == b->name && a->shape() == b->shape();
  };
  if (std::equal(own.begin(), own.end(), others.begin(), others.end(), alike)) return;
  fail_key(
      "ref_model_name_or_path",
      "ref_model_name_or_path: {} has other layers or other shapes than the model that is trained, and "
      "sync_ref_model: true mixes their weights: give a reference of the same architecture, or leave out "
      "sync_ref_model",
      path);
}

// Opens a model in the policy's dtype and on its device. A model that is never written stays in its files.
std::unique_ptr<model::Model> open_like_policy(const MethodContext& context, const std::string& path) {
  const char* const type = context.model.dtype() == at::kBFloat16 ? "bfloat16" : "float32";
  if (!context.arguments.preference.sync_ref_model && context.model.device().is_cpu())
    return model::Model::open_mapped(path, type, context.log);
  return model::Model::open(path, type, context.log, context.model.device());
}

// Opens the model of ref_model_name_or_path. Its embedding may be padded further than the policy's.
std::unique_ptr<model::Model> open_reference(const MethodContext& context, const std::string& path) {
  std::unique_ptr<model::Model> model;
  try {
    model = open_like_policy(context, path);
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
    throw Error(error.status(), fmt::format("ref_model_name_or_path: {}", error.message()),
                "ref_model_name_or_path");
  }
  const int64_t own = model->config().vocab_size, policy = context.model.config().vocab_size;
  if (own < policy) {
    fail_key("ref_model_name_or_path",
             "ref_model_name_or_path: {} has a vocabulary of {} tokens, and the model that is trained one of "
             "{}: give a reference with the same vocabulary",
             path, own, policy);
  }
  if (context.arguments.preference.sync_ref_model) check_alike(*model, context.model, path);
  return model;
}

}  // namespace

void Reference::mix(double) {
  fail_key("sync_ref_model",
           "sync_ref_model: true needs a reference model of its own; an adapter's is the model without it");
}

std::unique_ptr<Reference> make_reference(const MethodContext& context, const Causal& causal) {
  const config::PreferenceArguments& arguments = context.arguments.preference;
  if (arguments.precompute_ref_log_probs) return record_reference(context, causal);
  if (!arguments.reference.empty())
    return std::make_unique<OtherModel>(causal, open_reference(context, arguments.reference),
                                        arguments.reference);
  model::Adapters& adapters = context.model.adapters();
  if (context.only_evaluates) {
    if (adapters.in_use() == nullptr && context.log != nullptr)
      context.log->warning("train",
                           "the reference is the model itself, so all rewards are 0: give "
                           "ref_model_name_or_path, or an adapter as the model");
    return std::make_unique<OtherAdapter>(causal, nullptr);
  }
  const model::Adapter* const trained = adapters.trained();
  if (trained == nullptr)
    return std::make_unique<OtherModel>(causal, open_like_policy(context, context.model_path),
                                        context.model_path);
  if (!arguments.continues_adapter) return std::make_unique<OtherAdapter>(causal, nullptr);
  return std::make_unique<OtherAdapter>(causal, &adapters.copy("ref", *trained));
}

FirstReference first_reference(const MethodContext& context, const Causal& causal) {
  const config::TrainingArguments& arguments = context.arguments;
  std::string identity = fmt::format("{} {}\n", c10::toString(causal.compute()),
                                     arguments.frozen_compute == config::FrozenCompute::int8 ? "int8" : "");
  const auto add = [&](model::Model& model) {
    identity +=
        fmt::format("{} {}\n", weights_digest(model.parameters()), config_digest(model.config_json()));
  };
  if (!arguments.preference.reference.empty()) {
    auto other = open_reference(context, arguments.preference.reference);
    add(*other);
    return {std::make_unique<OtherModel>(causal, std::move(other), arguments.preference.reference), identity};
  }
  add(context.model);
  model::Adapter* const trained = context.model.adapters().trained();
  if (trained == nullptr || !arguments.preference.continues_adapter)
    return {std::make_unique<OtherAdapter>(causal, nullptr), identity};
  base::Json about = base::parse_json(checkpoint::config_text(*trained), "adapter_config.json");
  about.erase("base_model_name_or_path");
  identity += about.dump() + weights_digest(trained->parameters());
  if (!trained->kept_tables().empty()) identity += weights_digest(trained->kept_tables());
  return {std::make_unique<OtherAdapter>(causal, trained), identity};
}

}  // namespace trl::train
