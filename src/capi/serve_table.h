// Gives libtrl_serve.so the functions of libtrl.so that trl.h has not. Both are built together: a table of
// another version is refused.
#pragma once
#include <stdint.h>

#include "trl/trl.h"

namespace trl::capi {

inline constexpr uint32_t kServeTable = 4;

// A generator's use of memory for keys and values, and what prompt lookup has done, after its last call.
struct GeneratorUse {
  int64_t blocks, blocks_limit;  // of all generators that share them
  int64_t proposed, accepted;    // ids
  int64_t preempted;             // times that a completion gave its blocks back
};

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
  // Calls goes_on, which may wait a little and throws nothing, until it returns 0, and gives the host the
  // lines of the log meanwhile. TRL_E_CANCELLED: trl_runtime_cancel, or the process ends.
  trl_status (*wait)(trl_runtime* runtime, int32_t (*goes_on)(void*), void* of, trl_error**) noexcept;
  // Makes the constraint that options ask for, ready for the first token, on any thread: while *out is held,
  // trl_generator_add finds it. *out: null if they ask for none. goes_on: as of wait; null: only one that is
  // known already is given, and else null.
  trl_status (*constrain)(const trl_generator*, const trl_config* options, int32_t (*goes_on)(void*),
                          void* of, void** out, trl_error**) noexcept;
  void (*release_constraint)(void* constraint) noexcept;
  GeneratorUse (*use_of)(const trl_generator*) noexcept;  // any thread
  // Gives a weight the numbers of a copy of it that trl_model_read_tensor has made (TRL_TENSOR_COPY), whose
  // numbers the caller may have overwritten, and the copy those of the weight: its data is elsewhere then.
  // After an error both are as before.
  trl_status (*exchange_tensor)(trl_model*, const char* name, DLManagedTensorVersioned* copy,
                                trl_error**) noexcept;
  // Returns the version of a trainer's adapter that a completion began with; -1: there is none, or it is not
  // known.
  int64_t (*version_of)(const trl_generator*, size_t completion) noexcept;
};

}  // namespace trl::capi

extern "C" {
// Returns the table, or null for another version.
TRL_API const trl::capi::ServeTable* trl_private_serve(uint32_t version) TRL_NOEXCEPT;
}
