// The torch-free kernels: one table of functions per instruction set, all compiled from the same *_cpu.inc
// sources. Every function is serial over the range given; the caller divides the work. Results of two tables
// agree to rounding.
#pragma once
#include <cstdint>

#include "base/arithmetic/counter_random.h"
#include "io/gguf_types.h"
#include "kernels/kinds.h"

namespace trl::kernels {

// Terms of a piece of a sum. Gradients of weights are sums over tokens, made in pieces of this size, so that
// adding the pieces one after the other gives the bits of one sum.
inline constexpr int64_t kSumPiece = 2048;

// Called by long kernels between their blocks; true: the result is no longer wanted.
using Stopped = bool (*)();

enum class Type : int32_t { f32, bf16 };  // bf16: the upper half of a float32, in a uint16_t

// y = norm(x), or with a branch sum = x + branch_scale * branch and y = norm(sum). Row r uses the weight r %
// groups.
struct NormForward {
  const void* x;
  const void* branch;  // null: none
  const void* w;       // [groups, width]
  const void* bias;    // the same, or null; of w's type
  void* sum;           // null without a branch
  void* y;
  float* rstd;  // [rows] or null
  float* mean;  // [rows] or null; layer norms only
  int64_t width, groups;
  float eps, branch_scale;
  NormKind kind;
  Type x_type, branch_type, w_type;
};
struct NormBackward {
  const void* dy;
  const void* d_sum;  // the initial value of dx, or null
  const void* x;
  const void* w;
  const float* rstd;
  const float* mean;  // layer norms only
  void* dx;
  float *dw, *d_bias;  // [groups, width], added to; null: not wanted
  int64_t width, groups;
  NormKind kind;
  Type x_type, w_type;
};
struct Rope {
  const void* x;
  void* y;
  const float* cos;  // [tokens, half]
  const float* sin;
  int64_t heads, head_dim, half;  // the first 2 * half elements of a head are turned
  Type type;
  RopeLayout layout;
  bool inverse;
};
// Dropout. Element (r, c) is left out if the upper 24 of the bits that base::counter_bits draws for c by
// base::counter_key({key, r}) are a number less than `below`; the others are multiplied by `scale`.
struct Drop {
  uint64_t key = 0;
  int32_t below = 0;  // 0: none is left out
  float scale = 1;
  int64_t row = 0;  // the first row's number in dropout
};
// Pointers are to the first token of one document, or of a tree of segments; strides are in elements per
// token.
struct Attention {
  const void *q, *k, *v;
  void* out;
  float* lse;         // [length] of this head, stride lse_stride
  const void* d_out;  // backward only, from here
  void* dq;
  float *dk, *dv;  // gradients of this query head, [length, head_dim], overwritten
  float* work;     // attention_forward_work() or attention_backward_work() floats
  int64_t length, head_dim;
  int64_t q_stride, kv_stride;
  // [length] each for a tree, whose segments are in depth-first order; null: a document. until: a row is seen
  // by the rows from itself up to, but not including, this one. position: the row's place in its sequence, by
  // which windows count; readable for one block after the last row.
  const int32_t *until, *position;
  int64_t window;  // 0: all
  float scale;
  float softcap;  // 0: none
  Drop drop;      // dropout of the weights: row (row + query) * heads + head, column row + key
  int64_t row;    // the number of the document's first token in the batch
  int64_t head, heads;
  Type type;
  Stopped stopped;  // backward only
};
// Rows of the vocabulary that are processed at a time.
constexpr int64_t kHeadBlock = 96;

// Rows of hidden states against the head, whose gradient is made together with theirs. Logits are kept
// between the two passes; nothing larger exists.
struct HeadTile {
  int64_t rows, width, vocab;
  int64_t pitch;       // rows, rounded up to whole vectors of any instruction set: a multiple of 16
  Type type;           // the product's: operands and logits
  const void* weight;  // [vocab, width], or some of its rows from `weight_row` on
  Type weight_type;
  int64_t weight_row;
  void* grad;  // [vocab, width], added to; null: not wanted
  Type grad_type;
  // [vocab, width] or null: the next eight bits of a bfloat16 grad, kept while earlier tiles (low_to) and
  // later ones (low_from) add to it. The last tile rounds.
  uint8_t* low;
  bool low_from, low_to;
  float* packed;  // the rows as operands
  void* logits;   // [vocab, pitch], transposed
  float scale;    // logits are the products times scale
  float softcap;  // logits z become softcap tanh(z / softcap); 0: they stay
  Stopped stopped;
};
struct HeadBytes {
  int64_t packed, work;  // floats; work: for each call
};
// Sums over the logits z of one row.
struct HeadStats {
  float top = -__builtin_inff();
  double sum = 0;       // sum of e^(z - top)
  double weighted = 0;  // sum of (z - top) e^(z - top)
  double squares = 0;   // sum of e^(2 (z - top))
  double total = 0;     // sum of z
  int64_t best = 0;     // index of the first maximum
};
// Joins the sums over later logits.
void join(HeadStats& stats, const HeadStats& later);
// Logits of a row whose sums are made together.
constexpr int64_t kLogitPiece = 128;
// A token of a row whose logit has an extra term, `own`, in its gradient.
struct HeadTarget {
  int64_t token, row;
  float own;
};
// The gradient of a logit z is e^(z - top) (scale + (z - top) surprise) - spread, minus `own` at a target.
// [pitch] each; 0 after the last row. targets: sorted by token, then row, each pair once. top null: the
// logits were replaced by their gradients.
struct HeadFactors {
  const float *top, *scale, *spread;
  const float* surprise;  // null: 0
  const HeadTarget *targets, *end;
};
// Logits of two models for the same rows, [vocab, pitch], transposed, and by row the largest and the log of
// the sum of e^(z - top), [pitch] each. mixed: each is compared with the mixture of both, whose shares have
// these logarithms; else with the other one.
struct DivergenceTile {
  int64_t pitch;
  Type type;
  void* student;
  const void* teacher;
  const float *student_top, *student_log, *teacher_top, *teacher_log;
  bool mixed,
      reverse;  // reverse: the gradient is of the student's divergence from the teacher; else the other
  float log_student_share, log_teacher_share;
  float softcap;  // of the student
};
inline constexpr int64_t kSkinnyGroup = 32;  // rows
// y[row, n] = sum_k x[row, k] w[n, k] + bias[n] for n in [begin, end).
struct Skinny {
  const void* x;
  const void* w;
  const void* bias;  // null: none
  void* y;
  int64_t rows, k, x_stride, y_stride;
  Type x_type, w_type, bias_type, y_type;
  bool near = false;             // w is in the first-level cache
  const void* packed = nullptr;  // x from skinny_pack(), unless by_columns
  bool by_columns = false;       // w is [k, n]
  int64_t w_stride = 0;          // elements between the rows of w; 0: they are adjacent
};
inline constexpr int64_t kMostFewTerms = 64;
// y[row, n] += sum_k x[row, k] w[n, k] for n in [begin, end), rounded once; k is at most kMostFewTerms.
struct FewTerms {
  const void *x, *w;
  void* y;
  int64_t rows, k, x_stride, w_stride, y_stride;  // strides in elements
  Type type, y_type;                              // type: of x and w
};
// Keys and values of one head at consecutive positions of a block, where they take cache_bytes(), laid out
// for the instruction set. int8: as integers, with a scale for each position.
struct CacheRows {
  const void *keys, *values;  // the first row's; rows are `stride` elements apart
  void* to;                   // the head's part of the block
  int64_t first, rows;        // places in the block
  int64_t head_dim, stride;
  Type type;
  bool int8;
};
// Rows of a sequence at consecutive positions, in one block of positions, and heads that share keys: each row
// sees the keys up to its own position. rows * heads is at most kCacheRows.
struct CachedAttention {
  const void* q;        // the first row's first head; heads are adjacent, rows row_stride elements apart
  void* out;            // the same
  char* const* blocks;  // of the sequence, from its first position on
  int64_t offset;       // bytes in a block before the part of this head of keys
  int64_t position, rows, heads, head_dim, row_stride;
  int64_t window;        // 0: all
  float scale, softcap;  // softcap 0: none
  Type type;
  bool int8;         // keys and values are kept as integers
  const char* next;  // the part of a block that is read after this call, or null
  float* work;       // cached_work() floats
};

// Rows of a part of a matrix in 4-bit codes (io/four_bit.h): row r begins at element first + r * pitch.
// Nested: absmax of block b is code[nested[b]] * absmax[b >> nested_shift] + offset.
struct FourBitRows {
  const uint8_t* codes;      // from element 0
  const float* code;         // [16]
  const float* absmax;       // from block 0
  const uint8_t* nested;     // codes of absmax from block 0, or null
  const float* nested_code;  // [256]
  float offset;
  int nested_shift;
  int block_shift;  // log2 of the elements in a block
  int64_t first, pitch, rows, columns;
  void* to;
  int64_t stride;
  Type type;
};
// Rows of 8-bit codes (io/four_bit.h): code * absmax * step.
struct Int8Rows {
  const int8_t* codes;  // rows are `pitch` apart
  const float* absmax;  // [rows]
  float step;
  int64_t pitch, rows, columns;
  void* to;
  int64_t stride;
  Type type;
};

// Rows of blocks in the formats of GGUF files.
struct GgmlRows {
  uint32_t ggml_type;
  const uint8_t* blocks;       // rows are `pitch` bytes apart
  int64_t pitch, rows, count;  // count: blocks in a row
  void* to;
  int64_t stride;
  Type type;
};
// Turns rows of x, each column times its factor, into 8-bit codes: an element is its code times its row's
// step, which is the row's largest absolute value / 127. The step of a row that is not finite is not finite.
struct ToInt8 {
  const void* x;         // [rows, columns]
  const float* factors;  // [columns], or null
  int8_t* codes;         // [rows, columns]
  float* steps;          // [rows]
  int64_t rows, columns;
  Type type;  // x's
};
// Turns sums of products of codes into numbers: y = sum * row step * column step + added, plus the old y if
// `adds`.
struct FromInt8 {
  const int32_t* sums;        // [rows, columns]
  const float* row_steps;     // [rows]
  const float* column_steps;  // [columns], or null
  const float* added;         // [rows, columns], or null
  void* y;
  int64_t rows, columns, stride;
  Type type;  // y's
  bool adds;
};

// A copy of a weight [out, in] in narrow codes, in panels of kNarrowOutputs outputs. A panel has its terms in
// blocks of kNarrowTerms, whose codes are in the order [four terms][output][term]. int8: a term is (code -
// 128) * step, and the float32 steps of the outputs follow the last block. int4: a term is (code - 8) * step,
// a block has the bfloat16 steps of its outputs after its codes, and the codes of the second of two groups of
// four terms are in the high halves of the first one's bytes. What is beyond the weight is 0.
inline constexpr int64_t kNarrowOutputs = 32, kNarrowTerms = 32;
inline constexpr int64_t narrow_blocks(int64_t k) { return (k + kNarrowTerms - 1) / kNarrowTerms; }
inline constexpr int64_t narrow_block_bytes(bool four_bit) {
  return four_bit ? kNarrowOutputs * (kNarrowTerms / 2 + 2) : kNarrowOutputs * kNarrowTerms;
}
inline constexpr int64_t narrow_panel_bytes(bool four_bit, int64_t k) {
  return narrow_blocks(k) * narrow_block_bytes(four_bit) + (four_bit ? 0 : kNarrowOutputs * 4);
}
inline constexpr int32_t narrow_offset(NarrowType type) { return type == NarrowType::int4 ? 8 : 128; }
// A block of terms of a row that is multiplied with it: a term is its code * step.
struct NarrowTerms {
  int8_t codes[kNarrowTerms];
  float step;     // the largest absolute value / 127; not finite if a term is not
  int32_t start;  // -narrow_offset() times the sum of the codes
};
struct NarrowPanel {
  const void* w;  // [outputs, k]
  int64_t outputs, k;
  Type type;
  void* to;
  float *values, *errors;  // [outputs] each: sums of squares of the values and of the copy's errors
};

struct CpuKernels {
  const char* name;
  void (*convert)(const void* from, Type from_type, void* to, Type to_type, int64_t count);
  // out = a + scale * b, in a's type; scale * b is rounded to b's type first, unless scale is 1
  void (*add)(const void* a, Type a_type, const void* b, Type b_type, float scale, void* out, int64_t count);
  void (*scale)(const void* x, Type x_type, float factor, void* y, Type y_type, int64_t count);
  // Rows [begin, end). words: null, or [width / 16, rounded up] for each row: bits of the elements that are
  // kept.
  void (*dropout)(const Drop&, const void* x, void* y, Type type, int64_t width, int64_t begin, int64_t end,
                  uint16_t* words);
  // y = the result of dropout of x with these words, or with add y + that result; over rows
  void (*add_kept)(const uint16_t* words, float scale, const void* x, Type x_type, bool add, void* y,
                   Type y_type, int64_t width, int64_t begin, int64_t end);
  // sum[c] += x[r, c] over the rows, in pieces of kSumPiece, for columns [begin, end)
  void (*column_sum)(const void* x, Type x_type, int64_t rows, int64_t width, void* sum, Type sum_type,
                     int64_t begin, int64_t end);
  void (*norm_forward)(const NormForward&, int64_t begin, int64_t end);  // rows
  void (*norm_backward)(const NormBackward&, int64_t begin, int64_t end);
  void (*rope)(const Rope&, int64_t begin, int64_t end);  // tokens
  void (*activation_forward)(Activation kind, const void* x, void* y, Type type, int64_t count);
  void (*activation_backward)(Activation kind, const void* dy, const void* x, void* dx, Type type,
                              int64_t count);
  void (*gated_forward)(Activation kind, const void* gate, const void* up, void* out, Type type,
                        int64_t count);
  void (*gated_backward)(Activation kind, const void* dy, const void* gate, const void* up, void* d_gate,
                         void* d_up, Type type, int64_t count);
  // queries [begin, end) of one head of one document or tree
  void (*attention_forward)(const Attention&, int64_t begin, int64_t end);
  void (*attention_backward)(const Attention&);
  int64_t (*attention_forward_work)(int64_t head_dim);
  int64_t (*attention_backward_work)(const Attention&);
  int64_t (*cache_bytes)(int64_t head_dim, Type type, bool int8);
  void (*cache_write)(const CacheRows&);
  int64_t (*cached_work)(int64_t head_dim);
  void (*cached_attention)(const CachedAttention&);
  HeadBytes (*head_bytes)(const HeadTile&);
  void (*head_pack)(const HeadTile&, const void* x, float* work);  // x: [rows, width] of the tile's type
  // Logits of [begin, end) of the vocabulary; stats: [rows], updated with them
  void (*head_logits)(const HeadTile&, int64_t begin, int64_t end, HeadStats* stats, float* work);
  // grad from the logits, and d_rows [rows][width rounded up to a multiple of 16]; both are added to
  void (*head_gradient)(const HeadTile&, const HeadFactors&, int64_t begin, int64_t end, float* d_rows,
                        float* work);
  // Over [begin, end) of the vocabulary, by row: the sums of p (log p - log m), and of q (log q - log m), p
  // and q being the student's and the teacher's probabilities, and m the mixture, or the other of the two.
  void (*divergence_sums)(const DivergenceTile&, int64_t begin, int64_t end, float* of_student,
                          float* of_teacher);
  // Replaces the student's logits by their gradients: scale p (log p - log m - mean), or scale (p - q).
  void (*divergence_gradient)(const DivergenceTile&, int64_t begin, int64_t end, const float* scale,
                              const float* mean);
  // x = x * scale, then softcap tanh(x / softcap) unless that is 0
  void (*head_finish)(float* x, float scale, float softcap, int64_t count);
  // For each kLogitPiece logits of a row: the largest, or a NaN if one of them is; and sums of e^d and of
  // d e^d, d = (z - top) * scale, in lanes. allowed: a bit for each logit, and for the rest of its last
  // piece; those without it count as -inf. null: all are allowed.
  void (*logit_tops)(const float* z, int64_t count, const uint64_t* allowed, float* tops);
  void (*logit_sums)(const float* z, int64_t count, const uint64_t* allowed, float top, float scale,
                     float* sums, float* weighted);
  void (*softmax)(const void* z, Type type, float* p, int64_t count);
  float (*dot)(const void* a, const void* b, Type type, int64_t count);
  // Bytes of x in the form that skinny() reads; 0: it reads x itself.
  int64_t (*skinny_bytes)(const Skinny&);
  int64_t (*skinny_rows)(const Skinny&);  // how many rows of a weight should be decoded for it at a time
  void (*skinny_pack)(const Skinny&, void* to, int64_t begin, int64_t end);  // groups of kSkinnyGroup rows
  // A sum depends neither on the other rows nor on their number.
  void (*skinny)(const Skinny&, int64_t begin, int64_t end);
  void (*add_few_terms)(const FewTerms&, int64_t begin, int64_t end);  // the same holds
  void (*four_bit)(const FourBitRows&);
  // Outputs [0, w.rows) of a product with the rows that w describes, instead of a.w: codes are multiplied as
  // they are read, without rounding their numbers. Returns false if it cannot read these rows, which must be
  // decoded first; whether it can depends on the number of rows of x only if the bits are the same.
  bool (*skinny_four_bit)(const Skinny& a, const FourBitRows& w);
  bool (*skinny_int8)(const Skinny& a, const Int8Rows& w);
  bool (*skinny_ggml)(const Skinny& a, const GgmlRows& w);
  Type (*block_type)(Type x);  // w_type of skinny_ggml()
  void (*int8)(const Int8Rows&);
  bool (*ggml)(const GgmlRows&);  // false: the block type is not supported here
  // Products with a narrow copy, int8 or int4: a.w is its panels, a.packed the rows as narrow_terms() writes
  // them. begin: a multiple of kNarrowOutputs. A sum depends neither on the other rows nor on their number.
  void (*narrow_encode)(const NarrowPanel&, NarrowType type);
  void (*narrow_terms)(const Skinny&, NarrowType type, void* to, int64_t begin, int64_t end);  // rows
  void (*narrow_product)(const Skinny&, NarrowType type, int64_t begin, int64_t end);
  void (*to_int8)(const ToInt8&);
  void (*from_int8)(const FromInt8&);
};

// The best table for this machine, unless a test chose another for the process.
const CpuKernels& cpu();
void use_cpu(const CpuKernels& table);
// The tables that this machine can run, best first, ended by null: for tests.
const CpuKernels* const* cpu_variants();

}  // namespace trl::kernels
