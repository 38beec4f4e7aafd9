#include "capi/serve_table.h"

#include <memory>
#include <optional>

#include "base/interrupt.h"
#include "capi/config_handle.h"
#include "capi/generator/generator_handle.h"
#include "capi/guard.h"
#include "capi/model/dlpack.h"
#include "capi/model/model_handle.h"
#include "capi/process/ending.h"
#include "capi/runtime/runtime.h"
#include "engine/exchange.h"

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

trl_status wait_while(trl_runtime* runtime, int32_t (*goes_on)(void*), void* of, trl_error** error) noexcept {
  return guard(error, [&] {
    const std::shared_ptr<Runtime> shared = runtime == nullptr ? nullptr : get(runtime, "runtime");
    bool again = true;
    while (again) {
      std::optional<RuntimeScope> scope;
      if (shared) scope.emplace(*shared);
      base::poll();
      again = goes_on(of) != 0;
    }
  });
}

// Ends a call when a function of its caller's says so.
class Asking final : public base::Interrupt {
 public:
  Asking(int32_t (*ask)(void*), void* of) : ask_(ask), of_(of) { asked_ = 1; }
  bool goes_on() noexcept override { return ask_(of_) != 0; }

 private:
  int32_t (*const ask_)(void*);
  void* const of_;
};

using Constraint = std::shared_ptr<engine::Constraint>;

trl_status constrain(const trl_generator* generator, const trl_config* options, int32_t (*goes_on)(void*),
                     void* of, void** out, trl_error** error) noexcept {
  *out = nullptr;
  return guard<From::anywhere>(error, [&] {
    Asking asking(goes_on, of);
    const base::InterruptScope scope(goes_on == nullptr ? base::thread_interrupt() : &asking);
    Constraint made = get(generator, "generator")->constraint(options_of(options), goes_on != nullptr);
    if (made != nullptr) *out = new Constraint(std::move(made));
  });
}

void release_constraint(void* constraint) noexcept { delete static_cast<Constraint*>(constraint); }

GeneratorUse use_of(const trl_generator* generator) noexcept {
  return answer(GeneratorUse{}, [&] {
    const engine::GenerationUse use = get(generator, "generator")->use();
    return GeneratorUse{use.blocks, use.blocks_limit, use.proposed, use.accepted, use.preempted};
  });
}

trl_status exchange_tensor(trl_model* model, const char* name, DLManagedTensorVersioned* copy,
                           trl_error** error) noexcept {
  return guard(error, [&] {
    const auto shared_model = get(model, "model");
    const std::string_view given = text(name, "name");
    exchange_copy(copy, [&](engine::HeldTensor& tensor) {
      shared_model->ask(Sharing::none, Use::open, [&](engine::Model& on, engine::ErrorSink& sink) {
        return static_cast<engine::ExchangingModel&>(on).exchange_tensor(given, tensor, sink);
      });
    });
  });
}

int64_t version_of(const trl_generator* generator, size_t completion) noexcept {
  return answer(int64_t{-1},
                [&] { return get(generator, "generator")->version_of(static_cast<int64_t>(completion)); });
}

constexpr ServeTable kTable = {
    kServeTable,        make_error,    log,         deliver_log,        mark_own_thread, usable,
    is_ending,          share_runtime, share_model, share_generator,    share_tokenizer, tokenizer_of_model,
    model_of_generator, wait_while,    constrain,   release_constraint, use_of,          exchange_tensor,
    version_of};

}  // namespace
}  // namespace trl::capi

const trl::capi::ServeTable* trl_private_serve(uint32_t version) noexcept {
  return version == trl::capi::kServeTable ? &trl::capi::kTable : nullptr;
}
