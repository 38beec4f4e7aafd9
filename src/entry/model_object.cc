#include "entry/model_object.h"

#include <ATen/core/grad_mode.h>

#include "base/error.h"
#include "checkpoint/save_adapter.h"
#include "checkpoint/save_model.h"
#include "entry/boundary.h"
#include "entry/start.h"
#include "generate/generate.h"
#include "tensor/device.h"
#include "train/scores.h"

namespace trl::entry {

std::unique_ptr<model::Model> open_model(const engine::ModelSpec& spec, base::LogSink* log,
                                         at::Device device) {
  const model::Head head = spec.reward ? model::Head::reward : model::Head::language;
  const std::string path(spec.path);
  if (spec.mapped && device.is_cpu())
    return model::Model::open_mapped(path, spec.dtype, log, head, spec.quantization, spec.seed,
                                     spec.bf16 ? at::kBFloat16 : at::kFloat);
  return model::Model::open(path, spec.dtype, log, device, head, spec.quantization, spec.seed);
}

ModelObject::ModelObject(engine::Host& host, const engine::ModelSpec& spec) : host_(host), path_(spec.path) {
  HostLog log(host);
  leave_start_behind();
  const at::Device device = tensor::device(spec.use_cpu);
  model_ = open_model(spec, &log, device);
  if (model_->config().new_head && !spec.head_follows)
    log.warning("model",
                "{} has no score.weight: a new head is drawn from seed {}, whose scores mean nothing before "
                "it is trained",
                spec.path, spec.seed);
  if (spec.embedding_rows > 0) {
    const int64_t before = model_->config().vocab_size;
    model_->resize_embeddings(spec.embedding_rows);
    if (before != spec.embedding_rows)
      log.info("model", "the embedding now has {} rows; before it had {}", spec.embedding_rows, before);
  }
  if (!device.is_cpu()) log.info("model", "{} is on {}", spec.path, device.str());
  config_json_ = model_->config_json().dump();
  for (const tensor::Parameter* parameter : model_->parameters()) parameter_count_ += parameter->count();
}

namespace {

// Returns the adapter in use, which SaveKind refers to.
model::Adapter& adapter_in_use(model::Model& model) {
  if (model::Adapter* const adapter = model.adapters().in_use()) return *adapter;
  fail_key("save.kind", "save.kind: adapter and merged need an adapter in use, and this model uses none");
}

}  // namespace

int32_t ModelObject::save(std::string_view directory, engine::SaveKind kind,
                          std::span<const engine::NamedBytes> files, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    const std::string target(directory);
    if (kind == engine::SaveKind::checkpoint)
      fail_key("save.kind", "save.kind: checkpoint is what a trainer saves; give model, adapter or merged");
    if (kind == engine::SaveKind::adapter) {
      checkpoint::save_adapter(target, adapter_in_use(*model_), files);
      return Status::ok;
    }
    std::shared_ptr<void> merged;  // must live until all is written
    if (kind == engine::SaveKind::merged && model_->adapters().merged() != &adapter_in_use(*model_)) {
      merged = model_->adapters().merged_to_save(adapter_in_use(*model_));
    }
    std::string card;
    checkpoint::save_model(target, *model_,
                           checkpoint::with_card(target, *model_, path_, files, {}, false, card));
    return Status::ok;
  });
}

int32_t ModelObject::add_adapter(std::string_view name, std::string_view directory,
                                 engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    HostLog log(host_);
    model_->adapters().open(std::string(name), std::string(directory), &log);
    return Status::ok;
  });
}

int32_t ModelObject::remove_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    model_->adapters().remove(name);
    return Status::ok;
  });
}

int32_t ModelObject::use_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    model::Adapters& adapters = model_->adapters();
    adapters.use(name.empty() ? nullptr : &adapters.get(name));
    return Status::ok;
  });
}

int32_t ModelObject::merge_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    model::Adapters& adapters = model_->adapters();
    if (name.empty()) {
      adapters.unmerge();
    } else {
      adapters.merge(adapters.get(name));
    }
    return Status::ok;
  });
}

// Warns of positions that the model never saw in training.
void ModelObject::warn_of_length(std::span<const std::span<const int32_t>> prompts,
                                 int64_t max_new_tokens) const {
  const int64_t limit = model_->config().max_position_embeddings;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto tokens = static_cast<int64_t>(prompts[i].size());
    if (tokens + max_new_tokens <= limit) continue;
    HostLog(host_).warning(
        "generate",
        "prompt {} has {} tokens; with max_new_tokens {} it may go beyond the {} positions "
        "of the model (max_position_embeddings), where its text is not to be relied on",
        i, tokens, max_new_tokens, limit);
    return;
  }
}

int32_t ModelObject::generate(std::span<const std::span<const int32_t>> prompts,
                              const engine::Sampling& sampling, engine::TokenSink& sink,
                              engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    if (model_->config().labels > 0)
      fail(Status::unsupported, "{}: a reward model scores text and cannot generate it", path_);
    warn_of_length(prompts, sampling.max_new_tokens);
    const model::Adapters& adapters = model_->adapters();
    const bool alone = sampling.adapter == engine::kNoAdapter;
    const model::Adapter* adapter = adapters.in_use();
    if (!sampling.adapter.empty()) adapter = alone ? nullptr : &adapters.get(sampling.adapter);
    adapters.check_usable(adapter);
    const at::AutoGradMode without_graph(false);
    generate::generate(*model_, adapter, prompts, sampling, model_->compute(at::kFloat), sink);
    return Status::ok;
  });
}

int32_t ModelObject::score(const engine::ScoreSpec& spec, float* scores, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    if (model_->config().labels != 1)
      fail(Status::unsupported,
           "{}: a language model gives no scores; give a reward model: a classifier with one label, or an "
           "adapter that makes one of its model",
           path_);
    const at::ScalarType type = model_->compute(spec.bf16 ? at::kBFloat16 : at::kFloat);
    const std::vector<float> all = train::scores(*model_, spec.texts, type, spec.batch);
    std::copy(all.begin(), all.end(), scores);
    return Status::ok;
  });
}

}  // namespace trl::entry
