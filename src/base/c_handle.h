// The owner of a handle of the C API. Depends on nothing, so that hosts of the library within this project
// can have it.
#pragma once

namespace trl::base {

template <typename T, void (*kDestroy)(T*)>
class CHandle {
 public:
  CHandle() = default;
  explicit CHandle(T* value) : value_(value) {}
  ~CHandle() { kDestroy(value_); }
  CHandle(const CHandle&) = delete;
  CHandle& operator=(const CHandle&) = delete;
  T** out() { return &value_; }
  T* get() const { return value_; }

 private:
  T* value_ = nullptr;
};

}  // namespace trl::base
