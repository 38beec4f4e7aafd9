#include "serve/weights/adapters.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "serve/engine/worker.h"

namespace trl::serve {

namespace {

constexpr size_t kAdapterNameBytes = 256;
constexpr std::chrono::seconds kInUsePatience{10};

}  // namespace

Adapters::Adapters(trl_model* model, Worker& worker, int64_t most)
    : model_(model), worker_(worker), most_(static_cast<size_t>(most)) {}

Adapters::~Adapters() {
  for (auto& [name, version] : versions_) retired_.push_back(std::move(version));
  versions_.clear();
  sweep();
}

struct Adapters::Load {
  std::shared_ptr<AdapterVersion> version;
  bool replace;
  std::chrono::steady_clock::time_point end;
};

void Adapters::load(const std::string& name, const std::string& path, bool replace, Done done) {
  if (model_ == nullptr)
    throw Refusal(400, "adapters cannot be loaded: the server was given a generator, not its model");
  if (name.empty() || name.size() > kAdapterNameBytes)
    throw Refusal(400, fmt::format("lora_name: {} bytes; give 1 to {}", name.size(), kAdapterNameBytes),
                  "lora_name");
  Load load{std::make_shared<AdapterVersion>(), replace, std::chrono::steady_clock::now() + kInUsePatience};
  {
    const std::lock_guard lock(mutex_);
    // Other servers of this model have other keys.
    *load.version = {name, path, fmt::format("serve-{:x}-{}", reinterpret_cast<uintptr_t>(this), ++keys_), 0,
                     static_cast<int64_t>(std::time(nullptr))};
    check(load);
  }
  worker_.between_steps([this, load](trl_generator*) { return add(load); }, std::move(done));
}

// Under the lock. Throws Refusal(400).
void Adapters::check(const Load& load) const {
  const std::string& name = load.version->name;
  const bool known = versions_.contains(name);
  if (known && !load.replace)
    throw Refusal(
        400,
        fmt::format("The lora adapter '{}' has already been loaded. If you want to load the adapter "
                    "in place, set 'load_inplace' to True.",
                    name),
        "lora_name");
  if (!known && versions_.size() >= most_)
    throw Refusal(400, fmt::format("{} adapters are loaded; unload one first (serve.max_loras)", most_),
                  "lora_name");
}

// On the model's thread, which adds one after the other. false: the host uses the model.
bool Adapters::add(const Load& load) {
  {
    const std::lock_guard lock(mutex_);
    check(load);
  }
  const AdapterVersion& version = *load.version;
  ErrorHandle error;
  const trl_status status =
      trl_model_add_adapter(model_, version.key.c_str(), version.path.c_str(), error.out());
  if (status == TRL_E_BUSY) {
    if (std::chrono::steady_clock::now() > load.end)
      throw Refusal(503, "the model is in use; try again later");
    return false;
  }
  serve::check(status, error);
  try {
    publish(load);
  } catch (...) {
    trl_model_remove_adapter(model_, version.key.c_str(), nullptr);
    throw;
  }
  return true;
}

// Jobs find it by its name from here on.
void Adapters::publish(const Load& load) {
  const std::lock_guard lock(mutex_);
  Version& place = versions_[load.version->name];
  if (place != nullptr) retired_.push_back(place);
  load.version->version = ++version_;
  place = load.version;
}

void Adapters::unload(std::string_view name) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = versions_.find(name);
    if (found == versions_.end())
      throw Refusal(404, fmt::format("The lora adapter '{}' cannot be found.", name), "lora_name");
    retired_.push_back(std::move(found->second));
    versions_.erase(found);
    ++version_;
  }
  sweep_soon();
}

// Has the worker look: it may have nothing else to do. If it has no time any more, the destructor sweeps.
void Adapters::sweep_soon() noexcept {
  try {
    worker_.between_steps([](trl_generator*) { return true; }, nullptr);
  } catch (...) {
  }
}

std::shared_ptr<const AdapterVersion> Adapters::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const auto found = versions_.find(name);
  return found == versions_.end() ? nullptr : found->second;
}

std::vector<std::shared_ptr<const AdapterVersion>> Adapters::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<Version> out;
  for (const auto& [name, version] : versions_) out.push_back(version);
  return out;
}

int64_t Adapters::version() const {
  const std::lock_guard lock(mutex_);
  return version_;
}

bool Adapters::sweep() noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(retired_, [this](const Version& version) {
    if (version.use_count() > 1) return false;
    ErrorHandle error;
    return trl_model_remove_adapter(model_, version->key.c_str(), error.out()) != TRL_E_BUSY;
  });
  return !retired_.empty();
}

}  // namespace trl::serve
