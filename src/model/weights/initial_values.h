// Values that the files of a model lack: random numbers are torch 2.15's, drawn in its order after set_seed,
// as transformers 5.23 draws them when TRL's trainers open the model.
#pragma once
#include <ATen/ATen.h>
#include <cstdint>

#include "model/config/model_config.h"

namespace trl::model {

// Fills values (float32, contiguous, on the CPU) like normal_(0, deviation) on a tensor of this type and
// number of elements, before it rounds to the type.
void draw_normal(const at::Tensor& values, at::ScalarType type, double deviation,
                 const at::Generator& generator);

// The head of a reward model. Draws float32 [labels, hidden], on the host: normal, with the standard
// deviation initializer_range (PreTrainedModel._init_weights). type: the head's later type. In a rehearsal
// nothing is drawn.
at::Tensor new_score_head(const ModelConfig& config, at::ScalarType type, at::Generator& generator);

// Gives embeddings more or fewer rows, like resize_token_embeddings of transformers 5.23; new rows are the
// same as TRL's up to rounding.
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
