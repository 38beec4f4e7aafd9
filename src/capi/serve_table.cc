#include "capi/serve_table.h"

#include "base/interrupt.h"
#include "capi/ending.h"
#include "capi/generator_handle.h"
#include "capi/guard.h"
#include "capi/model_handle.h"
#include "capi/runtime.h"

namespace trl::capi {
namespace {

trl_status make_error(trl_status code, const char* key, const char* message, trl_error** out) noexcept {
  try {
    throw Error(static_cast<Status>(code), message == nullptr ? "" : message, key == nullptr ? "" : key);
  } catch (...) {
    return report_exception(out);
  }
}

void log(trl_runtime* runtime, int32_t level, const char* component, const char* text) noexcept {
  answer(0, [&] {
    if (runtime != nullptr && runtime->is(Tag::runtime) && !runtime->inherited())
      runtime->object->log().write(static_cast<base::LogLevel>(level), component, text);
    return 0;
  });
}

void deliver_log(trl_runtime* runtime) noexcept {
  guard(nullptr, [&] {
    if (runtime != nullptr) const RuntimeScope scope(*get(runtime, "runtime"));
  });
}

trl_status wait_while_later(trl_runtime* runtime, trl_status (*look)(void* data) noexcept, void* data,
                            trl_error** error) noexcept {
  return guard(error, [&] {
    const std::shared_ptr<Runtime> of = runtime_of(runtime);
    trl_status status = TRL_LATER;
    while (status == TRL_LATER) {
      const RuntimeScope scope(*of);
      base::poll();
      status = look(data);
    }
    return status;
  });
}

int32_t usable() noexcept { return process().forked() ? 0 : 1; }
int32_t is_ending() noexcept { return ending().begun() ? 1 : 0; }

// Returns a new handle of what body gives.
template <class H, class Body>
H* made(trl_error** error, Body&& body) noexcept {
  H* handle = nullptr;
  guard<From::anywhere>(error, [&] { handle = new H(body()); });
  return handle;
}

template <class H>
H* shared(const H* handle, const char* name, trl_error** error) noexcept {
  return made<H>(error, [&] { return get(handle, name); });
}

trl_runtime* share_runtime(const trl_runtime* from, trl_error** error) noexcept {
  return shared(from, "runtime", error);
}
trl_model* share_model(const trl_model* from, trl_error** error) noexcept {
  return shared(from, "model", error);
}
trl_generator* share_generator(const trl_generator* from, trl_error** error) noexcept {
  return shared(from, "generator", error);
}
trl_tokenizer* share_tokenizer(const trl_tokenizer* from, trl_error** error) noexcept {
  return shared(from, "tokenizer", error);
}
trl_tokenizer* tokenizer_of_model(const trl_model* model, trl_error** error) noexcept {
  return made<trl_tokenizer>(error, [&] {
    const auto shared_model = get(model, "model");
    const RuntimeScope scope(*shared_model->runtime());
    return shared_model->tokenizer();
  });
}
trl_model* model_of_generator(const trl_generator* generator, trl_error** error) noexcept {
  return made<trl_model>(error, [&] { return get(generator, "generator")->model(); });
}

constexpr ServeTable kTable = {
    kServeTable,        make_error,      log,         deliver_log,     mark_own_thread, usable,
    is_ending,          share_runtime,   share_model, share_generator, share_tokenizer, tokenizer_of_model,
    model_of_generator, wait_while_later};

}  // namespace
}  // namespace trl::capi

const trl::capi::ServeTable* trl_private_serve(uint32_t version) noexcept {
  return version == trl::capi::kServeTable ? &trl::capi::kTable : nullptr;
}
