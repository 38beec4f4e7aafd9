// Which model is the reference: as TRL's trainers choose it, and as it is before anything is trained.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "checkpoint/save.h"
#include "train/scoring/scorer.h"
#include "train/scoring/weights_digest.h"

namespace trl::train {

namespace {

// sync_ref_model mixes each weight with the policy's of the same name.
void check_alike(model::Model& reference, model::Model& policy, const std::string& path) {
  const std::vector<tensor::Parameter*> own = reference.parameters(), others = policy.parameters();
  const auto alike = [](const tensor::Parameter* a, const tensor::Parameter* b) {
    return a->name == b->name && a->shape() == b->shape();
  };
  if (std::ranges::equal(own, others, alike)) return;
  fail_key("ref_model_name_or_path",
           "ref_model_name_or_path: {} has other layers or other shapes than the model that is trained, and "
           "sync_ref_model: true mixes their weights: give a reference of the same architecture, or leave "
           "out sync_ref_model",
           path);
}

// Opens a model in the policy's dtype and on its device.
std::unique_ptr<model::Model> open_like_policy(const MethodContext& context, const io::ModelSource& from) {
  const char* const type = context.model.dtype() == at::kBFloat16 ? "bfloat16" : "float32";
  if (!context.arguments.preference.sync_ref_model) return open_unchanging(context, from, type);
  auto model = model::Model::open(from, type, context.log, context.model.device());
  if (context.model.head().dtype() == at::kFloat) model->widen_head();
  return model;
}

// Opens the model of ref_model_name_or_path. Its embedding may be padded further than the policy's.
std::unique_ptr<model::Model> open_reference(const MethodContext& context, const std::string& path) {
  std::unique_ptr<model::Model> model;
  try {
    model = open_like_policy(context, path);
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
    throw error.with(fmt::format("ref_model_name_or_path: {}", error.message()), "ref_model_name_or_path");
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

std::unique_ptr<Scorer> reference_by(const Causal& causal, std::unique_ptr<model::Model> model,
                                     const std::string& path) {
  return scorer_by(causal, std::move(model), "the reference model " + path);
}

}  // namespace

std::unique_ptr<Scorer> make_reference(const MethodContext& context, const Causal& causal) {
  const config::PreferenceArguments& arguments = context.arguments.preference;
  if (arguments.precompute_ref_log_probs) return record_reference(context, causal);
  if (!arguments.reference.empty())
    return reference_by(causal, open_reference(context, arguments.reference), arguments.reference);
  model::Adapters& adapters = context.model.adapters();
  if (context.only_evaluates) {
    if (adapters.in_use() == nullptr && context.log != nullptr)
      context.log->warning("train",
                           "the reference is the model itself, so all rewards are 0: give "
                           "ref_model_name_or_path, or an adapter as the model");
    return scorer_with(causal, nullptr);
  }
  const model::Adapter* const trained = adapters.trained();
  if (trained == nullptr)
    return reference_by(causal, open_like_policy(context, context.source), context.source.name());
  if (!arguments.continues_adapter) return scorer_with(causal, nullptr);
  return scorer_with(causal, &adapters.copy("ref", *trained));
}

FirstReference first_reference(const MethodContext& context, const Causal& causal) {
  const config::TrainingArguments& arguments = context.arguments;
  std::string identity = fmt::format("{} {}{}\n", c10::toString(causal.compute()),
                                     arguments.frozen_compute == config::FrozenCompute::int8 ? "int8" : "",
                                     arguments.generation_exact ? "rows" : "");
  const auto add = [&](model::Model& model) {
    identity +=
        fmt::format("{} {}\n", weights_digest(model.parameters()), config_digest(model.config_json()));
  };
  if (!arguments.preference.reference.empty()) {
    auto other = open_reference(context, arguments.preference.reference);
    add(*other);
    return {reference_by(causal, std::move(other), arguments.preference.reference), identity};
  }
  add(context.model);
  model::Adapter* const trained = context.model.adapters().trained();
  if (trained == nullptr || !arguments.preference.continues_adapter)
    return {scorer_with(causal, nullptr), identity};
  base::Json about = base::parse_json(checkpoint::config_text(*trained), "adapter_config.json");
  about.erase("base_model_name_or_path");
  identity += about.dump() + weights_digest(trained->parameters());
  if (!trained->kept_tables().empty()) identity += weights_digest(trained->kept_tables());
  return {scorer_with(causal, trained), identity};
}

}  // namespace trl::train
