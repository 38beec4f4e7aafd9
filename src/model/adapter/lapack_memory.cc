#include "model/adapter/lapack_memory.h"

#include <algorithm>

namespace trl::model {

namespace {

constexpr int64_t kBlasDepth = 384;  // rows of a right matrix that OpenBLAS copies together, at most

// Returns the numbers of sgesdd's work for singular vectors (jobz S): with a QR before it if one side is much
// longer (ilaenv's 11/6), and that of sbdsdc, 3 k k + 4 k.
int64_t svd_work(int64_t rows, int64_t columns) {
  const int64_t k = std::min(rows, columns), longer = std::max(rows, columns);
  const int64_t of_sbdsdc = 3 * k * k + 7 * k;
  if (longer >= k * 11 / 6) return k * k + of_sbdsdc;
  return std::max(of_sbdsdc, 3 * k + (rows + columns) * kLapackBlock);
}

}  // namespace

int64_t blas_packed(int64_t rows, int64_t columns) { return std::min(rows, kBlasDepth) * columns; }

int64_t svd_packed(int64_t rows, int64_t columns) {
  const int64_t k = std::min(rows, columns);
  if (columns >= k * 11 / 6) return blas_packed(k, columns);
  return std::max(blas_packed(k, k), blas_packed(kLapackBlock, columns));
}

int64_t svd_numbers(int64_t rows, int64_t columns) {
  const int64_t k = std::min(rows, columns);
  return rows * columns + k * (rows + columns) + k + svd_work(rows, columns) + 8 * k;
}

int64_t qr_numbers(int64_t rows, int64_t columns, int64_t rank) {
  const int64_t k = std::min(rows, columns);
  return k * (rows + columns) + std::max(k + columns * kLapackBlock, rank * (rows + columns));
}

int64_t truncated_numbers(int64_t rows, int64_t columns, int64_t rank) {
  const int64_t shorter = std::min(rows, columns), longer = std::max(rows, columns);
  return 3 * longer * rank + 2 * shorter * rank + rank * (rank + 1 + kLapackBlock);
}

}  // namespace trl::model
