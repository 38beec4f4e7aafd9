// What a trainer sets up for each parameter during its life: a gradient to those that are not frozen, which
// takes memory from the first addition of a backward until it is dropped; and leave to keep a copy in the
// type that is computed in, if the process has no memory limit when a step begins. The copy of a parameter
// that is trained goes when the step's last backward has passed it, because the update makes it old.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "tensor/parameter/parameter.h"
#include "tensor/parameter/use.h"

namespace trl::train {

class Gradients {
 public:
  // type: of all of them; none: each has its weight's. Error(busy): another trainer has one.
  Gradients(std::vector<tensor::Parameter*> parameters, std::optional<at::ScalarType> type);
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  enum class Copies : uint8_t { none, brief, kept };  // brief: Parameter::keep_copies()
  void begin_step(Copies copies);                     // nothing is collected then
  void drop();
  // The backwards from begin_parts() on, and the one after end_parts(), add to one sum: in float32, from
  // which a bfloat16 gradient is rounded once.
  void begin_parts();
  void end_parts();
  // The backward that follows is the last of its step. complete: gets the place in trained() of each
  // parameter whose gradient is complete; may be empty.
  void begin_last_backward(std::function<void(size_t)> complete);
  const std::vector<tensor::Parameter*>& trained() const { return trained_; }

 private:
  void completed(size_t index);

  const std::vector<tensor::Parameter*> parameters_;
  std::vector<tensor::Parameter*> trained_;
  std::function<void(size_t)> complete_;
  std::vector<tensor::Use> parts_;  // while backwards of parts are to come: no sum is complete
  bool last_ = false;
};

}  // namespace trl::train
