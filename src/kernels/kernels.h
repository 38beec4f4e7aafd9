// The differentiable pieces of a model, each an autograd Function over flat [tokens, ...] tensors. Every
// output and every saved buffer is counted. Weight gradients are added through tensor::Use, never returned by
// autograd. Inputs are contiguous tensors of float32 or bfloat16 (ids and targets on the host); which
// path they take, path.h says.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "tensor/parameter.h"

namespace trl::kernels {

using tensor::Parameter;

// Documents of a batch: attention, and nothing else, respects their borders. Shared by all layers of a step.
// Several answers to one prompt share it: [prompt | answer 1 | answer 2 | ...] with prefix = {-1, 0, 0, ...},
// where position_ids of each answer go on from the end of the prompt.
struct Segments {
  std::vector<int32_t> cu_seqlens;  // [documents + 1]
  int64_t max_length = 0;
  // [documents]: the number of the document, before it in the batch and without a prefix itself, that a
  // document sees before its own tokens; -1: none. Empty: none has one.
  std::vector<int32_t> prefix = {};
};
using SegmentsPtr = std::shared_ptr<const Segments>;

// Makes the x of a linear layer once more, bit by bit, so that nothing keeps it for backward. It must hold no
// graph. Empty: x is kept.
using Again = std::function<at::Tensor()>;

// y = x w^T + b. compute: type of the operands of the product, accumulated in float32. y has type `compute`.
// float32 weights under compute = bfloat16 is autocast: operands are rounded to bfloat16, grad w is float32.
// x: [tokens, in], w: [out, in], b: [out] or null -> [tokens, out]
at::Tensor linear(const at::Tensor& x, Parameter& w, Parameter* b, at::ScalarType compute,
                  const Again& again = {});

// Several projections of one x (q, k, v; gate, up): x is rounded and kept once, and grad x is summed in x's
// type.
struct Projection {
  Parameter* weight;
  Parameter* bias;  // or null
};
std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute, const Again& again = {});

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

// A residual stream and its norm, both to be used: stream + branch (in the stream's type, float32 under
// autocast) and rms_norm of that; without a branch (undefined) the stream as it is. One pass forward; one
// backward, which also adds the two gradients of the stream.
struct Residual {
  at::Tensor stream, normed;
};
Residual residual_norm(const at::Tensor& stream, const at::Tensor& branch, Parameter& w, double eps);

// Sum of the residual stream and a branch, in the stream's type (float32 under autocast).
at::Tensor add(const at::Tensor& stream, const at::Tensor& branch);

// Rotary position embedding, half-split layout (Su et al. 2021; transformers' rotate_half), in float32 on the
// fly. q, k: [tokens, heads, head_dim]; cos, sin: float32 [tokens, head_dim / 2] (attention scaling folded
// in) -> q and k turned.
std::pair<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                       const at::Tensor& sin);

class AttentionPlugin;  // attention_plugin.h
using AttentionPluginPtr = std::shared_ptr<const AttentionPlugin>;

struct AttentionOptions {
  double scale = 1.0;                   // of q k^T
  int64_t window = 0;                   // sliding window: a query sees the last `window` positions; 0: all
  double softcap = 0;                   // scores become softcap tanh(score / softcap) (Gemma 2); 0: they stay
  AttentionPluginPtr plugin = nullptr;  // the built-in kernel, which attention_decode always is
};
// Causal self-attention inside each document; grouped heads. q: [tokens, heads, d]; k, v: [tokens, kv_heads,
// d]
// -> [tokens, heads, d] of q's type. Softmax in float32; nothing of size tokens x tokens is stored.
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options);

// silu(gate) * up, in the operands' type. [tokens, width] each.
at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up);
// gelu(gate) * up; tanh: its approximation (transformers' gelu_pytorch_tanh), else exact (gelu).
at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up, bool tanh);

struct HeadOptions {
  at::ScalarType compute = at::kFloat;
  // Rows of logits that exist at once; 0: as many as keep work memory within 64 MiB. A bfloat16 gradient of
  // the head to which several tiles add takes one more byte for each element in the meantime.
  int64_t tile_rows = 0;
  bool log_probs = false;  // fill HeadSums::log_probs
  double smoothing = 0;    // share of the loss that is the mean of -log p over the whole vocabulary
  bool dft = false;        // each token's loss times p(target), a constant (Wu et al. 2025)
  double softcap = 0;      // logits become softcap tanh(logit / softcap) (Gemma 2); 0: they stay
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
at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, at::ScalarType compute);

// Keys and values of consecutive positions: [rows, kv_heads, d] each.
struct KeyValues {
  at::Tensor keys, values;
};
// One query row per sequence against the first `length` rows of cached pages (decoding; no gradient).
// q: [heads, d] -> out [heads, d]
void attention_decode(const at::Tensor& q, at::ArrayRef<KeyValues> pages, int64_t length,
                      const AttentionOptions& options, at::Tensor& out);

}  // namespace trl::kernels
