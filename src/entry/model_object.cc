#include "entry/model_object.h"

#include <atomic>

#include "base/error.h"
#include "base/memory/system_memory.h"
#include "checkpoint/save.h"
#include "entry/boundary.h"
#include "entry/tensors.h"
#include "tensor/device.h"

namespace trl::entry {

namespace {

// Gives the pages back once: pages that are resident later have been needed since. Returns the resident bytes
// before.
int64_t give_back() {
  static const int64_t before = [] {
    const int64_t bytes = base::resident_bytes();
    base::give_back_pages();
    return bytes;
  }();
  return before;
}

// A mapped model is opened beside that of a run, before its plan.
std::atomic<bool> model_was_opened = false;

// Returns the adapter in use, which SaveKind refers to.
model::Adapter& adapter_in_use(model::Model& model) {
  if (model::Adapter* const adapter = model.adapters().in_use()) return *adapter;
  fail_key("save.kind", "save.kind: adapter and merged need an adapter in use, and this model uses none");
}

}  // namespace

std::unique_ptr<model::Model> open_model(const engine::ModelSpec& spec, base::LogSink* log,
                                         at::Device device) {
  const model::Head head = spec.reward ? model::Head::reward : model::Head::language;
  if (spec.mapped && device.is_cpu())
    return model::Model::open_mapped(spec.source, spec.dtype, log, head, spec.quantization, spec.seed,
                                     spec.bf16 ? at::kBFloat16 : at::kFloat);
  return model::Model::open(spec.source, spec.dtype, log, device, head, spec.quantization, spec.seed);
}

ModelObject::ModelObject(engine::Host& host, const engine::ModelSpec& spec)
    : host_(host), source_(spec.source), path_(kernels::path_of(spec.plain)) {
  HostLog log(host);
  give_back();
  model_was_opened = model_was_opened || !spec.mapped;
  const at::Device device = tensor::device(spec.use_cpu);
  model_ = open_model(spec, &log, device);
  if (model_->config().new_head && !spec.head_follows)
    log.warning("model",
                "{} has no score.weight: a new head is drawn from seed {}, whose scores mean nothing before "
                "it is trained",
                spec.source.name(), spec.seed);
  if (spec.embedding_rows > 0) {
    const int64_t before = model_->config().vocab_size;
    model_->resize_embeddings(spec.embedding_rows);
    if (before != spec.embedding_rows)
      log.info("model", "the embedding now has {} rows; before it had {}", spec.embedding_rows, before);
  }
  if (spec.wide_head) model_->widen_head();
  if (!device.is_cpu()) log.info("model", "{} is on {}", spec.source.name(), device.str());
  config_json_ = model_->config_json().dump();
  for (const tensor::Parameter* parameter : model_->parameters()) parameter_count_ += parameter->count();
}

ModelObject::ModelObject(engine::Host& host, const ModelObject& of)
    : host_(host),
      source_(of.source_),
      path_(of.path_),
      model_(of.model_->twin()),
      config_json_(of.config_json_),
      parameter_count_(of.parameter_count_) {}

void ModelObject::serve(model::AdapterVersions& versions, const config::BesideArguments& arguments) {
  serving_ = Serving{&versions, arguments};
}

int32_t ModelObject::save(std::string_view directory, engine::SaveKind kind,
                          std::span<const engine::NamedBytes> files, engine::ErrorSink& error) noexcept {
  return compute(host_, path_, error, [&] {
    const std::string target(directory);
    if (kind == engine::SaveKind::checkpoint)
      fail_key("save.kind", "save.kind: checkpoint is what a trainer saves; give model, adapter or merged");
    if (kind == engine::SaveKind::adapter)
      return checkpoint::save_adapter(target, adapter_in_use(*model_), files);
    std::shared_ptr<void> merged;  // must live until all is written
    if (kind == engine::SaveKind::merged && model_->adapters().merged() != &adapter_in_use(*model_))
      merged = model_->adapters().merged_to_save(adapter_in_use(*model_));
    std::string card;
    checkpoint::save_model(target, *model_,
                           checkpoint::with_card(target, *model_, source_.name(), files, {}, false, card));
  });
}

int32_t ModelObject::list_tensors(engine::TensorList& list, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { entry::list_tensors(*model_, list); });
}

int32_t ModelObject::read_tensor(std::string_view name, engine::TensorRead what, engine::HeldTensor* out,
                                 engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { *out = entry::read_tensor(*model_, name, what); });
}

int32_t ModelObject::write_tensor(std::string_view name, const engine::GivenTensor& values,
                                  engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { entry::write_tensor(*model_, name, values); });
}

int32_t ModelObject::exchange_tensor(std::string_view name, engine::HeldTensor& other,
                                     engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] { entry::exchange_tensor(*model_, name, other); });
}

int64_t start_to_come() {
  const int64_t bytes = give_back();
  return model_was_opened ? 0 : bytes;
}

}  // namespace trl::entry
