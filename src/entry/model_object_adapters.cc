// Adds, removes, uses and merges adapters of an open model; finds the one that a request generates with.
#include <chrono>
#include <mutex>

#include "base/error.h"
#include "base/text/number.h"
#include "entry/boundary.h"
#include "entry/model_object.h"
#include "tensor/memory/counted.h"

namespace trl::entry {

template <class Count>
int64_t ModelObject::over_caches(const Count& count) const {
  int64_t sum = 0;
  for (const auto& known : caches_) {
    const std::shared_ptr<generate::Cache> cache = known.lock();
    if (cache == nullptr) continue;
    const std::lock_guard lock(cache->in_use);
    sum += count(*cache);
  }
  return sum;
}

const model::Adapter& ModelObject::newest_version() const {
  return serving_->versions->newest([this](const model::Adapter& version) {
    return over_caches([&](const generate::Cache& cache) { return cache.users(&version); }) > 0;
  });
}

const model::Adapter* ModelObject::adapter_of(const engine::Sampling& sampling) const {
  const model::Adapters& adapters = model_->adapters();
  const std::string& name = sampling.adapter;
  if (serving_ && (name.empty() || name == serving_->versions->name())) return &newest_version();
  const bool alone = name == engine::kNoAdapter;
  const model::Adapter* adapter = adapters.in_use();
  if (serving_ && serving_->versions->version_of(adapters.find(name)) >= 0)
    fail(Status::not_found, "the model has no adapter \"{}\"; {} is the one that is trained", name,
         serving_->versions->name());
  if (!name.empty()) adapter = alone ? nullptr : &adapters.get(name);
  adapters.check_usable(adapter);
  return adapter;
}

int32_t ModelObject::add_adapter(std::string_view name, std::string_view directory,
                                 engine::ErrorSink& error) noexcept {
  return compute(host_, path_, error, [&] {
    HostLog log(host_);
    if (serving_ && name == serving_->versions->name())
      fail(Status::invalid_argument, "the model already has an adapter \"{}\", which is trained", name);
    model_->adapters().open(std::string(name), std::string(directory), &log);
  });
}

int32_t ModelObject::remove_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    const model::Adapter* const adapter = &model_->adapters().get(name);
    const int64_t users =
        over_caches([adapter](const generate::Cache& cache) { return cache.users(adapter); });
    if (users > 0) {
      fail(Status::busy, "adapter \"{}\" is used by {} completions of a generator: finish or cancel them",
           name, users);
    }
    model_->adapters().remove(name);
  });
}

int32_t ModelObject::use_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, error, [&] {
    model::Adapters& adapters = model_->adapters();
    adapters.use(name.empty() ? nullptr : &adapters.get(name));
  });
}

int32_t ModelObject::merge_adapter(std::string_view name, engine::ErrorSink& error) noexcept {
  return compute(host_, path_, error, [&] {
    model::Adapters& adapters = model_->adapters();
    if (name.empty()) return adapters.unmerge();
    model::Adapter& adapter = adapters.get(name);
    const int64_t others =
        over_caches([&adapter](const generate::Cache& cache) { return cache.users_besides(&adapter); });
    if (others > 0) {
      fail(Status::busy,
           "adapter \"{}\" cannot be merged: a generator has {} completions with another one or the model "
           "alone: finish or cancel them",
           name, others);
    }
    tensor::trim();  // so that the difference is what stays
    const int64_t before = host_.memory_now();
    const auto begin = std::chrono::steady_clock::now();
    adapters.merge(adapter);
    tensor::trim();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    HostLog(host_).info("adapter",
                        "adapter \"{}\" was merged in {:.2f} s; until it is taken out, {} more are used",
                        name, seconds, base::bytes_text(host_.memory_now() - before));
  });
}

}  // namespace trl::entry
