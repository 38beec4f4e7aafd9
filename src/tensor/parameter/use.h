// How a graph uses a parameter: backward adds to the gradient through a Use, and when the last use ends, the
// gradient is complete.
#pragma once
#include <vector>

#include "tensor/parameter/parameter.h"

namespace trl::tensor {

// One use of a parameter by a node of a graph. It is made with the node, whose backward adds and ends it.
// Uses of a parameter without a gradient do nothing. A node that is destroyed without its backward ends its
// use, without an event.
//
// The event happens once in a backward pass, after the last addition, whether the parameter is used once or
// often (a tied embedding and head, two passes in one graph), and whether its layer is kept or computed again
// (Reads). Another graph that still exists may add, so it delays the event.
class Use {
 public:
  Use() = default;
  explicit Use(const Parameter& parameter);
  Use(Use&& other) noexcept
      : gradient_(std::move(other.gradient_)), open_(std::exchange(other.open_, false)) {}
  Use& operator=(Use&&) = delete;
  ~Use();

  explicit operator bool() const { return gradient_ != nullptr; }
  // body(at::Tensor& gradient) adds to the gradient. The tensor has the gradient's type, or a wider one while
  // other uses are open: code that adds in several parts must hold a second use meanwhile. The body is not
  // called without a gradient.
  template <typename Body>
  void add(const Body& body) const {
    if (gradient_ != nullptr) body(gradient_->place());
  }
  // The same with a Split, on the CPU: its low part is defined if others add to a bfloat16 sum too.
  template <typename Body>
  void add_split(const Body& body) const {
    if (gradient_ != nullptr) body(gradient_->split_place());
  }
  // Whether the addition of this use may be deferred, and others are open, so that it would take memory
  // meanwhile.
  bool may_wait() const { return gradient_ != nullptr && gradient_->late && gradient_->uses > 1; }
  // Defers body(const Split&) until just before the next use adds, or at the latest until no use is open.
  void add_later(std::function<void(const Split&)> body) const {
    if (gradient_ != nullptr) gradient_->waiting_.push_back(std::move(body));
  }
  // Ends this use: it will no longer add or read, so the event may change the values. A second call does
  // nothing.
  void end();

 private:
  std::shared_ptr<Gradient> gradient_;
  bool open_ = false;
};

// Collects the parameters that this thread reads during its lifetime. A piece of the graph that is computed
// without a graph now, and again with one in backward, holds a use of each until then.
class Reads {
 public:
  Reads() : before_(current_) { current_ = this; }
  ~Reads() { current_ = before_; }
  Reads(const Reads&) = delete;
  Reads& operator=(const Reads&) = delete;

  std::vector<Use> uses() const;  // one for each that has a gradient
  void end_piece() const;         // drops the brief copies of these
  static void note(Parameter& parameter);

 private:
  static inline constinit thread_local Reads* current_ = nullptr;
  Reads* const before_;
  std::vector<Parameter*> parameters_;
};

}  // namespace trl::tensor
