// Services that libtrl.so lends to the engine: error sinks, the memory counter, the log; and small types that
// both sides pass.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "base/files/host_files.h"
#include "base/interrupt.h"

namespace trl::engine {

class ErrorSink {
 public:
  virtual void set(const Error& error) noexcept = 0;

 protected:
  ~ErrorSink() = default;
};

// Process-wide services that libtrl.so owns and lends to the engine. Outlives every engine object. any
// thread.
class Host {
 public:
  virtual void log(int32_t level, std::string_view component,
                   std::string_view text) noexcept = 0;               // base::LogLevel
  virtual bool try_charge(int32_t kind, int64_t bytes) noexcept = 0;  // base::MemoryKind
  virtual void release(int32_t kind, int64_t bytes) noexcept = 0;
  virtual int64_t memory_limit() noexcept = 0;
  virtual int64_t memory_now() noexcept = 0;
  virtual int64_t memory_peak(int32_t kind) noexcept = 0;  // the highest so far in a run with a budget
  // Call after try_charge() failed on this thread. Negative: a limit narrower than memory_limit() was
  // exceeded (reason in `why`); ok: memory_limit() itself was.
  virtual int32_t why_refused(int32_t /*kind*/, int64_t /*bytes*/, ErrorSink& /*why*/) noexcept { return 0; }
  // The interrupt of the call that this thread is in, which the engine polls during the call; null: it has
  // none.
  virtual base::Interrupt* interrupt() noexcept { return nullptr; }
  virtual base::HostFiles* files() noexcept { return nullptr; }  // null: nothing is mounted

 protected:
  ~Host() = default;
};

struct NamedBytes {
  std::string_view name;
  std::string_view bytes;
};

struct Metric {
  std::string_view name;
  double value;
};

// Takes a text that is valid during the call.
class TextSink {
 public:
  virtual void set(std::string_view text) = 0;

 protected:
  ~TextSink() = default;
};

}  // namespace trl::engine
