#include "serve/weights/staged_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/dlpack.h"
#include "base/files/hashed_copy.h"
#include "serve/api/error.h"
#include "serve/handles.h"

namespace trl::serve {

namespace {

namespace dlpack = base::dlpack;
using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause{2};  // until a call that found the model in use is repeated
constexpr std::chrono::seconds kPatience{10};

// Calls until the model is free, at most until `end`. Returns the status that is not TRL_E_BUSY.
trl_status repeat_while_busy(const capi::ServeTable& table, std::optional<Clock::time_point> end,
                             ErrorHandle& error, const std::function<trl_status(trl_error**)>& call) {
  while (true) {
    const trl_status status = call(error.out());
    const bool again = status == TRL_E_BUSY || status == TRL_E_CANCELLED;
    if (!again || table.ending() != 0 || (end && Clock::now() > *end)) return status;
    trl_error_destroy(std::exchange(*error.out(), nullptr));
    std::this_thread::sleep_for(kPause);
  }
}

dlpack::Type dlpack_type(std::string_view dtype) {
  if (dtype == "bfloat16") return {4, 16, 1};
  return {2, static_cast<uint8_t>(dtype == "float16" ? 16 : 32), 1};
}

// Calls use with numbers as a tensor that the library reads.
template <class Use>
void with_tensor(const SentTensor& tensor, const char* bytes, const Use& use) {
  std::vector<int64_t> shape = tensor.shape;
  DLManagedTensorVersioned given = {.version = {dlpack::kMajor, dlpack::kMinor},
                                    .manager_ctx = nullptr,
                                    .deleter = nullptr,
                                    .flags = dlpack::kReadOnly,
                                    .dl_tensor = {.data = const_cast<char*>(bytes),
                                                  .device = {1, 0},
                                                  .ndim = static_cast<int32_t>(shape.size()),
                                                  .dtype = dlpack_type(tensor.dtype),
                                                  .shape = shape.data(),
                                                  .strides = nullptr,
                                                  .byte_offset = 0}};
  use(given);
}

void check_hash(const SentTensor& tensor, uint64_t hash) {
  if (hash == tensor.hash) return;
  throw Refusal(400,
                fmt::format("{}: its bytes have the hash {}, and {} was sent; send it again", tensor.name,
                            hash_text(hash), hash_text(tensor.hash)),
                "hash");
}

}  // namespace

void call_when_free(const capi::ServeTable& table, const std::function<trl_status(trl_error**)>& call) {
  ErrorHandle error;
  const trl_status status = repeat_while_busy(table, Clock::now() + kPatience, error, call);
  if (status == TRL_E_BUSY || status == TRL_E_CANCELLED)
    throw Refusal(503, "the model is in use; try again later");
  check(status, error);
}

LentTensor& StagedTensors::copy_of(const SentTensor& tensor) const {
  return *copies_.find(tensor.name)->second;
}

void StagedTensors::make_room(std::span<const SentTensor> tensors) {
  for (const SentTensor& tensor : tensors) {
    if (copies_.contains(tensor.name)) continue;
    auto copy = std::make_unique<LentTensor>();
    call_when_free(table_, [&](trl_error** error) {
      return trl_model_read_tensor(model_, tensor.name.c_str(), TRL_TENSOR_COPY, copy->out(), error);
    });
    copies_.emplace(tensor.name, std::move(copy));
  }
}

// The largest first, so that the threads end at about the same time.
void StagedTensors::fill(std::span<const SentTensor> tensors, base::ThreadPool& pool) {
  std::vector<const SentTensor*> all;
  for (const SentTensor& tensor : tensors) all.push_back(&tensor);
  std::ranges::stable_sort(all, std::ranges::greater(), [](const auto* one) { return one->bytes.size(); });
  pool.parallel_for(std::ssize(all), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const SentTensor& tensor = *all[static_cast<size_t>(i)];
      const LentTensor& copy = copy_of(tensor);
      if (!is_on_host(copy)) {
        check_hash(tensor, base::xxh3_64(tensor.bytes));
        continue;
      }
      base::HashedCopy numbers(bytes_of(copy));
      numbers.add_shared(tensor.bytes);
      check_hash(tensor, numbers.hash());
    }
  });
}

void StagedTensors::exchange(const SentTensor& tensor) {
  call_when_free(table_, [&](trl_error** error) {
    return table_.exchange_tensor(model_, tensor.name.c_str(), copy_of(tensor).get(), error);
  });
}

// Tensors on a device have their new numbers written once the old ones are safe.
void StagedTensors::write_to_device(const SentTensor& tensor) {
  with_tensor(tensor, tensor.bytes.data(), [&](DLManagedTensorVersioned& given) {
    call_when_free(table_, [&](trl_error** error) {
      return trl_model_write_tensor(model_, tensor.name.c_str(), &given, error);
    });
  });
}

// Gives the model its old numbers back. Throws Torn.
void StagedTensors::undo(std::span<const SentTensor> tensors) {
  for (const SentTensor& tensor : tensors) {
    ErrorHandle error;
    const trl_status status = repeat_while_busy(table_, std::nullopt, error, [&](trl_error** out) {
      return table_.exchange_tensor(model_, tensor.name.c_str(), copy_of(tensor).get(), out);
    });
    if (status != TRL_OK)
      throw Torn(
          fmt::format("{} could not be written back: {}", tensor.name, trl_error_message(error.get())));
  }
}

void StagedTensors::swap(std::span<const SentTensor> tensors) {
  size_t done = 0;
  try {
    while (done < tensors.size()) {
      const SentTensor& tensor = tensors[done];
      exchange(tensor);
      ++done;
      if (!is_on_host(copy_of(tensor))) write_to_device(tensor);
    }
  } catch (...) {
    undo(tensors.first(done));
    throw;
  }
}

}  // namespace trl::serve
