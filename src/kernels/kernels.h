// The differentiable pieces of a model, each an autograd Function over flat [tokens, ...] tensors. Every
// output and every saved buffer is counted. Weight gradients are added through tensor::Use, never returned by
// autograd. Inputs are contiguous tensors of float32 or bfloat16 (ids and targets on the host); path.h
// chooses the path they take.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/kinds.h"
#include "tensor/parameter/parameter.h"

namespace trl::kernels {

using tensor::Parameter;

// Segments of a batch: only attention respects their borders. Shared by all layers of a step. A segment that
// continues another sees that one's tokens, and all that this one sees, before its own; position_ids continue
// from there. So rows that begin alike share their beginnings: [prompt | answer 1 | answer 2 | ...] with
// prefix = {-1, 0, 0, ...}.
struct Segments {
  std::vector<int32_t> cu_seqlens;  // [segments + 1]
  int64_t max_length = 0;           // the longest segment's length
  // [segments], in depth-first order: the number of the segment that each continues, which is the one before
  // it or one that this continues; -1: none, as in an independent document. Empty: none continues another.
  std::vector<int32_t> prefix = {};
  // [segments]: the number of rows that each is a part of, and counts as in statistics of tokens. Empty: one
  // each.
  std::vector<int32_t> rows = {};
  // [segments]: the number of tokens at the end of each that are padding. No token sees them, themselves
  // included; they see the others before them, and have output 0 if a window leaves them none. No segment
  // continues one with padding. Empty: none has any.
  std::vector<int32_t> padding = {};
};
using SegmentsPtr = std::shared_ptr<const Segments>;

// Makes the x of a linear layer again, bit by bit, so that it need not be kept for backward.
struct Again {
  // Must hold no graph; empty: x is kept.
  std::function<at::Tensor(const std::vector<at::Tensor>& from)> make;
  std::vector<at::Tensor> from = {};  // the inputs of `make`, which are kept
  explicit operator bool() const { return make != nullptr; }
};

// Which results the caller needs. values: all. added: only summed into others, so that backward reads none of
// them. graph: no values, only gradients.
enum class Wanted : uint8_t { values, added, graph };

// y = x w^T + b. compute: type of the operands of the product, accumulated in float32. y has type `compute`.
// float32 weights under compute = bfloat16 is autocast: operands are rounded to bfloat16, grad w is float32.
// x: [tokens, in], w: [out, in], b: [out] or null -> [tokens, out]
at::Tensor linear(const at::Tensor& x, Parameter& w, Parameter* b, at::ScalarType compute,
                  const Again& again = {});

// Dropout (Srivastava et al. 2014): an element is left out with probability `rate`, the others are multiplied
// by 1 / (1 - rate). The choice depends only on the key and the element's row and column.
struct Dropout {
  double rate = 0;   // 0: none; 1: all elements are left out
  uint64_t key = 0;  // identifies the place in the model and in the run (base::counter_seed)
  int64_t row = 0;   // number of the first row in the batch, if x is a part of one
};

// An adapter's addition to a projection: y += scale (b (a drop(x)) + bias) (LoRA, Hu et al. 2021).
struct LowRank {
  Parameter* a = nullptr;  // [rank, in]; null: nothing is added
  Parameter* b = nullptr;  // [out, rank]
  double scale = 1;
  Parameter* bias = nullptr;  // [out], or null
  // [out], or null. DoRA (Liu et al. 2024): the sum of weight's and factors' products with x, before the
  // projection's own bias, is multiplied by magnitude / norm of each row of weight + scale b a; for gradients
  // that norm is a constant.
  Parameter* magnitude = nullptr;
  Dropout dropout = {};  // applies only to the x that a reads
  int64_t rank() const { return a->size(0); }
};

// Those of consecutive rows.
struct RowTerms {
  int64_t rows = 0;
  LowRank low_rank = {};
};

class Int8Products;  // gemm/gemm_int8.h
class NarrowWeight;  // weight/narrow_weight.h

// Several projections of one x (q, k, v; gate, up): x is rounded and kept once, and grad x is summed in x's
// type.
struct Projection {
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;  // null: none
  bool transposed = false;    // the weight is [in, out] (GPT-2)
  LowRank low_rank = {};
  const NarrowWeight* narrow = nullptr;  // without a gradient: a copy, which is multiplied with instead
  const Int8Products* int8 = nullptr;  // codes of the weight, which is frozen: bfloat16 products are in int8
  // Without a graph: the terms of all rows in turn, which several adapters share, instead of low_rank; empty:
  // low_rank. The projections of a call divide the rows alike.
  std::vector<RowTerms> by_rows = {};
  int64_t in() const { return weight->size(transposed ? 0 : 1); }
  int64_t out() const { return weight->size(transposed ? 1 : 0); }
};
// If x has no graph and low-rank factors are trained, a graph begins here, without a gradient of x. With
// Wanted::graph the outputs are zeros, unless backward needs them.
std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute, const Again& again = {},
                               Wanted wanted = Wanted::values);

