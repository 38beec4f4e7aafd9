// The torch-free kernels: one table of functions per instruction set, all compiled from the same *_cpu.inc
// sources. Every function is serial over the range given; who calls it divides the work. Results of two
// tables agree to rounding.
#pragma once
#include <cstdint>

namespace trl::kernels {

enum class Type : int32_t { f32, bf16 };  // bf16: the upper half of a float32, in a uint16_t

struct RmsForward {
  const void* x;
  const void* w;
  void* y;
  float* rstd;  // [rows] or null
  int64_t width;
  float eps;
  Type x_type, w_type;
};
struct RmsBackward {
  const void* dy;
  const void* x;
  const void* w;
  const float* rstd;
  void* dx;
  float* dw;  // [width], added to; null: not wanted
  int64_t width;
  Type x_type, w_type;
};
struct Rope {
  const void* x;
  void* y;
  const float* cos;  // [tokens, half]
  const float* sin;
  int64_t heads, head_dim, half;  // the first 2 * half elements of a head are turned
  Type type;
  bool inverse;
};
// Pointers are to the first token of one document; strides of a token in elements.
struct Attention {
  const void *q, *k, *v;
  void* out;
  float* lse;         // [length] of this head, stride lse_stride
  const void* d_out;  // backward only, from here
  void* dq;
  float *dk, *dv;  // of this query head, rows q_stride apart, overwritten
  float* work;     // attention_work() floats
  int64_t length, head_dim;
  int64_t q_stride, kv_stride;
  int64_t window;  // 0: all
  float scale;
  Type type;
};
// One row of logits, replaced by the gradient of coefficient * loss when wanted. The loss is nll, or with
// smoothing (1 - smoothing) nll + smoothing * the mean of -log p over the vocabulary, or with dft nll times
// p(target) as a constant.
struct HeadTask {
  int64_t target;
  float coefficient;
  float smoothing;
  bool dft;
  bool gradient;
};
struct HeadRow {
  double nll, entropy;
  double loss;
  int64_t best;  // first maximum
};
// y[row, n] = sum_k x[row, k] w[n, k] for n in [begin, end); x float32 rows (x_type bf16: as they are).
struct Skinny {
  const void* x;
  const void* w;
  void* y;
  int64_t rows, k, x_stride, y_stride;
  Type x_type, w_type, y_type;
};

struct CpuKernels {
  const char* name;
  void (*convert)(const void* from, Type from_type, void* to, Type to_type, int64_t count);
  // out = a + b, in a's type
  void (*add)(const void* a, Type a_type, const void* b, Type b_type, void* out, int64_t count);
  // sum[c] += x[r, c] over the rows, for columns [begin, end)
  void (*column_sum)(const void* x, Type x_type, int64_t rows, int64_t width, void* sum, Type sum_type,
                     int64_t begin, int64_t end);
  void (*rms_forward)(const RmsForward&, int64_t begin, int64_t end);
  void (*rms_backward)(const RmsBackward&, int64_t begin, int64_t end);
  void (*rope)(const Rope&, int64_t begin, int64_t end);  // tokens
  void (*swiglu_forward)(const void* gate, const void* up, void* out, Type type, int64_t count);
  void (*swiglu_backward)(const void* dy, const void* gate, const void* up, void* d_gate, void* d_up,
                          Type type, int64_t count);
  // queries [begin, end) of one head of one document
  void (*attention_forward)(const Attention&, int64_t begin, int64_t end);
  void (*attention_backward)(const Attention&);
  int64_t (*attention_forward_work)(int64_t head_dim);
  int64_t (*attention_backward_work)(int64_t length, int64_t head_dim);
  // one query row q[head_dim] over `length` keys; scores: [length] floats of work
  void (*attention_decode)(const void* q, const void* keys, const void* values, void* out, float* scores,
                           int64_t length, int64_t head_dim, int64_t kv_stride, float scale, Type type);
  HeadRow (*head_row)(void* logits, Type type, int64_t vocab, const HeadTask& task);
  void (*skinny)(const Skinny&, int64_t begin, int64_t end);
};

// The best table for this machine, unless a test chose another for the process.
const CpuKernels& cpu();
void use_cpu(const CpuKernels& table);
// Those this machine can run, best first, ended by null: for tests.
const CpuKernels* const* cpu_variants();

}  // namespace trl::kernels
