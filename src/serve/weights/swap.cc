#include "serve/weights/swap.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

#include "base/dlpack.h"
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

// A tensor as the model had it before, which this owns until it is written back.
class Old {
 public:
  Old(const capi::ServeTable& table, trl_model* model, const std::string& name) : name_(name) {
    call_when_free(table, [&](trl_error** error) {
      return trl_model_read_tensor(model, name_.c_str(), TRL_TENSOR_COPY, &tensor_, error);
    });
  }
  ~Old() {
    if (tensor_ != nullptr && tensor_->deleter != nullptr) tensor_->deleter(tensor_);
  }
  Old(const Old&) = delete;
  Old& operator=(const Old&) = delete;

  // Throws Torn.
  void write_back(const capi::ServeTable& table, trl_model* model) {
    DLManagedTensorVersioned given = *tensor_;
    given.deleter = nullptr;  // it stays this one's, however often it is written
    ErrorHandle error;
    const trl_status status = repeat_while_busy(table, std::nullopt, error, [&](trl_error** out) {
      return trl_model_write_tensor(model, name_.c_str(), &given, out);
    });
    if (status != TRL_OK)
      throw Torn(fmt::format("{} could not be written back: {}", name_, trl_error_message(error.get())));
  }

 private:
  const std::string name_;
  DLManagedTensorVersioned* tensor_ = nullptr;
};

void write_new(const capi::ServeTable& table, trl_model* model, const SentTensor& tensor) {
  std::vector<int64_t> shape = tensor.shape;
  DLManagedTensorVersioned given = {.version = {dlpack::kMajor, dlpack::kMinor},
                                    .manager_ctx = nullptr,
                                    .deleter = nullptr,
                                    .flags = dlpack::kReadOnly,
                                    .dl_tensor = {.data = const_cast<char*>(tensor.bytes.data()),
                                                  .device = {1, 0},
                                                  .ndim = static_cast<int32_t>(shape.size()),
                                                  .dtype = dlpack_type(tensor.dtype),
                                                  .shape = shape.data(),
                                                  .strides = nullptr,
                                                  .byte_offset = 0}};
  call_when_free(table, [&](trl_error** error) {
    return trl_model_write_tensor(model, tensor.name.c_str(), &given, error);
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

void swap_tensors(const capi::ServeTable& table, trl_model* model, std::span<const SentTensor> tensors) {
  std::vector<std::unique_ptr<Old>> old;
  try {
    for (const SentTensor& tensor : tensors) {
      auto before = std::make_unique<Old>(table, model, tensor.name);
      write_new(table, model, tensor);
      old.push_back(std::move(before));
    }
  } catch (...) {
    for (const auto& before : old) before->write_back(table, model);
    throw;
  }
}

}  // namespace trl::serve
