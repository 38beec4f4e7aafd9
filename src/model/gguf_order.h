// How a GGUF file keeps the elements of a weight.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "model/model_config.h"

namespace trl::model {

class GgufOrder {
 public:
  explicit GgufOrder(const ModelConfig& config);

  // Of Q and K some families keep the rows of a head in pairs (2i, 2i + 1) instead of halves (i, i + d / 2),
  // and GPT-NeoX keeps all of Q, then all of K, then all of V, which here follow each other in every head.
  bool moves_rows(std::string_view name) const;  // of the tensor with this Hugging Face name
  int64_t in_gguf(int64_t row) const;            // of row `row` here
  int64_t here(int64_t row) const;               // of row `row` in GGUF

  // Matrices are always [out, in] there.
  bool transposes(std::string_view name, size_t dimensions) const;
  // Norms of Gemma hold 1 + w there.
  float added(std::string_view name) const;
  // Where llama.cpp scales attention otherwise than the configuration says, its files hold the ratio in Q, or
  // in the norm of Q after it: what the elements are multiplied by there, after the addition.
  float factor(std::string_view name) const;
  // Shapes there and here; what is a matrix of one row here is a vector there.
  std::vector<int64_t> in_gguf(std::string_view name, std::vector<int64_t> shape) const;
  std::vector<int64_t> here(std::string_view name, std::vector<int64_t> shape) const;

 private:
  bool is_row(std::string_view name) const;

  const Family& family_;
  int64_t heads_, head_dim_;
  bool pairs_ = false;
  bool norms_of_q_;
  float factor_ = 1;
};

// part(row, column, count) for the pieces of rows of `width` that make up the elements [first, first +
// count).
template <typename Part>
void each_row(int64_t first, int64_t count, int64_t width, const Part& part) {
  while (count > 0) {
    const int64_t column = first % width;
    const int64_t size = std::min(count, width - column);
    part(first / width, column, size);
    first += size;
    count -= size;
  }
}

}  // namespace trl::model
