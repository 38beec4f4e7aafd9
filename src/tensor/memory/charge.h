// Charges bytes to a host's counter.
#pragma once
#include <fmt/format.h>

#include <cstdint>

#include "base/error.h"
#include "base/memory/memory.h"
#include "engine/error_capture.h"
#include "engine/host.h"

namespace trl::tensor {

// Throws the host's error, or Error(out_of_memory), if they exceed its limit.
inline void charge(engine::Host& host, int64_t bytes, base::MemoryKind kind) {
  const auto index = static_cast<int32_t>(kind);
  if (host.try_charge(index, bytes)) return;
  engine::ErrorCapture why;
  why.check(host.why_refused(index, bytes, why));
  throw Error(
      Status::out_of_memory,
      fmt::format("runtime.host_memory_limit: {} bytes of {} do not fit: {} bytes in use, limit {} bytes",
                  bytes, base::memory_kind_name(kind), host.memory_now(), host.memory_limit()),
      "runtime.host_memory_limit");
}

}  // namespace trl::tensor
