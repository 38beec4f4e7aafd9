#include "serve/weights/swap.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/dlpack.h"
#include "base/memory/large_pages.h"
#include "base/tensor_message.h"
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

void copy_bytes(char* to, const char* from, size_t bytes, base::ThreadPool& pool) {
  constexpr int64_t kAtOnce = 4 << 20;
  pool.parallel_for(static_cast<int64_t>(bytes), kAtOnce, [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  });
}

// Takes the pages of memory from the system.
void take_pages(char* memory, size_t bytes, base::ThreadPool& pool) {
  constexpr int64_t kAtOnce = 16 << 20;
  pool.parallel_for(static_cast<int64_t>(bytes), kAtOnce, [&](int64_t begin, int64_t end) {
    constexpr int64_t kPage = 4096;
    for (int64_t at = begin; at < end; at += kPage) memory[at] = 0;
  });
}

}  // namespace

void call_when_free(const capi::ServeTable& table, const std::function<trl_status(trl_error**)>& call) {
  ErrorHandle error;
  const trl_status status = repeat_while_busy(table, Clock::now() + kPatience, error, call);
  if (status == TRL_E_BUSY || status == TRL_E_CANCELLED)
    throw Refusal(503, "the model is in use; try again later");
  check(status, error);
}

TensorsBefore::TensorsBefore(std::span<const SentTensor> tensors, base::ThreadPool& pool) : pool_(pool) {
  namespace form = base::tensor_message;
  size_t bytes = 0;
  for (const SentTensor& tensor : tensors) bytes += form::aligned(tensor.bytes.size());
  memory_ = base::large_memory(bytes);
  take_pages(memory_.get(), bytes, pool);
  char* place = memory_.get();
  for (const SentTensor& tensor : tensors) {
    all_.push_back({&tensor, place, nullptr});
    place += form::aligned(tensor.bytes.size());
  }
}

void TensorsBefore::keep(size_t tensor, const capi::ServeTable& table, trl_model* model) {
  Kept& kept = all_[tensor];
  const char* const name = kept.tensor->name.c_str();
  auto lent = std::make_unique<LentTensor>();
  call_when_free(table, [&](trl_error** error) {
    const trl_status status = trl_model_read_tensor(model, name, TRL_TENSOR_VIEW, lent->out(), error);
    if (status != TRL_E_UNSUPPORTED) return status;
    trl_error_destroy(std::exchange(*error, nullptr));
    return trl_model_read_tensor(model, name, TRL_TENSOR_COPY, lent->out(), error);
  });
  if (is_on_host(*lent)) {
    copy_bytes(kept.bytes, bytes_of(*lent), kept.tensor->bytes.size(), pool_);
  } else {
    lent = std::make_unique<LentTensor>();
    call_when_free(table, [&](trl_error** error) {
      return trl_model_read_tensor(model, name, TRL_TENSOR_COPY, lent->out(), error);
    });
    kept.copy = std::move(lent);
  }
}

void TensorsBefore::write_back(size_t count, const capi::ServeTable& table, trl_model* model) {
  for (size_t i = 0; i < count; ++i) {
    const Kept& kept = all_[i];
    const char* const name = kept.tensor->name.c_str();
    ErrorHandle error;
    trl_status status = TRL_OK;
    const auto write = [&](DLManagedTensorVersioned given) {
      given.deleter = nullptr;  // it stays this one's, however often it is written
      status = repeat_while_busy(table, std::nullopt, error, [&](trl_error** out) {
        return trl_model_write_tensor(model, name, &given, out);
      });
    };
    kept.copy ? write(*kept.copy->get()) : with_tensor(*kept.tensor, kept.bytes, write);
    if (status != TRL_OK)
      throw Torn(fmt::format("{} could not be written back: {}", name, trl_error_message(error.get())));
  }
}

void swap_tensors(const capi::ServeTable& table, trl_model* model, std::span<const SentTensor> tensors,
                  TensorsBefore& before) {
  size_t written = 0;
  try {
    for (; written < tensors.size(); ++written) {
      const SentTensor& tensor = tensors[written];
      before.keep(written, table, model);
      with_tensor(tensor, tensor.bytes.data(), [&](DLManagedTensorVersioned& given) {
        call_when_free(table, [&](trl_error** error) {
          return trl_model_write_tensor(model, tensor.name.c_str(), &given, error);
        });
      });
    }
  } catch (...) {
    before.write_back(written, table, model);
    throw;
  }
}

}  // namespace trl::serve
