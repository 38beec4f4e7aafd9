#include "serve/weights/weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "base/files/hash.h"
#include "base/tensor_message.h"
#include "base/text/nearest.h"
#include "base/threads/thread_pool.h"
#include "serve/api/error.h"
#include "serve/engine/worker.h"
#include "serve/weights/lent_tensor.h"

namespace trl::serve {

namespace {

namespace form = base::tensor_message;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Adapters have tensors of their own, which come with adapters.
bool is_of_adapter(std::string_view name) {
  return name.find(".lora_") != name.npos || name.find(".modules_to_save.") != name.npos;
}

// Returns the bytes of a tensor of the model; nullopt: its memory is of another form, or not on the host.
std::optional<std::string_view> lend(const capi::ServeTable& table, trl_model* model, const std::string& name,
                                     size_t number_size, LentTensor& lent) {
  trl_status status = TRL_OK;
  call_when_free(table, [&](trl_error** error) {
    status = trl_model_read_tensor(model, name.c_str(), TRL_TENSOR_VIEW, lent.out(), error);
    return status == TRL_E_UNSUPPORTED ? TRL_OK : status;
  });
  if (status == TRL_E_UNSUPPORTED) return std::nullopt;
  const base::dlpack::Tensor& tensor = lent.get()->dl_tensor;
  if (!is_on_host(lent) || tensor.dtype.bits != number_size * 8) return std::nullopt;
  size_t bytes = number_size;
  for (int32_t i = 0; i < tensor.ndim; ++i) bytes *= static_cast<size_t>(tensor.shape[i]);
  return std::string_view(bytes_of(lent), bytes);
}

int threads_for(size_t bytes) {
  constexpr size_t kFewBytes = 1 << 20;  // that one thread reads before others would begin
  return bytes < kFewBytes ? 1 : base::available_cpus();
}

}  // namespace

Weights::Weights(const capi::ServeTable& table, trl_model* model, Worker& worker, uint64_t parameters)
    : table_(table),
      model_(model),
      worker_(worker),
      most_bytes_(4 * parameters + form::kHeaderBytes),
      staged_(table, model) {}

std::shared_ptr<const void> Weights::claim() {
  if (model_ == nullptr)
    throw Refusal(400, "weights cannot be replaced: the server was given a generator, not its model");
  if (claimed_->exchange(true))
    throw Refusal(409, "another client is replacing the weights; send them again when it is done");
  return {this, [claimed = claimed_](const void*) { *claimed = false; }};
}

// Reads the names once; adapters come and go, and are not among them.
void Weights::learn_tensors() {
  if (!tensors_.empty()) return;
  std::string json;
  call_when_free(table_, [&](trl_error** error) {
    const char* text = nullptr;
    const trl_status status = trl_model_get_tensors(model_, &text, error);
    if (status == TRL_OK) json = text;
    return status;
  });
  for (const base::Json& one : base::parse_json(json, "tensors")) {
    const std::string name = one.value("name", "");
    if (is_of_adapter(name)) continue;
    tensors_[name] = {shape_of(one.value("shape", base::Json())).value_or(std::vector<int64_t>()),
                      one.value("dtype", ""), one.value("stored", ""), std::nullopt};
  }
}

void Weights::learn_hashes() {
  struct Unknown {
    Known* tensor;
    std::unique_ptr<LentTensor> lent;
    std::string_view bytes;
  };
  std::vector<Unknown> all;
  size_t bytes = 0;
  for (auto& [name, tensor] : tensors_) {
    const size_t size = form::number_size(tensor.dtype);
    if (tensor.hash || size == 0 || tensor.stored != tensor.dtype) continue;
    auto lent = std::make_unique<LentTensor>();
    const std::optional<std::string_view> own = lend(table_, model_, name, size, *lent);
    if (!own) continue;
    bytes += own->size();
    all.push_back({&tensor, std::move(lent), *own});
  }
  base::ThreadPool(threads_for(bytes)).parallel_for(std::ssize(all), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const Unknown& one = all[static_cast<size_t>(i)];
      one.tensor->hash = base::xxh3_64(one.bytes);
    }
  });
}

base::Json Weights::list() {
  base::Json out = base::Json::object();
  out["version"] = version();
  out["updating"] = claimed();
  out["tensors"] = base::Json::array();
  if (model_ == nullptr) return out;
  const std::lock_guard lock(listing_);
  worker_.between_steps([&](trl_generator*) {
    learn_tensors();
    learn_hashes();
    out["version"] = version();
  });
  for (const auto& [name, tensor] : tensors_)
    out["tensors"].push_back({{"name", name},
                              {"shape", tensor.shape},
                              {"dtype", tensor.dtype},
                              {"hash", tensor.hash ? base::Json(hash_text(*tensor.hash)) : base::Json()}});
  return out;
}

