// Errors that come out of the engine, turned back into trl::Error on this side.
#pragma once
#include <string>

#include "base/error.h"
#include "engine/engine.h"

namespace trl::capi {

class EngineError final : public engine::ErrorSink {
 public:
  void set(int32_t, std::string_view message, std::string_view key, int32_t callback_code) noexcept override {
    try {
      callback_code_ = callback_code;
      message_ = message;
      key_ = key;
    } catch (...) {
      message_.clear();  // the status is enough
    }
  }
  // What a call of the engine answered: a negative status throws.
  Status check(int32_t status) {
    if (status < 0)
      throw Error(static_cast<Status>(status), std::move(message_), std::move(key_), callback_code_);
    return static_cast<Status>(status);
  }

 private:
  int32_t callback_code_ = 0;
  std::string message_, key_;
};

// Objects of the engine are released, not deleted.
struct Release {
  template <class T>
  void operator()(T* object) const noexcept {
    object->release();
  }
};

}  // namespace trl::capi
