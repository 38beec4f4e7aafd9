// Attention with its gradients, and two of them compared.
#pragma once
#include "kernels/reference.h"

namespace trl::test {

struct Attended {
  at::Tensor out, dq, dk, dv;
};

inline Attended attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& d_out,
                       const kernels::SegmentsPtr& segments, const kernels::AttentionOptions& options) {
  const at::Tensor ql = leaf(q), kl = leaf(k), vl = leaf(v);
  const at::Tensor out = kernels::attention(ql, kl, vl, segments, options);
  const auto grads = torch::autograd::grad({out}, {ql, kl, vl}, {d_out});
  return {out.detach(), grads[0], grads[1], grads[2]};
}

inline void expect_near(const Attended& got, const Attended& want, double limit) {
  EXPECT_LT(error_of(got.out, want.out), limit);
  EXPECT_LT(error_of(got.dq, want.dq, 1.0), limit);
  EXPECT_LT(error_of(got.dk, want.dk, 1.0), limit);
  EXPECT_LT(error_of(got.dv, want.dv, 1.0), limit);
}

inline void expect_same_bits(const Attended& got, const Attended& want) {
  EXPECT_TRUE(same_bits(got.out, want.out));
  EXPECT_TRUE(same_bits(got.dq, want.dq));
  EXPECT_TRUE(same_bits(got.dk, want.dk));
  EXPECT_TRUE(same_bits(got.dv, want.dv));
}

// Random rows of the given type, numbered on from the seed.
struct AttentionInputs {
  AttentionInputs(int64_t tokens, int64_t heads, int64_t kv_heads, int64_t head_dim, int64_t& seed,
                  at::ScalarType type)
      : q(random({tokens, heads, head_dim}, ++seed, type)),
        k(random({tokens, kv_heads, head_dim}, ++seed, type)),
        v(random({tokens, kv_heads, head_dim}, ++seed, type)),
        d_out(random({tokens, heads, head_dim}, ++seed, type)) {}
  at::Tensor q, k, v, d_out;
};

}  // namespace trl::test