// Noise that is added to embeddings: uniform in [-size, size), drawn by counter from the key.
struct Noise {
  double size = 0;  // 0: none
  uint64_t key = 0;
  int64_t row = 0;  // number of the first embedding in the batch, if these are a part of one
};
// Rows that replace some of a table's own: tokens that are trained separately.
struct OwnRows {
  Parameter* rows = nullptr;      // [ids, hidden]; null: none
  std::vector<int64_t> ids = {};  // each once
};
struct EmbeddingOptions {
  double scale = 1;       // factor of the rows; rounded to w's type first (Gemma: the root of the width)
  Noise noise = {};       // added to them
  double multiplier = 1;  // factor of the sum (Granite's embedding_multiplier)
  // An adapter's terms: a is [rank, vocab], b [hidden, rank], and a row gets scale b a[:, id] before all
  // else.
  LowRank low_rank = {};
  const OwnRows* own_rows = nullptr;        // null: none; not owned
  std::optional<at::ScalarType> type = {};  // of the result; none: w's
};
// ids: int32 [tokens] -> [tokens, hidden]. anchor: a scalar that requires grad, so that a graph
// starts here.
at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w,
                     const EmbeddingOptions& options = {});

// x: [..., width], the last dimension being a row -> the same shape and type. The graph keeps nothing of x:
// the gradient is that of y with the same elements left out, times 1 / (1 - rate). With rate 0 returns x
// itself.
at::Tensor dropout(const at::Tensor& x, const Dropout& dropout);

// weight: [width], or [n, width]: rows of x take turns, row r has weight r % n (heads with their own norms).
// bias: of weight's shape, or null; layer norms only.
struct Norm {
  Parameter* weight = nullptr;
  Parameter* bias = nullptr;
  NormKind kind = NormKind::rms;
  double eps = 1e-6;
  // All but the first of the weights that take turns, if they are separate parameters, [width] each. No bias.
  std::vector<Parameter*> more = {};
};
// x: [..., width]; y has x's type.
at::Tensor norm(const at::Tensor& x, const Norm& norm);

// A residual stream and its norm, both to be used: stream + branch_scale * branch (in the stream's type,
// float32 under autocast; the scaled branch is rounded to its own type first) and the norm of that; without a
// branch (undefined) the stream unchanged. One pass forward; one backward, which also adds the two gradients
// of the stream.
struct Residual {
  at::Tensor stream, normed;
};
Residual residual_norm(const at::Tensor& stream, const at::Tensor& branch, const Norm& norm,
                       double branch_scale = 1);

// The values of x as the start of a graph: requires grad, but no gradient flows back to x.
at::Tensor recorded(const at::Tensor& x);

// Only the stream of residual_norm.
at::Tensor add(const at::Tensor& stream, const at::Tensor& branch, double branch_scale = 1);

// Rotary position embedding (Su et al. 2021) of the first 2n elements of each head, in float32 on the fly;
// the others stay. q, k: [tokens, heads, head_dim]; cos, sin: float32 [tokens, n], multiplied by the
// attention scaling -> q and k turned.
std::pair<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                       const at::Tensor& sin, RopeLayout layout = RopeLayout::halves);

// Columns of x [tokens, sum of widths] as separate tensors: the outputs of a fused projection.
std::vector<at::Tensor> split_columns(const at::Tensor& x, at::IntArrayRef widths);

class AttentionPlugin;  // attention_plugin.h
using AttentionPluginPtr = std::shared_ptr<const AttentionPlugin>;

struct AttentionOptions {
  double scale = 1.0;                   // factor of q k^T
  int64_t window = 0;                   // sliding window: a query sees the last `window` positions; 0: all
  double softcap = 0;                   // scores become softcap tanh(score / softcap) (Gemma 2); 0: they stay
  AttentionPluginPtr plugin = nullptr;  // null: the built-in kernel, which cached_attention always is
  // Dropout of the softmax's weights: query row t of the batch, head h and key row s are row t * heads + h
  // and column s. A plug-in refuses it.
  Dropout dropout = {};
};
// Causal self-attention along the segments of each sequence; grouped heads. q: [tokens, heads, d]; k, v:
// [tokens, kv_heads, d] -> [tokens, heads, d] of q's type. Softmax in float32; nothing of size tokens x
// tokens is stored.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options);

// act(x), in x's type. x: any shape.
at::Tensor activate(Activation kind, const at::Tensor& x);
// A gated unit, act(gate) * up (Shazeer 2020), in the operands' type. [tokens, width] each.
at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up);
// The same for [gate | up] in one: [tokens, 2 * width] -> [tokens, width].
at::Tensor gated(Activation kind, const at::Tensor& gate_up);

// Keys and values that are kept while sequences grow, in blocks of kCacheRows positions.
struct CacheShape {
  int64_t kv_heads, head_dim;
  at::ScalarType compute;  // the type of the computation
  bool int8 = false;  // kept as integers with a float32 scale for each position and head; else in `compute`
};
// Bytes of a layer's keys and values in a block, which each back end lays out for itself. A block is bytes
// [layers, cache_bytes()].
int64_t cache_bytes(const CacheShape& shape, at::Device device);

// Keeps the keys and values of all rows (attention/cached_rows.h), and then attends: each row sees its
// sequence up to itself. No gradient. A row has the same bits in every batch, and with the built-in kernel
// those of attention() unless the cache has integers. q: [tokens, heads, d]; k, v: [tokens, kv_heads, d] ->
// [tokens, heads, d].
class CachedRows;
at::Tensor cached_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                            const CachedRows& rows, int64_t layer, const AttentionOptions& options);

}  // namespace trl::kernels