const Weights::Known& Weights::known(std::string_view name) const {
  const auto found = tensors_.find(name);
  if (found != tensors_.end()) return found->second;
  std::vector<std::string_view> names;
  for (const auto& [other, tensor] : tensors_) names.push_back(other);
  const std::string_view meant = base::nearest(name, names);
  throw Refusal(400,
                fmt::format("{}: the model has no such tensor; {}", name,
                            meant.empty() ? "is it another model? GET /trl/weights lists those that it has"
                                          : fmt::format("did you mean {}?", meant)),
                "name");
}

bool Weights::whole() const { return worker_.whole(); }

// Weights that are incomplete are replaced as a whole.
void Weights::check_whole(const TensorMessage& message) const {
  if (worker_.whole()) return;
  std::set<std::string_view> named;
  for (const SentTensor& tensor : message.tensors) named.insert(tensor.name);
  for (const auto& [name, hash] : message.unchanged) named.insert(name);
  for (const auto& [name, tensor] : tensors_)
    if (tensor.hash && !named.contains(name))
      throw Refusal(409, fmt::format("{} is missing: send it, or name it in unchanged", name));
}

void Weights::check_message(const TensorMessage& message) {
  check_whole(message);
  if (message.base_version && *message.base_version != version())
    throw Refusal(
        409,
        fmt::format("base_version: the weights have the version {}, not {}; ask GET /trl/weights and "
                    "send what differs",
                    version(), *message.base_version),
        "base_version");
  for (const SentTensor& tensor : message.tensors) {
    const Known& own = known(tensor.name);
    if (own.shape != tensor.shape)
      throw Refusal(400,
                    fmt::format("{}: its shape is {}, not {}", tensor.name, shape_text(own.shape),
                                shape_text(tensor.shape)),
                    "shape");
    if (own.stored != own.dtype)
      throw Refusal(400,
                    fmt::format("{}: it is held as {}, which is never changed; serve the model without "
                                "quantisation, or send an adapter",
                                tensor.name, own.stored),
                    "name");
    if (own.dtype != tensor.dtype)
      throw Refusal(400,
                    fmt::format("{}: {} is not accepted; send {}, as the server has it", tensor.name,
                                tensor.dtype, own.dtype),
                    "dtype");
  }
  for (const auto& [name, hash] : message.unchanged)
    if (known(name).hash != hash)
      throw Refusal(409, fmt::format("{}: the server has other numbers; send it, too", name), "unchanged");
}

void Weights::release_memory() noexcept {
  if (claimed_->exchange(true)) return;
  staged_.release();
  std::string().swap(body_);
  memories_.release();
  *claimed_ = false;
}

WeightUpdate Weights::replace(const TensorMessage& message) {
  const auto begin = Clock::now();
  try {
    staged_.swap(message.tensors);
  } catch (const Torn& torn) {
    worker_.set_whole(false);
    staged_.release();
    for (auto& [name, tensor] : tensors_) tensor.hash.reset();
    const std::lock_guard lock(mutex_);
    ++counts_.version;  // whoever knows the old weights does not know these
    throw Refusal(500, torn.what());
  }
  worker_.set_whole(true);
  for (const SentTensor& tensor : message.tensors) tensors_.find(tensor.name)->second.hash = tensor.hash;
  WeightUpdate update{.changed = message.tensors.size(), .swap_seconds = seconds_since(begin)};
  for (const SentTensor& tensor : message.tensors) update.bytes += tensor.bytes.size();
  const std::lock_guard lock(mutex_);
  if (update.changed > 0) ++counts_.version;
  ++counts_.done;
  counts_.swap_seconds += update.swap_seconds;
  update.version = counts_.version;
  return update;
}

WeightUpdate Weights::take(std::string_view bytes) {
  try {
    const TensorMessage message = read_message(bytes);
    const std::lock_guard lock(listing_);
    worker_.between_steps([&](trl_generator*) {
      learn_tensors();
      if (!message.unchanged.empty() || !worker_.whole()) learn_hashes();
    });
    check_message(message);
    worker_.between_steps([&](trl_generator*) { staged_.make_room(message.tensors); });
    const auto begin = Clock::now();
    base::ThreadPool pool(threads_for(bytes.size()));
    staged_.fill(message.tensors, pool);
    const double hashing = seconds_since(begin);
    WeightUpdate update;
    worker_.between_steps([&](trl_generator*) { update = replace(message); });
    update.hash_seconds = hashing;
    return update;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    ++counts_.refused;
    throw;
  }
}

WeightCounts Weights::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace trl::serve
