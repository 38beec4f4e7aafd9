// Copies of a model's weights in fewer bits, which generation reads in place of the weights.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "kernels/weight/narrow_weight.h"

namespace trl::model {

using kernels::NarrowType;

// "bfloat16", "int8" or "int4" (narrow_weight.h); nothing for another name.
std::optional<NarrowType> narrow_type(std::string_view name);

// Made by Model::narrow_weights(), and passed to Model::extend(). Copied are the weights of the projections
// of all layers, those of experts that have a multiple of 32 outputs each, and the head unless it is
// excluded; a tied embedding is still looked up as it is. Routers, norms, biases, the embedding and all that
// an adapter adds or replaces are used as they are. A bfloat16 copy of bfloat16 numbers is not made. A weight
// in blocks (NF4, GGUF's) is copied from the values that it decodes to, and both take memory: products with
// codes are faster than decoding. Counted as weights. Movable; not to be used while a refresh runs.
class NarrowWeights {
 public:
  struct Source {
    tensor::Parameter* weight;
    bool transposed;  // [in, out]
  };
  NarrowWeights(NarrowType type, const std::vector<Source>& weights);

  // Copies all weights again that have changed since; call after each update. Reads them once: about as long
  // as an optimizer without states takes. If it throws, a second call continues.
  void refresh();

  // Null: the weight itself is used.
  const kernels::NarrowWeight* of(const tensor::Parameter* weight) const {
    const auto found = copies_.find(weight);
    return found != copies_.end() ? &found->second : nullptr;
  }

  NarrowType type() const { return type_; }
  int64_t bytes() const;
  // How far the copies are from the weights, relative to those: the 2-norm of all differences, and that of
  // the output that differs most, with its weight's name.
  struct Errors {
    double mean = 0, largest = 0;
    std::string largest_in;
  };
  Errors errors() const;
  std::string summary() const;  // "int8 copies of 169 weights, 134 MB: ..." for a log

 private:
  NarrowType type_;
  std::vector<const tensor::Parameter*> order_;
  std::unordered_map<const tensor::Parameter*, kernels::NarrowWeight> copies_;
};

}  // namespace trl::model
