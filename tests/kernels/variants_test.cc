// Every instruction set this machine can run gives the same answers to rounding.
#include "kernels/cpu_kernels.h"
#include "kernels/reference.h"

namespace trl::kernels {
namespace {

using test::error_of;
using test::random;
using test::same_bits;
using test::tolerance;

Type type_of(at::ScalarType type) { return type == at::kFloat ? Type::f32 : Type::bf16; }

std::vector<const CpuKernels*> variants() {
  std::vector<const CpuKernels*> all;
  for (const CpuKernels* const* v = cpu_variants(); *v != nullptr; ++v) all.push_back(*v);
  return all;
}

TEST(Variants, GenericIsAlwaysThereAndTheFirstIsUsed) {
  ASSERT_FALSE(variants().empty());
#ifdef TRL_CPU_SCALAR
  EXPECT_EQ(variants().size(), 1u);
  EXPECT_STREQ(variants().back()->name, "scalar");
#else
  EXPECT_STREQ(variants().back()->name, "generic");
#endif
  EXPECT_EQ(&cpu(), variants().front());
}

TEST(Variants, RoundingToBfloat16IsNearestEven) {
  at::Tensor x = at::cat(
      {random({1000}, 1), at::tensor({1.00390625f, 1.01171875f, -1.00390625f, 3.4e38f, -0.0f, 0.0f})});
  for (const CpuKernels* v : variants()) {
    at::Tensor y = at::empty_like(x, at::kBFloat16);
    v->convert(x.data_ptr(), Type::f32, y.data_ptr(), Type::bf16, x.numel());
    EXPECT_TRUE(same_bits(y, x.to(at::kBFloat16))) << v->name;
    at::Tensor special = at::tensor({std::nanf(""), INFINITY, -INFINITY}),
               out = at::empty({3}, at::kBFloat16);
    v->convert(special.data_ptr(), Type::f32, out.data_ptr(), Type::bf16, 3);
    EXPECT_TRUE(std::isnan(out[0].item<float>())) << v->name;
    EXPECT_EQ(out[1].item<float>(), INFINITY) << v->name;
    EXPECT_EQ(out[2].item<float>(), -INFINITY) << v->name;
  }
}

struct AttentionOut {
  at::Tensor out, lse, dq, dk, dv;
};

AttentionOut attend(const CpuKernels& kernels, at::ScalarType type, int64_t length, int64_t head_dim,
                    int64_t window) {
  const at::Tensor q = random({length, head_dim}, 1, type), k = random({length, head_dim}, 2, type);
  const at::Tensor v = random({length, head_dim}, 3, type), d = random({length, head_dim}, 4, type);
  AttentionOut r{at::empty_like(q), at::empty({length}), at::empty_like(q), at::empty({length, head_dim}),
                 at::empty({length, head_dim})};
  const int64_t floats =
      std::max(kernels.attention_forward_work(head_dim), kernels.attention_backward_work(length, head_dim));
  at::Tensor work = at::full({floats + 1}, 7.0f);
  Attention a{};
  a.q = q.data_ptr();
  a.k = k.data_ptr();
  a.v = v.data_ptr();
  a.out = r.out.data_ptr();
  a.lse = r.lse.data_ptr<float>();
  a.d_out = d.data_ptr();
  a.dq = r.dq.data_ptr();
  a.dk = r.dk.data_ptr<float>();
  a.dv = r.dv.data_ptr<float>();
  a.work = work.data_ptr<float>();
  a.length = length;
  a.head_dim = head_dim;
  a.q_stride = a.kv_stride = head_dim;
  a.window = window;
  a.scale = 0.3f;
  a.type = type_of(type);
  kernels.attention_forward(a, 0, length);
  kernels.attention_backward(a);
  EXPECT_EQ(work[floats].item<float>(), 7.0f) << kernels.name << " wrote behind its work memory";
  return r;
}

TEST(Variants, AttentionAgrees) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [length, head_dim, window] :
         {std::tuple{1, 16, 0}, {65, 20, 0}, {130, 64, 0}, {200, 33, 17}, {70, 128, 0}}) {
      const AttentionOut want = attend(*variants().back(), type, length, head_dim, window);
      for (const CpuKernels* v : variants()) {
        SCOPED_TRACE(testing::Message() << v->name << " " << length << " " << head_dim);
        const AttentionOut got = attend(*v, type, length, head_dim, window);
        EXPECT_LT(error_of(got.lse, want.lse), 2e-6);
        EXPECT_LT(error_of(got.out, want.out), tolerance(type));
        EXPECT_LT(error_of(got.dq, want.dq, 1.0), tolerance(type));
        EXPECT_LT(error_of(got.dk, want.dk, 1.0), tolerance(type));
        EXPECT_LT(error_of(got.dv, want.dv, 1.0), tolerance(type));
      }
    }
  }
}

