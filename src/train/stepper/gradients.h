// Sets up each parameter for the life of a trainer. A parameter that is not frozen gets a gradient, which
// takes memory from the first addition of a backward until it is dropped. Each parameter may keep a copy in
// the compute type, if the process has no memory limit when a step begins. The copy of a trained parameter is
// dropped when the step's last backward has passed it, because the update makes it old.
#pragma once
#include <functional>
#include <optional>
#include <vector>

#include "optim/norm.h"
#include "optim/optim.h"
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
  void end_step();                                    // no backward of the step follows
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

// optimizer_in_backward: each parameter is updated as soon as backward has its gradient, which is then freed.
// All results are those of a step after backward, bit by bit.
class BackwardStep {
 public:
  struct Updates {
    double learning_rate, grad_scale;
    // Called before each update: throws if it must not be made. finite: whether the gradient is.
    std::function<void(const tensor::Parameter&, bool finite)> check;
  };

  BackwardStep(Gradients& gradients, optim::Optimizer& optimizer);

  // Runs backward, which is not interrupted once an update may have been made. Returns the norm of all
  // gradients. updates: none: only computes the norm, and changes nothing else.
  double run(const std::optional<Updates>& updates, const std::function<void()>& backward);
  // Says whether a backward failed halfway: some parameters are updated and some are not.
  bool torn() const { return torn_; }

 private:
  void take(size_t index);  // in trained()
  void update(tensor::Parameter& parameter);

  Gradients& gradients_;
  optim::Optimizer& optimizer_;
  std::optional<Updates> updates_;
  std::vector<bool> taken_;  // of each trained parameter, in this run
  optim::NormOfParts norm_;
  bool torn_ = false;
};

}  // namespace trl::train
