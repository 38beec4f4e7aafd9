#include "model/adapter/versions.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

AdapterVersions::AdapterVersions(Model& twin, const Adapter& trained, int64_t count, int64_t version)
    : trained_(trained), seen_(trained.version()) {
  for (int64_t i = 0; i < count; ++i)
    copies_.push_back({&twin.adapters().copy(fmt::format("{}-{}", trained.name(), i), trained), version});
  if (twin.only_adds_terms(copies_.front().adapter)) return;
  fail_key(
      "serve_share",
      "serve_share needs an adapter that only adds terms to projections, and this one changes more "
      "(lora_modules_to_save, token rows, an embedding, or a start such as pissa): leave serve_share out, "
      "and generators take turns with the steps");
}

// A snapshot that nobody reads; makes one if there is none.
std::shared_ptr<AdapterVersions::Snapshot> AdapterVersions::spare() const {
  if (before_ != nullptr && before_.use_count() == 1) return before_;
  auto made = std::make_shared<Snapshot>();
  for (const Parameter* const parameter : trained_.parameters())
    made->values.push_back(tensor::empty(parameter->shape(), parameter->dtype(), tensor::MemoryKind::weights,
                                         parameter->device()));
  return made;
}

void AdapterVersions::publish(int64_t version) {
  const uint64_t now = trained_.version();
  if (now == seen_) return;
  std::shared_ptr<Snapshot> next;
  {
    const std::lock_guard lock(mutex_);
    next = spare();
    before_.reset();
  }
  const std::vector<Parameter*> parameters = trained_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    tensor::copy_in_parts(next->values[i], *parameters[i]->read());
  next->version = version;
  seen_ = now;
  const bool usable = std::ranges::all_of(
      next->values, [](const at::Tensor& values) { return at::isfinite(values).all().item<bool>(); });
  const std::lock_guard lock(mutex_);
  if (!usable) {
    before_ = std::move(next);
    if (std::exchange(is_broken_, true)) return;
    fail(Status::invalid_argument,
         "the adapter has numbers that are not finite after step {}: requests are answered with the last "
         "version "
         "before, until a later one is finite; a smaller learning_rate may help",
         version);
  }
  is_broken_ = false;
  before_ = std::exchange(published_, std::move(next));
  taken_ = false;
}

const Adapter& AdapterVersions::newest(const std::function<bool(const Adapter&)>& in_use) {
  const auto front = copies_.begin();
  const auto nothing_new = [this] {
    const std::lock_guard lock(mutex_);
    return taken_;
  };
  if (nothing_new()) return *front->adapter;
  const auto unused =
      std::find_if(front + 1, copies_.end(), [&](const Copy& copy) { return !in_use(*copy.adapter); });
  if (unused == copies_.end()) return *front->adapter;
  std::shared_ptr<Snapshot> published;
  {
    const std::lock_guard lock(mutex_);
    published = published_;
    taken_ = true;
  }
  const std::vector<Parameter*> parameters = unused->adapter->parameters();
  for (size_t i = 0; i < parameters.size(); ++i)
    tensor::copy_in_parts(*parameters[i]->write(), published->values[i]);
  unused->version = published->version;
  std::rotate(front, unused, unused + 1);
  return *front->adapter;
}

int64_t AdapterVersions::version_of(const Adapter* adapter) const {
  const auto found = std::ranges::find(copies_, adapter, &Copy::adapter);
  return found == copies_.end() ? -1 : found->version;
}

}  // namespace trl::model
