// How a graph uses a parameter: what backward adds to the gradient passes through here, and the last use to
// end says that the gradient is complete.
#pragma once
#include <vector>

#include "tensor/parameter/parameter.h"

namespace trl::tensor {

// One use of a parameter by a node of a graph. Made when the node is; its backward adds, and ends it. Uses of
// a parameter without a gradient do nothing. A node that is destroyed without its backward ends its use,
// and no event follows.
//
// The event comes once in a backward pass, after the last addition, whether the parameter is used once or
// often (a tied embedding and head, two passes in one graph), and whether its layer is kept or computed again
// (Reads). A graph that lives beside the one that runs may still add, so it holds the event back.
class Use {
 public:
  Use() = default;
  explicit Use(const Parameter& parameter);
  Use(Use&& other) noexcept
      : gradient_(std::move(other.gradient_)), open_(std::exchange(other.open_, false)) {}
  Use& operator=(Use&&) = delete;
  ~Use();

  explicit operator bool() const { return gradient_ != nullptr; }
  // body(at::Tensor& gradient) adds to it. The type is the gradient's own, or a wider one while other uses
  // are open: so who adds in several parts holds a second use meanwhile. Not called where there is none.
  template <typename Body>
  void add(const Body& body) const {
    if (gradient_ != nullptr) body(gradient_->place());
  }
  // The same with a Split, on the CPU: its low part is defined where others add to a bfloat16 sum too.
  template <typename Body>
  void add_split(const Body& body) const {
    if (gradient_ != nullptr) body(gradient_->split_place());
  }
  // Whether what this use adds may wait, and others are open, so that it would take memory meanwhile.
  bool may_wait() const { return gradient_ != nullptr && gradient_->late && gradient_->uses > 1; }
  // body(const Split&) adds when the next use adds, before it, or at last when no use is open.
  void add_later(std::function<void(const Split&)> body) const {
    if (gradient_ != nullptr) gradient_->waiting_.push_back(std::move(body));
  }
  // This use adds nothing and reads no values any more: the event may change them. A second call does
  // nothing.
  void end();

 private:
  std::shared_ptr<Gradient> gradient_;
  bool open_ = false;
};

// The parameters that are read on this thread while this lives. A piece of the graph that is computed without
// one now, and again with one in backward, holds a use of each until then.
class Reads {
 public:
  Reads() : before_(current_) { current_ = this; }
  ~Reads() { current_ = before_; }
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;

  std::vector<Use> uses() const;  // one of each that has a gradient
  void end_piece() const;         // brief copies of these go
  static void note(Parameter& parameter);

 private:
  static inline constinit thread_local Reads* current_ = nullptr;
  Reads* const before_;
  std::vector<Parameter*> parameters_;
};

}  // namespace trl::tensor
