// The names of a family's weights in GGUF files, and the order of their elements there.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/model_config.h"

namespace trl::model {

struct GgufPlace {
  std::string name;     // empty: no such weight in GGUF
  int64_t expert = -1;  // the first index of a tensor that holds all experts; -1: the whole tensor
};
// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight",
// "model.layers.3.mlp.experts.5.up_proj.weight" -> "blk.3.ffn_up_exps.weight", 5.
GgufPlace gguf_place(const Family& family, std::string_view name);
// The inverse; empty: the family has no such weight.
std::string name_of_gguf(const Family& family, std::string_view name, int64_t expert);

// The first files with experts have a matrix for each of them: "blk.3.ffn_up.5.weight" is part 5 of
// "blk.3.ffn_up_exps.weight". -1 and no name: another tensor.
GgufPlace place_of_single_expert(std::string_view name);
std::string single_expert_name(const GgufPlace& place);  // the inverse

inline std::string gguf_name(const Family& family, std::string_view name) {
  return gguf_place(family, name).name;
}

class GgufOrder {
 public:
  explicit GgufOrder(const ModelConfig& config);

  // Some families store the rows of a head of Q and K in pairs (2i, 2i + 1) instead of halves (i, i + d / 2),
  // and GPT-NeoX stores all of Q, then all of K, then all of V, which here follow each other in every head.
  // Whether it does so for the tensor with this Hugging Face name.
  bool moves_rows(std::string_view name) const;
  int64_t in_gguf(int64_t row) const;  // position of row `row` here
  int64_t here(int64_t row) const;     // position of row `row` in GGUF

  // Whether a stored matrix is transposed here: GGUF always has [out, in].
  bool transposes(std::string_view name, size_t dimensions) const;
  // The number added in GGUF: norms of Gemma are stored as 1 + w.
  float added(std::string_view name) const;
  // The factor of the elements in GGUF, applied after the addition: if llama.cpp scales attention differently
  // from the configuration, its files contain the ratio in Q, or in the norm of Q after it.
  float factor(std::string_view name) const;
  // Convert shapes between there and here; a matrix of one row here is a vector there.
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

// Calls part(row, column, count) for the pieces of rows of `width` that make up the elements [first, first +
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
