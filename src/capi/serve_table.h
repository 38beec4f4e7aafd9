// Gives libtrl_serve.so the functions of libtrl.so that trl.h has not. Both are built together: a table of
// another version is refused.
#pragma once
#include <stdint.h>

#include "trl/trl.h"

namespace trl::capi {

inline constexpr uint32_t kServeTable = 2;

struct ServeTable {
  uint32_t version;
  // Makes an error, as functions of trl.h do; returns its code. key: or null.
  trl_status (*make_error)(trl_status code, const char* key, const char* message, trl_error** out) noexcept;
  // Writes a line into a runtime's log, where it waits for a call of the host. runtime: or null.
  void (*log)(trl_runtime* runtime, int32_t level, const char* component, const char* text) noexcept;
  // Gives the lines that wait to the host, on this thread.
  void (*deliver_log)(trl_runtime* runtime) noexcept;
  // Marks this thread as one of the library, on which no function of the host runs.
  void (*own_thread)() noexcept;
  // Returns whether this process may use the library: false in a forked child.
  int32_t (*usable)() noexcept;
  // Returns whether the process is ending: calls no longer begin.
  int32_t (*ending)() noexcept;
  // Return another handle of the same object, which keeps it alive, or null and the error. The tokenizer is a
  // model's own.
  trl_runtime* (*share_runtime)(const trl_runtime*, trl_error**) noexcept;
  trl_model* (*share_model)(const trl_model*, trl_error**) noexcept;
  trl_generator* (*share_generator)(const trl_generator*, trl_error**) noexcept;
  trl_tokenizer* (*share_tokenizer)(const trl_tokenizer*, trl_error**) noexcept;
  trl_tokenizer* (*tokenizer_of_model)(const trl_model*, trl_error**) noexcept;
  trl_model* (*model_of_generator)(const trl_generator*, trl_error**) noexcept;
  // Calls look until it returns another status than TRL_LATER, all in one call of the host: it gets the lines
  // that wait, and trl_runtime_cancel ends it. runtime: or null.
  trl_status (*wait)(trl_runtime* runtime, trl_status (*look)(void* data) noexcept, void* data,
                     trl_error** error) noexcept;
};

}  // namespace trl::capi

extern "C" {
// Returns the table, or null for another version.
TRL_API const trl::capi::ServeTable* trl_private_serve(uint32_t version) TRL_NOEXCEPT;
}
