// Outputs that are kept for a piece of a graph that is computed twice, without a graph in forward and with
// one in backward: the ops return them the second time instead of computing them again.
#pragma once
#include <deque>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/saved.h"

namespace trl::kernels {

enum class Output : uint8_t { attention, product };

class KeptOutputs {
 public:
  struct Kinds {
    bool attention = false, products = false;
  };
  explicit KeptOutputs(Kinds kinds) : kinds_(kinds) {}

  bool keeps(Output kind) const { return kind == Output::attention ? kinds_.attention : kinds_.products; }
  bool again() const { return again_; }  // this is the second run
  void add(const std::vector<at::Tensor>& outputs, std::string_view by);
  std::vector<at::Tensor> next();  // the outputs of the next op that asks

  // The outputs of the piece that this thread computes; null: it computes none.
  static KeptOutputs* current() { return current_; }

  // Active during one of the two runs of a piece.
  class Run {
   public:
    Run(KeptOutputs& outputs, bool again) : before_(current_) {
      outputs.again_ = again;
      current_ = &outputs;
    }
    ~Run() { current_ = before_; }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

   private:
    KeptOutputs* const before_;
  };

  // Active during a part of the piece that is recomputed separately: nothing of it is kept.
  class Without {
   public:
    Without() : before_(std::exchange(current_, nullptr)) {}
    ~Without() { current_ = before_; }
    Without(const Without&) = delete;
    Without& operator=(const Without&) = delete;

   private:
    KeptOutputs* const before_;
  };

 private:
  static inline constinit thread_local KeptOutputs* current_ = nullptr;
  const Kinds kinds_;
  bool again_ = false;
  std::deque<std::vector<tensor::Saved>> kept_;
};

// The result of body(), or its result from the first run of the piece.
template <typename Body>
std::vector<at::Tensor> made(Output kind, std::string_view by, const Body& body) {
  KeptOutputs* const piece = KeptOutputs::current();
  if (piece == nullptr || !piece->keeps(kind)) return body();
  if (piece->again()) return piece->next();
  std::vector<at::Tensor> outputs = body();
  piece->add(outputs, by);
  return outputs;
}

// Whether the piece that this thread computes keeps its products.
inline bool keeps_products() {
  const KeptOutputs* const piece = KeptOutputs::current();
  return piece != nullptr && piece->keeps(Output::product);
}

}  // namespace trl::kernels
