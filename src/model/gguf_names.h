// What GGUF files call the weights of a family, and the order in which they keep their rows.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/config.h"

namespace trl::model {

// "model.layers.3.self_attn.q_proj.weight" -> "blk.3.attn_q.weight"; empty: no such name in GGUF.
std::string gguf_name(const Family& family, std::string_view name);

// The families whose GGUF files are read and written: others differ there in more than names.
bool is_gguf_family(std::string_view model_type);
std::string gguf_families();  // "llama, mistral, qwen2, qwen3"
// What llama.cpp calls one of them.
std::string_view gguf_architecture(std::string_view model_type);

// Of Q and K some families keep the rows of a head in pairs (2i, 2i + 1) instead of halves (i, i + d / 2).
class RowOrder {
 public:
  explicit RowOrder(const ModelConfig& config);
  bool differs(std::string_view name) const;  // of the tensor with this Hugging Face name
  int64_t in_gguf(int64_t row) const {        // of row `row` here
    const int64_t in_head = row % head_dim_;
    return row - in_head + in_head % half_ * 2 + in_head / half_;
  }
  int64_t here(int64_t row) const {  // of row `row` in GGUF
    const int64_t in_head = row % head_dim_;
    return row - in_head + in_head % 2 * half_ + in_head / 2;
  }

 private:
  int64_t head_dim_, half_;
  bool pairs_;
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
