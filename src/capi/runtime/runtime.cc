// trl_runtime_*.
#include "capi/runtime/runtime.h"

#include "base/json/json.h"
#include "capi/config_handle.h"
#include "capi/guard.h"

namespace trl::capi {
namespace {

int settle(const config::Config& config) {
  Settings settings;
  if (config.is_set("runtime.threads")) settings.threads = config.get_optional_int("runtime.threads");
  if (config.is_set("runtime.host_memory_limit"))
    settings.memory_limit = config.get_optional_int("runtime.host_memory_limit").value_or(0);
  process().join(settings);
  try {
    return process().threads();
  } catch (...) {
    process().leave();
    throw;
  }
}

base::MemoryKind memory_kind(std::string_view name) {
  std::string known;
  for (int32_t i = 0; i < base::kMemoryKinds; ++i) {
    const auto kind = static_cast<base::MemoryKind>(i);
    if (base::memory_kind_name(kind) == name) return kind;
    known += (i > 0 ? ", " : "") + std::string(base::memory_kind_name(kind));
  }
  fail(Status::not_found, "kind: '{}' is not one of {}", name, known);
}

}  // namespace

void RuntimeLog::set(Callback<trl_log_fn> callback) {
  Shared next;
  if (callback.function != nullptr) next = std::make_shared<const Callback<trl_log_fn>>(std::move(callback));
  const std::lock_guard lock(mutex_);
  callback_.swap(next);  // the previous one is destroyed after the lock
}

void RuntimeLog::deliver(const Shared& callback, const Line& line) noexcept {
  call_host_and_keep("log", [&] {
    callback->function(callback->user_data.get(), static_cast<int32_t>(line.level), line.component.c_str(),
                       line.text.c_str(), line.text.size());
  });
}

void RuntimeLog::write(base::LogLevel level, std::string_view component, std::string_view text) noexcept {
  try {
    {
      const std::lock_guard lock(mutex_);
      if (!callback_) return;
      waiting_.push_back({level, std::string(component), std::string(text)});
    }
    if (inside_call() && !on_own_thread()) drain();
  } catch (...) {
    return;  // a line is lost if no memory is left for it
  }
}

void RuntimeLog::drain() noexcept {
  Shared callback;
  std::vector<Line> lines;
  {
    const std::lock_guard lock(mutex_);
    callback = callback_;
    lines.swap(waiting_);
  }
  if (!callback) return;
  for (const Line& line : lines) deliver(callback, line);
}

Runtime::Runtime(const config::Config& config) : pool_(settle(config)) {}
Runtime::~Runtime() { process().leave(); }

std::shared_ptr<const ProgressCallback> Runtime::progress() const {
  const std::lock_guard lock(mutex_);
  return progress_;
}

void Runtime::set_progress(ProgressCallback callback) {
  std::shared_ptr<const ProgressCallback> next;
  if (callback.function != nullptr) next = std::make_shared<const ProgressCallback>(std::move(callback));
  const std::lock_guard lock(mutex_);
  progress_.swap(next);  // the previous one is destroyed after the lock
}

void Runtime::hold(std::shared_ptr<const Mount> mount) {
  const std::lock_guard lock(mutex_);
  mounts_.push_back(std::move(mount));
}

const char* Runtime::describe() {
  base::Json info = {{"threads", process().threads()}, {"host_memory_limit", process().memory().limit()}};
  info["engine"] = base::parse_json(process().engine().info_json(), "engine");
  return keep(info.dump());
}

RuntimeScope::RuntimeScope(const Runtime& runtime) : log_(runtime.shared_log()) {
  ReportingInterrupt* const call = own_interrupt();
  if (call == nullptr) return;
  call->works_for(&runtime);
  if (!on_own_thread()) call->report_to(runtime.progress());
}

std::shared_ptr<Runtime> runtime_of(const trl_runtime* runtime) {
  const auto shared = get_or_null(runtime, "runtime");
  return shared ? shared : std::make_shared<Runtime>(config::Config());
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_runtime_create(const trl_config* config, trl_runtime** out_runtime,
                              trl_error** error) noexcept {
  return guard(error, out_runtime, [&] {
    need(out_runtime, "out_runtime");
    const auto shared = get_or_null(config, "config");
    *out_runtime =
        new trl_runtime(std::make_shared<Runtime>(shared ? shared->copy() : trl::config::Config()));
  });
}

trl_status trl_runtime_set_log(trl_runtime* runtime, trl_log_fn log, void* user_data, trl_destroy_fn destroy,
                               trl_error** error) noexcept {
  return guard(error, [&, callback = Callback<trl_log_fn>{log, {user_data, destroy}}]() mutable {
    get(runtime, "runtime")->log().set(std::move(callback));
  });
}

trl_status trl_runtime_set_progress(trl_runtime* runtime, trl_progress_fn progress, void* user_data,
                                    trl_destroy_fn destroy, trl_error** error) noexcept {
  return guard(error, [&, callback = ProgressCallback{progress, {user_data, destroy}}]() mutable {
    get(runtime, "runtime")->set_progress(std::move(callback));
  });
}

trl_status trl_runtime_set_memory_limit(trl_runtime* runtime, int64_t bytes, trl_error** error) noexcept {
  return guard(error, [&] {
    get(runtime, "runtime");
    process().set_memory_limit(bytes);
  });
}

trl_status trl_runtime_memory(const trl_runtime* runtime, const char* kind, int64_t* out_now_bytes,
                              int64_t* out_peak_bytes, trl_error** error) noexcept {
  return guard<From::anywhere>(error, out_now_bytes, out_peak_bytes, [&] {
    get(runtime, "runtime");
    const auto& memory = process().memory();
    const bool all = kind == nullptr;
    const auto which = all ? trl::base::MemoryKind::weights : memory_kind(text(kind, "kind"));
    if (out_now_bytes != nullptr) *out_now_bytes = all ? memory.now() : memory.now(which);
    if (out_peak_bytes != nullptr) *out_peak_bytes = all ? memory.peak() : memory.peak(which);
  });
}

trl_status trl_runtime_describe(trl_runtime* runtime, const char** out_json, trl_error** error) noexcept {
  return guard(error, out_json, [&] {
    const auto shared = get(runtime, "runtime");
    need(out_json, "out_json");
    const RuntimeScope scope(*shared);
    *out_json = shared->describe();
  });
}

void trl_runtime_cancel(trl_runtime* runtime) noexcept {
  answer(0, [&] {
    if (runtime == nullptr)
      Interrupt::cancel_calls(nullptr);
    else if (runtime->is(Tag::runtime) && !runtime->inherited())
      Interrupt::cancel_calls(runtime->object.get());
    return 0;
  });
}

void trl_runtime_destroy(trl_runtime* runtime) noexcept { destroy(runtime); }

trl_status trl_runtime_shutdown(trl_error** error) noexcept {
  return guard(error, [] { process().shut_down(); });
}
