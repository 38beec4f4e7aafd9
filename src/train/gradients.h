// Sets up each parameter for the life of a trainer. A parameter that is not frozen gets a gradient, which
// takes memory from the first addition of a backward until it is dropped. Each parameter may keep a copy in
// the compute type, if the process has no memory limit when a step begins. The copy of a trained parameter is
// dropped when the step's last backward has passed it, because the update makes it old.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "tensor/parameter/parameter.h"
#include "tensor/parameter/use.h"

namespace trl::train {

class Gradients {
 public:
  // type: of all gradients; none: each has its weight's type. Error(busy): another trainer has a gradient
  // there.
  Gradients(std::vector<tensor::Parameter*> parameters, std::optional<at::ScalarType> type);
  ~Gradients();
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  enum class Copies : uint8_t { none, brief, kept };  // brief: Parameter::keep_copies()
  void begin_step(Copies copies);                     // no gradient is collected at that time
  void drop();
  // Begins a sum of several backwards: those from here on, and the one after end_parts(). It is in float32,
  // and a bfloat16 gradient is rounded from it once.
  void begin_parts();
  void end_parts();
  // Announces that the next backward is the last of its step. complete: gets the place in trained() of each
  // parameter whose gradient is complete; may be empty.
  void begin_last_backward(std::function<void(size_t)> complete);
  const std::vector<tensor::Parameter*>& trained() const { return trained_; }

 private:
  void completed(size_t index);

  const std::vector<tensor::Parameter*> parameters_;
  std::vector<tensor::Parameter*> trained_;
  std::function<void(size_t)> complete_;
  std::vector<tensor::Use> parts_;  // while further backwards of parts follow: no sum is complete
  bool last_ = false;
};

}  // namespace trl::train
