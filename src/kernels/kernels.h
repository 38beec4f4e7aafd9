// The differentiable pieces of a model, each an autograd Function over flat [tokens, ...] tensors. Every
// output and every saved buffer is counted. Weight gradients are added into Parameter::grad, never returned
// through autograd. Inputs are contiguous tensors of float32 or bfloat16 (ids and targets on the host); which
// path they take, path.h says.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tensor/parameter.h"

namespace trl::kernels {

using tensor::Parameter;

// Documents of a batch: attention, and nothing else, respects their borders. Shared by all layers of a step.
struct Segments {
  std::vector<int32_t> cu_seqlens;  // [documents + 1]
  int64_t max_length = 0;
};
using SegmentsPtr = std::shared_ptr<const Segments>;

// y = x w^T + b. compute: type of the operands of the product, accumulated in float32. y has type `compute`.
// float32 weights under compute = bfloat16 is autocast: operands are rounded to bfloat16, grad w is float32.
// x: [tokens, in], w: [out, in], b: [out] or null -> [tokens, out]
at::Tensor linear(const at::Tensor& x, Parameter& w, Parameter* b, at::ScalarType compute);

// Several projections of one x (q, k, v; gate, up): x is rounded and kept once, and grad x is summed in x's
// type.
struct Projection {
  Parameter* weight;
  Parameter* bias;  // or null
};
std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute);

// Noise that is added to embeddings: uniform in [-size, size), drawn by counter from the key.
struct Noise {
  double size = 0;  // 0: none
  uint64_t key = 0;
};
// ids: int32 [tokens] -> [tokens, hidden] of w's type. anchor: a scalar that requires grad, so that a graph
// starts here.
at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w, const Noise& noise = {});

// x / sqrt(mean(x^2) + eps) * w over the last dimension, statistics in float32 (Zhang & Sennrich 2019; as
// transformers rounds: normalised value to x's type, then times w). x: [..., width]; y has x's type.
at::Tensor rms_norm(const at::Tensor& x, Parameter& w, double eps);

// Sum of the residual stream and a branch, in the stream's type (float32 under autocast).
at::Tensor add(const at::Tensor& stream, const at::Tensor& branch);

// Rotary position embedding, half-split layout (Su et al. 2021; transformers' rotate_half), in float32 on the
// fly. x: [tokens, heads, head_dim]; cos, sin: float32 [tokens, head_dim / 2] (attention scaling folded in)
// -> x's shape, type.
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin);

struct AttentionOptions {
  double scale = 1.0;  // of q k^T
  int64_t window = 0;  // sliding window: a query sees the last `window` positions; 0: all
};
// Causal self-attention inside each document; grouped heads. q: [tokens, heads, d]; k, v: [tokens, kv_heads,
// d]
// -> [tokens, heads, d] of q's type. Softmax in float32; nothing of size tokens x tokens is stored.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options);

// silu(gate) * up, in the operands' type. [tokens, width] each.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);

struct HeadOptions {
  at::ScalarType compute = at::kFloat;
  int64_t tile_rows = 512;  // rows of logits that exist at once
  bool log_probs = false;   // fill HeadSums::log_probs
  double smoothing = 0;     // share of the loss that is the mean of -log p over the whole vocabulary
  bool dft = false;         // each token's loss times p(target), a constant (Wu et al. 2025)
};
// Sums over the rows whose target is not -100; double, deterministic.
struct HeadSums {
  double loss = 0;      // nll, unless HeadOptions says otherwise
  double nll = 0;       // -log p(target)
  double entropy = 0;   // of softmax
  int64_t correct = 0;  // argmax == target; ties count only for the first maximum
  int64_t count = 0;
  std::vector<float> log_probs;  // [rows], 0 where ignored; empty unless asked for
};
// Linear head and token-mean cross-entropy in one pass over row tiles: the full [rows, vocab] never exists.
// hidden: [rows, width]; targets: int32 [rows], already shifted, -100 ignored. Returns a float32 scalar:
// sum loss * loss_scale. When hidden requires grad, the head's gradient is added and grad hidden made in this
// same sweep; so backward must start from the returned scalar itself (its incoming gradient must be 1, else
// an Error).
at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const at::Tensor& targets, double loss_scale,
                     const HeadOptions& options, HeadSums* sums);

// Plain logits without gradient: [rows, vocab] float32, for generation and tests.
at::Tensor head_logits(const at::Tensor& hidden, const Parameter& head, at::ScalarType compute);

// One query row per sequence against cached keys and values (decoding; no gradient).
// q: [heads, d]; keys, values: [length, kv_heads, d] -> out [heads, d]
void attention_decode(const at::Tensor& q, const at::Tensor& keys, const at::Tensor& values, int64_t length,
                      const AttentionOptions& options, at::Tensor& out);

}  // namespace trl::kernels