TEST(Variants, HeadRowAgrees) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t vocab : {1, 2, 17, 5000}) {
      const at::Tensor logits = random({vocab}, 5, type) * 4;
      const int64_t target = vocab / 2;
      const at::Tensor logp = logits.to(at::kDouble).log_softmax(0), p = logp.exp();
      at::Tensor want = p.clone();
      want[target] -= 1;
      for (const CpuKernels* v : variants()) {
        at::Tensor z = logits.clone();
        const HeadRow row = v->head_row(z.data_ptr(), type_of(type), vocab, {target, 0.5f, 0, false, true});
        EXPECT_NEAR(row.nll, -logp[target].item<double>(), 2e-6) << v->name << vocab;
        EXPECT_NEAR(row.entropy, -(p * logp).sum().item<double>(), 2e-6 * 10) << v->name << vocab;
        EXPECT_EQ(row.best, logits.to(at::kFloat).argmax().item<int64_t>());
        EXPECT_LT(error_of(z, want * 0.5, 0.01), type == at::kFloat ? 2e-6 : 4e-3) << v->name << vocab;
      }
    }
  }
}

// The smoothed and the weighted loss, and their gradients.
TEST(Variants, HeadRowLossesAgree) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t vocab : {1, 17, 5000}) {
      const at::Tensor logits = random({vocab}, 5, type) * 4;
      const int64_t target = vocab / 3;
      const at::Tensor logp = logits.to(at::kDouble).log_softmax(0), p = logp.exp();
      const double own = p[target].item<double>();
      at::Tensor smoothed = p - 0.2 / static_cast<double>(vocab), weighted = p * own;
      smoothed[target] -= 0.8;
      weighted[target] -= own;
      const double nll = -logp[target].item<double>();
      for (const CpuKernels* v : variants()) {
        const double limit = type == at::kFloat ? 2e-6 : 4e-3;
        at::Tensor z = logits.clone();
        HeadRow row = v->head_row(z.data_ptr(), type_of(type), vocab, {target, 0.5f, 0.2f, false, true});
        EXPECT_NEAR(row.nll, nll, 2e-6) << v->name << vocab;
        EXPECT_NEAR(row.loss, 0.8 * nll - 0.2 * logp.mean().item<double>(), 4e-6) << v->name << vocab;
        EXPECT_LT(error_of(z, smoothed * 0.5, 0.01), limit) << v->name << vocab;
        z = logits.clone();
        row = v->head_row(z.data_ptr(), type_of(type), vocab, {target, 0.5f, 0, true, true});
        EXPECT_NEAR(row.loss, own * nll, 2e-6) << v->name << vocab;
        EXPECT_LT(error_of(z, weighted * 0.5, 0.01), limit) << v->name << vocab;
      }
    }
  }
}

TEST(Variants, ElementwiseAgrees) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t count : {1, 15, 16, 33, 1000}) {
      const at::Tensor gate = random({count}, 1, type) * 5, up = random({count}, 2, type);
      for (const CpuKernels* v : variants()) {
        at::Tensor y = at::empty_like(gate);
        v->swiglu_forward(gate.data_ptr(), up.data_ptr(), y.data_ptr(), type_of(type), count);
        const at::Tensor g = gate.to(at::kDouble);
        EXPECT_LT(error_of(y, g * g.sigmoid() * up.to(at::kDouble)), type == at::kFloat ? 1e-6 : 8e-3)
            << v->name;
      }
    }
  }
}

TEST(Variants, SkinnyProductsAgree) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [rows, outs, k] : {std::tuple{1, 1, 1}, {1, 5, 33}, {4, 9, 576}, {7, 16, 95}}) {
      const at::Tensor x = random({rows, k}, 1, type), w = random({outs, k}, 2, type);
      const at::Tensor want = x.to(at::kDouble).matmul(w.to(at::kDouble).t());
      for (const CpuKernels* v : variants()) {
        at::Tensor y = at::empty({rows, outs});
        v->skinny({x.data_ptr(), w.data_ptr(), y.data_ptr(), rows, k, k, outs, type_of(type), type_of(type),
                   Type::f32},
                  0, outs);
        EXPECT_LT(error_of(y, want), 2e-6) << v->name << " " << rows << " " << outs << " " << k;
      }
    }
  }
}

}  // namespace
}  // namespace trl::kernels
