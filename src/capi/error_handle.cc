// trl_error_*: the error that a failed call returns to the caller.
#include <cstring>
#include <new>

#include "capi/guard.h"

namespace trl::capi {
namespace {

// Never destroyed, and made without allocation: the message fits into std::string itself.
trl_error* out_of_memory_error() noexcept {
  alignas(trl_error) static std::byte place[sizeof(trl_error)];
  static trl_error* const error = new (place) trl_error(Status::out_of_memory, "out of memory", "", 0);
  return error;
}

trl_status report(trl_error** error, Status status, const std::string& message, const std::string& key,
                  int32_t callback_code) noexcept {
  if (error != nullptr) {
    try {
      *error = new trl_error(status, message, key, callback_code);
    } catch (...) {
      *error = out_of_memory_error();
    }
  }
  return static_cast<trl_status>(status);
}

bool is_error(const trl_error* error) noexcept { return error != nullptr && error->is(Tag::error); }

}  // namespace

trl_status report_exception(trl_error** error) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return report(error, e.status(), e.message(), e.key(), e.callback_code());
  } catch (const std::bad_alloc&) {
    if (error != nullptr) *error = out_of_memory_error();
    return TRL_E_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    try {
      return report(error, Status::internal, std::string("unexpected: ") + e.what(), {}, 0);
    } catch (...) {
      if (error != nullptr) *error = out_of_memory_error();
      return TRL_E_OUT_OF_MEMORY;
    }
  } catch (...) {
    return report(error, Status::internal, {}, {}, 0);
  }
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_error_code(const trl_error* error) noexcept {
  return answer(TRL_E_INVALID_ARGUMENT, [&]() -> trl_status {
    if (error == nullptr) return TRL_OK;
    return is_error(error) ? static_cast<trl_status>(error->status) : TRL_E_INVALID_ARGUMENT;
  });
}

const char* trl_error_message(const trl_error* error) noexcept {
  return answer("", [&] { return is_error(error) ? error->message.c_str() : ""; });
}

const char* trl_error_key(const trl_error* error) noexcept {
  return answer(nullptr, [&]() -> const char* {
    return is_error(error) && !error->key.empty() ? error->key.c_str() : nullptr;
  });
}

int32_t trl_error_callback_code(const trl_error* error) noexcept {
  return answer(0, [&] { return is_error(error) ? error->callback_code : 0; });
}

void trl_error_destroy(trl_error* error) noexcept {
  answer(0, [&] {
    if (is_error(error) && error != out_of_memory_error()) {
      error->retire();
      delete error;
    }
    return 0;
  });
}
