#include "train/policy/values.h"

#include "base/error.h"
#include "model/weights/initial_values.h"
#include "tensor/memory/rehearsal.h"
#include "train/scoring/scores.h"

namespace trl::train {

namespace {

// Opens the model of values in the policy's dtype and on its device.
std::unique_ptr<model::Model> open_value_model(const MethodContext& context) {
  constexpr const char* kKey = "value_model_name_or_path";
  const std::string& path = context.arguments.online.value_model;
  const char* const type = context.model.dtype() == at::kBFloat16 ? "bfloat16" : "float32";
  std::unique_ptr<model::Model> model;
  try {
    model = model::Model::open(path.empty() ? context.source : io::ModelSource(path), type, context.log,
                               context.model.device(), model::Head::reward, {},
                               static_cast<uint64_t>(context.arguments.seed));
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
    throw error.with(fmt::format("{}: {}", kKey, error.message()), kKey);
  }
  const int64_t own = model->config().vocab_size, policy = context.model.config().vocab_size;
  if (path.empty() && own < policy) model->resize_embeddings(policy);
  if (!path.empty() && own < policy)
    fail_key(
        kKey,
        "{}: {} has a vocabulary of {} tokens, and the model that is trained one of {}: give a model with "
        "the same vocabulary",
        kKey, path, own, policy);
  if (model->config().labels != 1)
    fail_key(kKey, "{}: {} has {} labels: give a classifier with one, such as trl reward makes", kKey, path,
             model->config().labels);
  if (!path.empty() && model->config().new_head && tensor::Rehearsal::current() == nullptr)
    context.log->warning("train",
                         "{}: {} has no score.weight, which is newly initialised and has learned nothing: a "
                         "directory that trl reward has saved has one",
                         kKey, path);
  return model;
}

// The embeddings of values get no noise.
config::TrainingArguments without_noise(config::TrainingArguments arguments) {
  arguments.neftune_noise_alpha = 0;
  return arguments;
}

// Draws a head as that of a new classifier.
std::unique_ptr<tensor::Parameter> new_head(const MethodContext& context) {
  model::ModelConfig config = context.model.config();
  config.labels = 1;
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(context.arguments.seed));
  const at::Tensor drawn = model::new_score_head(config, context.model.dtype(), generator);
  return std::make_unique<tensor::Parameter>("weight",
                                             drawn.to(context.model.device(), context.model.dtype()));
}

bool is_on_policy(const MethodContext& context) { return context.arguments.online.value_head_on_policy; }

}  // namespace

Values::Values(const MethodContext& context, const Causal& policy)
    : model_(is_on_policy(context) ? nullptr : open_value_model(context)),
      head_(is_on_policy(context) ? new_head(context) : nullptr),
      own_(model_ ? std::make_optional<Causal>(without_noise(context.arguments), *model_, context.attention)
                  : std::nullopt),
      causal_(own_ ? *own_ : policy) {}

std::vector<TrainedModel> Values::trained() const {
  if (on_policy()) return {{"value_head", {head_.get()}}};
  return {{"value_model", model_->all_parameters()}};
}

model::Output Values::forward(const MicroBatch& part, const std::optional<RunPosition>& training) const {
  return causal_.forward(part, training, {});
}

at::Tensor Values::at(const model::Output& output, const std::vector<int32_t>& rows) const {
  tensor::Parameter& head = head_ ? *head_ : *output.head.weight;
  return scores_at(output.hidden, head, rows, causal_.compute());
}

}  // namespace trl::train
