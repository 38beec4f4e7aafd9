// How a server comes to compute with the weights of a run.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

namespace trl::run {

class WeightsOut {
 public:
  virtual ~WeightsOut() = default;
  // Called before each generation with the updates done so far. Returns the name of the model that requests
  // give, which has the weights of now. Throws Error; the server then has those that it had.
  virtual std::string send(int64_t step) = 0;
  // Forgets what a server has, because it is another one now.
  virtual void forget() = 0;
};

// Nothing is sent: the server computes with weights of its own.
class NoWeightsOut final : public WeightsOut {
 public:
  explicit NoWeightsOut(std::string model) : model_(std::move(model)) {}
  std::string send(int64_t) override { return model_; }
  void forget() override {}

 private:
  const std::string model_;  // of the server
};

}  // namespace trl::run
