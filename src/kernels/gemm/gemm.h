// C = op(A) op(B) + beta C: the only caller of oneDNN. Row-major, leading dimensions in elements.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace trl::kernels {

struct Matrix {
  const void* data;
  at::ScalarType type;  // kFloat or kBFloat16
  int64_t rows, cols;   // after `transposed`
  int64_t stride;       // leading dimension of the stored (untransposed) matrix
  bool transposed = false;
};

// Call before the first product if the host uses the same oneDNN: its cache of primitives then keeps its
// size.
void leave_primitives_to_host();

// c: [a.rows, b.cols], type kFloat or kBFloat16; beta 0 or 1 (1 accumulates; a bfloat16 C with beta 1 is
// rounded once). a and b have the same type. Deterministic, independent of the number of threads.
void gemm(const Matrix& a, const Matrix& b, void* c, at::ScalarType c_type, int64_t c_stride, float beta);

// Factors of a product A B. If A is transposed (the gradient of a weight, a sum over tokens), the sum is made
// in pieces of kSumPiece terms (cpu_kernels.h): a float32 C gets one piece after the other, a bfloat16 C
// their sum. So adding the pieces to a float32 C by separate products gives the bits of one product.
struct Factors {
  Matrix a, b;
};
// During its lifetime on a thread, the bits of a row of C depend neither on the values of the other rows of A
// nor on their number, if A has a multiple of kRowsTogether rows.
class EachRowByItself {
 public:
  EachRowByItself();
  ~EachRowByItself();
  EachRowByItself(const EachRowByItself&) = delete;
  EachRowByItself& operator=(const EachRowByItself&) = delete;
  static bool active();

 private:
  const bool before_;
};
inline constexpr int64_t kRowsTogether = 96;

// During its lifetime on a thread, the bits of a row of C depend only on that row of A and on B, for an A
// that is not transposed: kernels of the CPU's table (cpu_kernels.h) multiply instead of oneDNN. wanted:
// false: all stays as it is.
class IndependentRows {
 public:
  explicit IndependentRows(bool wanted = true);
  ~IndependentRows();
  IndependentRows(const IndependentRows&) = delete;
  IndependentRows& operator=(const IndependentRows&) = delete;
  static bool active();

 private:
  const bool before_;
};

// A product with a separate result, for a call that divides several among the threads together.
struct Multiplication {
  Matrix a, b;
  void* c;
  at::ScalarType c_type;
  int64_t c_stride;
  float beta = 0;
  // Products that are added to C one after the other, each rounded like a product with beta 1. A tile of C
  // takes all of them while it is in the cache.
  std::vector<Factors> more = {};
};
// of: size of the full set if `all` is only a part of it; the tiling, and so the bits, follow the full set.
void gemm(at::ArrayRef<Multiplication> all, size_t of = 0);

// A right-hand matrix whose columns are delivered in panels, each to the thread that multiplies with it.
struct Panels {
  int64_t rows, cols;
  at::ScalarType type;
  bool transposed;  // a panel of n columns is [n, rows], else [rows, n]; dense
  int64_t unit;     // the best start of a panel is a multiple of it
  // Returns the address of columns [first, first + count), which may be in `room` if it wrote them there.
  // Called on any thread; throws nothing.
  std::function<const void*(int64_t first, int64_t count, void* room)> panel;
};
struct PanelMultiplication {
  Matrix a;
  Panels b;
  void* c;
  at::ScalarType c_type;
  int64_t c_stride;
  float beta = 0;
  std::vector<Factors> more = {};  // as in Multiplication
};
// The result depends only on the shapes, not on the source of the panels.
void gemm(at::ArrayRef<PanelMultiplication> all);

// Tensor forms: a [m, k], b [n, k] or [k, n] when transposed is false.
struct TensorFactors {
  at::Tensor a = {};
  bool a_transposed = false;
  at::Tensor b = {};
  bool b_transposed = false;
};
Factors matrices(const TensorFactors& product);
void gemm(at::ArrayRef<TensorFactors> sum, at::Tensor& c, float beta = 0.0f);
void gemm(const at::Tensor& a, bool a_transposed, const at::Tensor& b, bool b_transposed, at::Tensor& c,
          float beta = 0.0f);

std::string onednn_version();  // "2.6.3"

}  // namespace trl::kernels
