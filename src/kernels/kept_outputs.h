// A piece of a graph that is computed twice, without a graph in forward and with one in backward: what its
// ops made the first time and need not make again.
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
  bool again() const { return again_; }  // this is the second time
  void add(const std::vector<at::Tensor>& outputs, std::string_view by);
  std::vector<at::Tensor> next();  // of the op that is the next one to ask

  // Those of the piece that this thread computes; null: it computes none.
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

  // While a part of the piece is computed that is computed once more by itself: nothing of it is kept.
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

// What body() makes, or made when the piece was computed first.
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
