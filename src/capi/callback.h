// A function of the host with its user_data, and the destroy function that runs exactly once: when the last
// owner goes.
#pragma once
#include <utility>

#include "capi/process.h"
#include "trl/trl.h"

namespace trl::capi {

class UserData {
 public:
  UserData(void* data, trl_destroy_fn destroy) noexcept : data_(data), destroy_(destroy) {}
  UserData(UserData&& other) noexcept
      : data_(other.data_), destroy_(std::exchange(other.destroy_, nullptr)) {}
  UserData& operator=(UserData&&) = delete;
  ~UserData() {
    if (destroy_ == nullptr) return;
    const CallbackScope scope;
    destroy_(data_);
  }
  void* get() const { return data_; }

 private:
  void* data_;
  trl_destroy_fn destroy_;
};

template <class Function>
struct Callback {
  Function function;
  UserData user_data;
};

}  // namespace trl::capi
