// Activations that a graph keeps until its backward. Every op saves them here, so that one policy decides
// where they are kept in the meantime, and a memory plan can count them.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string_view>

namespace trl::tensor {

// One saved tensor that is not in memory. Its destructor says that it is no longer needed.
class Away {
 public:
  virtual ~Away() = default;
  virtual at::Tensor back() = 0;  // the same shape and bits; may be called again
};

// What is done with tensors that are saved. One thread at a time.
class SavedPolicy {
 public:
  virtual ~SavedPolicy() = default;
  // by: the op that saves x ("attention"), or kLayerInput. Null: x stays in memory.
  virtual std::unique_ptr<Away> saved(const at::Tensor& x, std::string_view by) = 0;
  // For what a piece saves that is computed a second time, just before it is needed. Null: all of it stays.
  virtual SavedPolicy* computed_again() { return nullptr; }
};

// By which a piece that will be computed again saves what it begins with, and the head its gradient, which is
// read next.
inline constexpr std::string_view kLayerInput = "layer input", kHead = "head";

// The policy of this thread while this lives; null: everything stays in memory.
class SavedScope {
 public:
  explicit SavedScope(SavedPolicy* policy) : before_(current_) { current_ = policy; }
  ~SavedScope() { current_ = before_; }
  SavedScope(const SavedScope&) = delete;
  SavedScope& operator=(const SavedScope&) = delete;
  static SavedPolicy* policy() { return current_; }
  // The one for a piece that is being computed again.
  static SavedPolicy* policy_again() { return current_ != nullptr ? current_->computed_again() : nullptr; }

 private:
  static inline constinit thread_local SavedPolicy* current_ = nullptr;
  SavedPolicy* const before_;
};

// A tensor until backward, without its graph; undefined ones too. It may leave at once, so it has its values
// already.
class Saved {
 public:
  Saved() = default;
  Saved(const at::Tensor& x, std::string_view by) {
    if (!x.defined()) return;
    if (SavedPolicy* const policy = SavedScope::policy()) away_ = policy->saved(x, by);
    if (away_ == nullptr) here_ = x.detach();
  }
  at::Tensor get() const { return away_ != nullptr ? away_->back() : here_; }

 private:
  at::Tensor here_;
  std::shared_ptr<Away> away_;
};

}  // namespace trl::tensor
