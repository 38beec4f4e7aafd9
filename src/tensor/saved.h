// Activations that a graph keeps until its backward. Every op saves them here, so that one policy decides
// where they are kept meanwhile, and a memory plan can count them.
#pragma once
#include <ATen/ATen.h>

#include <memory>
#include <string_view>

namespace trl::tensor {

// A saved tensor that is not in memory. Destroying it means that it is no longer needed.
class Away {
 public:
  virtual ~Away() = default;
  virtual at::Tensor back() = 0;  // the same shape and bits; may be called again
};

// Decides where saved tensors are kept. Used by one thread at a time.
class SavedPolicy {
 public:
  virtual ~SavedPolicy() = default;
  // by: the op that saves x ("attention"), or kLayerInput. Null: x stays in memory.
  virtual std::unique_ptr<Away> saved(const at::Tensor& x, std::string_view by) = 0;
  // The policy for tensors that a piece saves when it is computed a second time, just before they are needed.
  // Null: all stay in memory.
  virtual SavedPolicy* computed_again() { return nullptr; }
};

// The names under which a piece that will be computed again saves its input, and the head saves its gradient,
// which is read next.
inline constexpr std::string_view kLayerInput = "layer input", kHead = "head";

// Sets the policy of this thread for its lifetime; null: everything stays in memory.
class SavedScope {
 public:
  explicit SavedScope(SavedPolicy* policy) : before_(current_) { current_ = policy; }
  ~SavedScope() { current_ = before_; }
  SavedScope(const SavedScope&) = delete;
  SavedScope& operator=(const SavedScope&) = delete;
  static SavedPolicy* policy() { return current_; }
  // The policy for a piece that is being computed again.
  static SavedPolicy* policy_again() { return current_ != nullptr ? current_->computed_again() : nullptr; }

 private:
  static inline constinit thread_local SavedPolicy* current_ = nullptr;
  SavedPolicy* const before_;
};

// Keeps a tensor until backward, without its graph; also an undefined one. The tensor may leave at once, so
// its values must be complete.
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
