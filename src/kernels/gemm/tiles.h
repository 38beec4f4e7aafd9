// The division of a product into tiles, by its shape alone.
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/gemm/gemm.h"
#include "kernels/op.h"

namespace trl::kernels {

// The sizes of tiles, measured on Zen 5: full rows of C are best, because B is packed once per tile. With a
// long sum (the head's grad hidden) a tile's B must be narrow to stay in the cache; with few rows only
// columns can be divided, and with many columns (the head's logits) tiles may be tall. Gradients of weights
// (A transposed, packed as well) of a few hundred rows gain a tenth from smaller tiles. Products with few
// rows and few columns, as for low-rank factors, are divided by rows. A float32 B that is not transposed is
// read where it lies: if its rows are more than 1,024 columns apart, a narrow tile takes up to a fifth less
// time. If there are many products to divide, each is a tile: no operand is packed twice. Heights are nearly
// equal, and full rows make an even number of tiles: a short tile at the end packs B like a tall one, and an
// odd number leaves one of two threads without work.
struct Tiling {
  int64_t rows, cols;
  Tiling(int64_t m, int64_t n, int64_t k, bool a_transposed, bool b_in_place, bool many);
};

// Returns where the pieces of [0, size) begin; in a rehearsal, which only asks for the memory of each shape,
// the first and the last of them.
std::vector<int64_t> begins_of(int64_t size, int64_t piece);

// Rounds rows of a sum, or of C plus the sum, once into a bfloat16 C.
void round_rows(const float* sum, int64_t rows, int64_t cols, void* c, int64_t c_stride, bool add);

// gemm() without notes for a rehearsal, and by oneDNN whatever the rows are.
void multiply_in_tiles(at::ArrayRef<Multiplication> all, size_t of);

// Notes the product for a rehearsal to time.
void note_product(tensor::Job job, const Matrix& a, int64_t columns);

}  // namespace trl::kernels
