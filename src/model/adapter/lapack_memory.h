// Counts the numbers, each of four bytes, that libtorch takes to decompose a matrix with LAPACK and OpenBLAS.
#pragma once
#include <cstdint>

namespace trl::model {

inline constexpr int64_t kLapackBlock = 32;  // columns that LAPACK works on together

// Returns the numbers of a right matrix, in the order of Fortran, that OpenBLAS copies for a product.
int64_t blas_packed(int64_t rows, int64_t columns);
// Returns the most of these in an SVD of a matrix: a wide one is its LQ, and its vectors are a product with
// Q.
int64_t svd_packed(int64_t rows, int64_t columns);
// Returns the numbers that libtorch takes for the SVD of a matrix: a copy of it, the results, and work, of
// which 8 k are integers.
int64_t svd_numbers(int64_t rows, int64_t columns);
// Returns the numbers that libtorch takes for the QR of a matrix: q and r, and then the workspace or the
// columns that are copied out of q and r, whichever is larger.
int64_t qr_numbers(int64_t rows, int64_t columns, int64_t rank);
// Returns the numbers that an iteration of a truncated SVD takes: both products, q before and after, and the
// shorter basis.
int64_t truncated_numbers(int64_t rows, int64_t columns, int64_t rank);

}  // namespace trl::model
