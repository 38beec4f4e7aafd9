// Gives embeddings more or fewer rows, like resize_token_embeddings of transformers 5.23. Random numbers are
// torch's, drawn in its order after set_seed, so new rows are the same as TRL's up to rounding.
#pragma once
#include <ATen/ATen.h>

namespace trl::model {

class EmbeddingRows {
 public:
  // generator: Model::generator()
  EmbeddingRows(int64_t rows, at::Generator generator);
  // weight: [old rows, hidden], float32 or bfloat16, on the CPU -> [rows, hidden] of the same type. New rows
  // are drawn from the normal distribution with the mean and 1e-9 times the covariance of the old ones; if
  // that covariance is not positive definite they are the mean. Call for the embedding first, then for a
  // separate head.
  at::Tensor embedding(const at::Tensor& weight);
  at::Tensor head(const at::Tensor& weight);

 private:
  at::Tensor resized(const at::Tensor& weight);
  void draw_new_rows(const at::Tensor& weight, at::Tensor new_rows);
  // Draws and discards the initial values of nn.Embedding and nn.Linear. draw: into a float32 tensor.
  template <typename Draw>
  void skip(const at::Tensor& weight, Draw draw);

  const int64_t rows_;
  at::Generator generator_;
};

}  // namespace trl::model
