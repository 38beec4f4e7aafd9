#include "model/weights/initial_values.h"

#include <algorithm>

#include "base/interrupt.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/libtorch_memory.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/openmp_threads.h"
#include "tensor/threads/parallel.h"
#include "tensor/threads/width.h"

namespace trl::model {

namespace {

constexpr int64_t kDraws = 16;             // numbers that torch draws together
constexpr int64_t kPieceRows = 4096;       // rows converted to float32 at once
constexpr int64_t kPieceDraws = 1 << 20;   // a multiple of kDraws
constexpr double kCovarianceScale = 1e-9;  // transformers'
constexpr int64_t kFloatBytes = 4;

at::Tensor float_rows(const at::Tensor& weight, int64_t begin) {
  base::poll();
  return weight.slice(0, begin, std::min(begin + kPieceRows, weight.size(0))).to(at::kFloat);
}

at::Tensor mean_row(const at::Tensor& weight) {
  at::Tensor sum = at::zeros({weight.size(1)}, at::kDouble);
  for (int64_t row = 0; row < weight.size(0); row += kPieceRows)
    sum += float_rows(weight, row).sum(0, false, at::kDouble);
  return (sum / weight.size(0)).to(at::kFloat);
}

at::Tensor covariance(const at::Tensor& weight, const at::Tensor& mean) {
  at::Tensor sum = at::zeros({weight.size(1), weight.size(1)}, at::kFloat);
  for (int64_t row = 0; row < weight.size(0); row += kPieceRows) {
    const at::Tensor centered = float_rows(weight, row) - mean;
    sum.addmm_(centered.t(), centered);
  }
  return sum / weight.size(0);
}

// Returns the bytes that libtorch takes to draw new rows: for the covariance with a piece of rows and that
// piece centered, for its factor, or for the noise and the rows.
int64_t new_rows_bytes(const at::Tensor& weight, int64_t rows) {
  const int64_t width = weight.size(1), square = width * width;
  const int64_t piece = std::min(kPieceRows, weight.size(0)) * width;
  return kFloatBytes * std::max({square + 2 * piece, 3 * square, square + 2 * rows * width});
}

}  // namespace

// If the count is not a multiple of 16, the last 16 are drawn again. Before that, float32 has drawn for all
// elements, and bfloat16 only for the whole groups of 16.
void draw_normal(const at::Tensor& values, at::ScalarType type, double deviation,
                 const at::Generator& generator) {
  at::Tensor flat = values.view({-1});
  const int64_t count = flat.numel(), whole = count - count % kDraws;
  if (type == at::kFloat || count < kDraws || count == whole) {
    flat.normal_(0, deviation, generator);
    return;
  }
  flat.narrow(0, 0, whole).normal_(0, deviation, generator);
  flat.narrow(0, count - kDraws, kDraws).normal_(0, deviation, generator);
}

at::Tensor new_score_head(const ModelConfig& config, at::ScalarType type, at::Generator& generator) {
  const at::Tensor head =
      tensor::empty({config.labels, config.hidden_size}, at::kFloat, tensor::MemoryKind::workspace);
  if (tensor::Rehearsal::current() == nullptr) draw_normal(head, type, config.initializer_range, generator);
  return head;
}

EmbeddingRows::EmbeddingRows(int64_t rows, at::Generator generator)
    : rows_(rows), generator_(std::move(generator)) {}

at::Tensor EmbeddingRows::embedding(const at::Tensor& weight) {
  skip(weight, [&](const at::Tensor& piece) { draw_normal(piece, weight.scalar_type(), 1, generator_); });
  return resized(weight);
}

at::Tensor EmbeddingRows::head(const at::Tensor& weight) {
  skip(weight, [&](at::Tensor& piece) { piece.uniform_(-1, 1, generator_); });
  return resized(weight);
}

template <typename Draw>
void EmbeddingRows::skip(const at::Tensor& weight, Draw draw) {
  if (tensor::Rehearsal::current() != nullptr) return;
  at::Tensor piece = at::empty({2 * kPieceDraws}, at::kFloat);
  for (int64_t left = rows_ * weight.size(1); left > 0;) {
    // The last piece never has fewer than 16.
    const int64_t count = left <= 2 * kPieceDraws ? left : kPieceDraws;
    base::poll();
    at::Tensor part = piece.narrow(0, 0, count);
    draw(part);
    left -= count;
  }
}

at::Tensor EmbeddingRows::resized(const at::Tensor& weight) {
  const int64_t kept = std::min(rows_, weight.size(0));
  at::Tensor out = tensor::empty({rows_, weight.size(1)}, weight.scalar_type(), tensor::MemoryKind::weights);
  if (tensor::Rehearsal::current() == nullptr)
    tensor::copy_in_parts(out.narrow(0, 0, kept), weight.narrow(0, 0, kept));
  if (rows_ > kept) draw_new_rows(weight, out.narrow(0, kept, rows_ - kept));
  return out;
}

void EmbeddingRows::draw_new_rows(const at::Tensor& weight, at::Tensor new_rows) {
  const tensor::LibtorchMemory workspace(new_rows_bytes(weight, new_rows.size(0)));
  if (tensor::Rehearsal::current() != nullptr) return;
  tensor::start_blas_threads();  // OpenBLAS factors the matrix
  const tensor::OpenMpThreads of_libtorch(tensor::all_threads());
  const at::Tensor mean = mean_row(weight);
  const auto [factor, info] = at::linalg_cholesky_ex(covariance(weight, mean) * kCovarianceScale);
  if (info.item<int>() != 0) {
    new_rows.copy_(mean.expand_as(new_rows));
    return;
  }
  const at::Tensor noise = at::empty(new_rows.sizes(), at::kFloat).normal_(0, 1, generator_);
  new_rows.copy_(at::addmm(mean, noise, factor.t()));
}

}  // namespace trl::model
