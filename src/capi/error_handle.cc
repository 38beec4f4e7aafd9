// trl_error_*: the error that a failed call returns to the caller. trl_status_name.
#include <cstring>
#include <new>
#include <stdexcept>

#include "capi/guard.h"

namespace trl::capi {
namespace {

// Never destroyed, and made without allocation: the message fits into std::string itself.
trl_error* out_of_memory_error() noexcept {
  alignas(trl_error) static std::byte place[sizeof(trl_error)];
  static trl_error* const error = new (place) trl_error(Error(Status::out_of_memory, "out of memory"));
  return error;
}

trl_status report(trl_error** error, const Error& given) noexcept {
  if (error != nullptr) {
    try {
      *error = new trl_error(given);
    } catch (...) {
      *error = out_of_memory_error();
      return TRL_E_OUT_OF_MEMORY;  // the code of what the caller gets
    }
  }
  return static_cast<trl_status>(given.status());
}

// By the negated status.
constexpr const char* kErrors[] = {"TRL_OK",
                                   "TRL_E_INVALID_ARGUMENT",
                                   "TRL_E_INVALID_CONFIG",
                                   "TRL_E_NOT_FOUND",
                                   "TRL_E_IO",
                                   "TRL_E_FORMAT",
                                   "TRL_E_UNSUPPORTED",
                                   "TRL_E_OUT_OF_MEMORY",
                                   "TRL_E_OUT_OF_DEVICE_MEMORY",
                                   "TRL_E_DEVICE",
                                   "TRL_E_DISTRIBUTED",
                                   "TRL_E_CANCELLED",
                                   "TRL_E_BUSY",
                                   "TRL_E_CALLBACK",
                                   "TRL_E_INTERNAL"};

bool is_error(const trl_error* error) noexcept { return error != nullptr && error->is(Tag::error); }

}  // namespace

trl_status report_exception(trl_error** error) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    return report(error, e);
  } catch (const std::bad_alloc&) {
    if (error != nullptr) *error = out_of_memory_error();
    return TRL_E_OUT_OF_MEMORY;
  } catch (const std::length_error&) {
    return report(error, Error(Status::out_of_memory, "out of memory: more than any memory holds"));
  } catch (const std::exception& e) {
    try {
      return report(error, Error(Status::internal, std::string("unexpected: ") + e.what()));
    } catch (...) {
      if (error != nullptr) *error = out_of_memory_error();
      return TRL_E_OUT_OF_MEMORY;
    }
  } catch (...) {
    return report(error, Error(Status::internal, {}));
  }
}

}  // namespace trl::capi

using namespace trl::capi;

const char* trl_status_name(trl_status status) noexcept {
  return answer("TRL_E_INTERNAL", [&] {
    if (status == TRL_END) return "TRL_END";
    if (status == TRL_LATER) return "TRL_LATER";
    if (status > 0) return kErrors[0];
    return kErrors[status < TRL_E_INTERNAL ? -TRL_E_INTERNAL : -status];
  });
}

trl_status trl_error_code(const trl_error* error) noexcept {
  return answer(TRL_E_INVALID_ARGUMENT, [&]() -> trl_status {
    if (error == nullptr) return TRL_OK;
    return is_error(error) ? static_cast<trl_status>(error->error.status()) : TRL_E_INVALID_ARGUMENT;
  });
}

const char* trl_error_message(const trl_error* error) noexcept {
  return answer("", [&] { return is_error(error) ? error->error.message().c_str() : ""; });
}

const char* trl_error_key(const trl_error* error) noexcept {
  return answer(nullptr, [&]() -> const char* {
    return is_error(error) && !error->error.key().empty() ? error->error.key().c_str() : nullptr;
  });
}

int32_t trl_error_place(const trl_error* error, const char** out_file, int64_t* out_line, int64_t* out_column,
                        int64_t* out_row) noexcept {
  return answer(0, [&] {
    static const trl::Place nowhere;
    const trl::Place& place = is_error(error) ? error->error.place() : nowhere;
    const char* const file = place.file.empty() ? "dataset" : place.file.c_str();  // a host's rows
    if (out_file != nullptr) *out_file = place.is_known() ? file : nullptr;
    if (out_line != nullptr) *out_line = place.line;
    if (out_column != nullptr) *out_column = place.column;
    if (out_row != nullptr) *out_row = place.row;
    return place.is_known() ? 1 : 0;
  });
}

int32_t trl_error_callback_code(const trl_error* error) noexcept {
  return answer(0, [&] { return is_error(error) ? error->error.callback_code() : 0; });
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
