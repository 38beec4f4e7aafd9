// The ops of kernels.h in ATen's own operators: any device, any libtorch, gradients by autograd. kernels.h
// documents them; ids, targets and borders of documents are on the host whatever the device. Intermediate
// values are libtorch's own and not counted.
#pragma once
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/experts/experts.h"
#include "kernels/head/head.h"
#include "kernels/kernels.h"

namespace trl::kernels::plain {

// The weight as part of x's graph: its gradient is added through tensor::Use. x: any tensor of the graph.
at::Tensor weight(const at::Tensor& x, Parameter& w);
// The type of statistics: float32, or double if x is double.
inline at::ScalarType wide_type(const at::Tensor& x) {
  return at::promote_types(x.scalar_type(), at::kFloat);
}

// x w^T + bias, both of one type. On a processor whose oneDNN has no bfloat16 (AVX2), ATen sums such products
// in bfloat16 itself: on the host they are summed in float32 and rounded once.
at::Tensor product(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias = {});
std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute);
at::Tensor row_norms(const Projection& p);
at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w,
                     const EmbeddingOptions& options);
at::Tensor dropout(const at::Tensor& x, const Dropout& dropout);
// The factors of dropout for the elements of these rows and columns: float32 [rows, columns], on the host.
struct Range {
  int64_t begin, end;
};
at::Tensor dropout_factors(const Dropout& dropout, Range rows, Range columns);
at::Tensor norm(const at::Tensor& x, const Norm& norm);
at::Tensor add(const at::Tensor& stream, const at::Tensor& branch, double branch_scale);
at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, RopeLayout layout);
std::vector<at::Tensor> split_columns(const at::Tensor& x, at::IntArrayRef widths);
at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const SegmentsPtr& segments, const AttentionOptions& options);
at::Tensor activate(Activation kind, const at::Tensor& x);
Routing route(const at::Tensor& logits, int64_t k, bool normalised);
at::Tensor experts(const at::Tensor& x, const Routing& routing, const ExpertWeights& weights, Activation kind,
                   at::ScalarType compute);
at::Tensor add_gated(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& branch);
at::Tensor balance_loss(at::ArrayRef<at::Tensor> logits, int64_t k, at::IntArrayRef rows);
std::vector<TokenValues> head_values(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options);
at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenLoss& loss, const HeadOptions& options, std::vector<TokenValues>* values);
at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options);
void attention_decode(const at::Tensor& q, at::ArrayRef<KeyValues> pages, int64_t length,
                      const AttentionOptions& options, at::Tensor& out);

}  // namespace trl::kernels::plain
