// trl_model_get_tensors, trl_model_read_tensor and trl_model_write_tensor.
#include "base/json/json.h"
#include "capi/callback.h"
#include "capi/guard.h"
#include "capi/model/dlpack.h"
#include "capi/model/model_handle.h"

namespace trl::capi {
namespace {

class List final : public engine::TensorList {
 public:
  void add(const engine::TensorInfo& tensor) override {
    all_.push_back({{"name", tensor.name},
                    {"shape", std::vector<int64_t>(tensor.shape.begin(), tensor.shape.end())},
                    {"dtype", tensor.dtype},
                    {"stored", tensor.stored},
                    {"trained", tensor.trained},
                    {"gradient", tensor.gradient}});
  }
  std::string text() const { return all_.dump(); }

 private:
  base::Json all_ = base::Json::array();
};

engine::TensorRead read_of(int32_t what) {
  if (what == TRL_TENSOR_COPY) return engine::TensorRead::copy;
  if (what == TRL_TENSOR_VIEW) return engine::TensorRead::view;
  if (what == TRL_TENSOR_GRADIENT) return engine::TensorRead::gradient;
  fail(Status::invalid_argument,
       "what is {}; accepted: TRL_TENSOR_COPY, TRL_TENSOR_VIEW, TRL_TENSOR_GRADIENT", what);
}

// A tensor of the host that was taken over, and is deleted within the call.
class Taken {
 public:
  explicit Taken(DLManagedTensorVersioned* tensor) noexcept : tensor_(tensor) {}
  ~Taken() {
    if (tensor_ != nullptr && tensor_->deleter != nullptr)
      call_host_and_keep("deleter", [&] { tensor_->deleter(tensor_); });
  }
  Taken(const Taken&) = delete;
  Taken& operator=(const Taken&) = delete;
  const DLManagedTensorVersioned& operator*() const { return *tensor_; }
  void give_back() noexcept { tensor_ = nullptr; }

 private:
  DLManagedTensorVersioned* tensor_;
};

void write(trl_model* model, const char* name, const DLManagedTensorVersioned& tensor) {
  const auto shared = get(model, "model");
  const std::string_view given = text(name, "name");
  const HostTensor values(tensor);
  shared->ask(Sharing::none, Use::open, [&](engine::Model& on, engine::ErrorSink& sink) {
    return on.write_tensor(given, values.get(), sink);
  });
}

}  // namespace
}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_model_get_tensors(trl_model* model, const char** out_json, trl_error** error) noexcept {
  return guard(error, out_json, [&] {
    const auto shared = get(model, "model");
    need(out_json, "out_json");
    List list;
    shared->ask(Sharing::none, Use::open, [&](trl::engine::Model& of, trl::engine::ErrorSink& sink) {
      return of.list_tensors(list, sink);
    });
    *out_json = shared->keep(list.text());
  });
}

trl_status trl_model_read_tensor(trl_model* model, const char* name, int32_t what,
                                 DLManagedTensorVersioned** out_tensor, trl_error** error) noexcept {
  return guard(error, out_tensor, [&] {
    const auto shared = get(model, "model");
    need(out_tensor, "out_tensor");
    const std::string_view given = text(name, "name");
    const auto read = read_of(what);
    trl::engine::HeldTensor held;
    shared->ask(Sharing::none, Use::open, [&](trl::engine::Model& of, trl::engine::ErrorSink& sink) {
      return of.read_tensor(given, read, &held, sink);
    });
    *out_tensor = to_dlpack(std::move(held), read == trl::engine::TensorRead::view);
  });
}

trl_status trl_model_write_tensor(trl_model* model, const char* name, DLManagedTensorVersioned* tensor,
                                  trl_error** error) noexcept {
  return guard(error, [&] {
    need(tensor, "tensor");
    Taken taken(tensor);
    try {
      write(model, name, *taken);
    } catch (const trl::Error& failed) {
      if (failed.status() == trl::Status::busy) taken.give_back();
      throw;
    }
  });
}
