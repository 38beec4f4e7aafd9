// The boundary of the engine: no exception crosses it, and no message of libtorch reaches stderr.
#pragma once
#include <c10/util/Exception.h>
#include <torch/csrc/api/include/torch/version.h>

#include <new>

#include "base/error.h"
#include "base/files/mapped_reads.h"
#include "base/log.h"
#include "engine/host.h"
#include "kernels/path.h"
#include "tensor/threads/openmp_threads.h"

namespace trl::entry {

// A log sink that sends lines to the host.
class HostLog final : public base::LogSink {
 public:
  explicit HostLog(engine::Host& host) : host_(host) {}
  void write(base::LogLevel level, std::string_view component, std::string_view text) noexcept override {
    host_.log(static_cast<int32_t>(level), component, text);
  }

 private:
  engine::Host& host_;
};

#if TORCH_VERSION_MAJOR >= 2
namespace torch_warnings = c10::WarningUtils;
#else
namespace torch_warnings = c10::Warning;
#endif

// Sends libtorch's warnings on this thread to the host's log during its life (c10's handler is thread-local).
class WarningsToHost final : public c10::WarningHandler {
 public:
  explicit WarningsToHost(engine::Host& host) : host_(host), guard_(this) {}
#if TORCH_VERSION_MAJOR >= 2
  void process(const c10::Warning& warning) override { log(warning.msg()); }
#else
  void process(const c10::SourceLocation&, const std::string& text, bool) override { log(text); }
#endif

 private:
  void log(const std::string& text);
  engine::Host& host_;
  const torch_warnings::WarningHandlerGuard guard_;
};

// Reports the current exception as status and message.
int32_t report_exception(engine::ErrorSink& error) noexcept;

// Runs body, which returns a Status or nothing, and reports its exceptions.
template <typename Body>
int32_t guard(engine::Host& host, engine::ErrorSink& error, Body&& body) noexcept {
  try {
    const WarningsToHost warnings(host);
    const base::InterruptScope interrupted_by(host.interrupt());
    if constexpr (!std::is_void_v<decltype(body())>) return static_cast<int32_t>(body());
    body();
    return static_cast<int32_t>(Status::ok);
  } catch (...) {
    return report_exception(error);
  }
}

// The same for bodies that compute.
template <typename Body>
int32_t compute(engine::Host& host, engine::ErrorSink& error, Body&& body) noexcept {
  return guard(host, error, [&] {
    const tensor::OpenMpThreads narrow(1);
    const base::MappedReads reading;
    return body();
  });
}

// The same on this path, whatever that of the calling thread is.
template <typename Body>
int32_t compute(engine::Host& host, kernels::Path path, engine::ErrorSink& error, Body&& body) noexcept {
  return compute(host, error, [&] {
    const kernels::PathScope scope(path);
    return body();
  });
}

}  // namespace trl::entry
