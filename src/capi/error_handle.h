// trl_error, made from an exception. Reporting out of memory cannot fail: that error is a constant.
#pragma once
#include <atomic>
#include <string>

#include "base/error.h"
#include "capi/handle.h"
#include "trl/trl.h"

struct trl_error : trl::capi::Head {
  trl_error(trl::Status code, std::string text, std::string at, int32_t host)
      : Head(trl::capi::Tag::error),
        status(code),
        message(std::move(text)),
        key(std::move(at)),
        callback_code(host) {}
  const trl::Status status;
  const std::string message;
  const std::string key;
  const int32_t callback_code;
};

namespace trl::capi {

// Returns the status of the exception in flight; *error, if wanted, receives the message.
trl_status report_exception(trl_error** error) noexcept;

}  // namespace trl::capi
