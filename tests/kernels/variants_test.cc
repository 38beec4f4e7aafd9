// Every instruction set this machine can run gives the same answers to rounding.
#include <numeric>

#include "kernels/cpu/cpu_kernels.h"
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

struct AttentionCase {
  int64_t length, head_dim, window;
  float softcap = 0;
  std::vector<int64_t> branches = {};  // rows of segments that continue the first one

  int64_t rows() const { return std::accumulate(branches.begin(), branches.end(), length); }
  // Of each row, as a kernel reads them.
  std::pair<std::vector<int32_t>, std::vector<int32_t>> until_and_position() const {
    std::vector<int32_t> until(static_cast<size_t>(length), static_cast<int32_t>(rows())), position(until);
    std::iota(position.begin(), position.end(), 0);
    for (const int64_t count : branches) {
      until.resize(until.size() + static_cast<size_t>(count),
                   static_cast<int32_t>(until.size()) + static_cast<int32_t>(count));
      for (int64_t i = 0; i < count; ++i) position.push_back(static_cast<int32_t>(length + i));
    }
    position.resize(position.size() + 64);
    return {until, position};
  }
};

AttentionOut attend(const CpuKernels& kernels, at::ScalarType type, const AttentionCase& c) {
  const int64_t rows = c.rows();
  const at::Tensor q = random({rows, c.head_dim}, 1, type), k = random({rows, c.head_dim}, 2, type);
  const at::Tensor v = random({rows, c.head_dim}, 3, type), d = random({rows, c.head_dim}, 4, type);
  AttentionOut r{at::empty_like(q), at::empty({rows}), at::empty_like(q), at::empty({rows, c.head_dim}),
                 at::empty({rows, c.head_dim})};
  const auto [until, position] = c.until_and_position();
  Attention a{};
  a.stopped = [] { return false; };
  a.q = q.data_ptr();
  a.k = k.data_ptr();
  a.v = v.data_ptr();
  a.out = r.out.data_ptr();
  a.lse = r.lse.data_ptr<float>();
  a.d_out = d.data_ptr();
  a.dq = r.dq.data_ptr();
  a.dk = r.dk.data_ptr<float>();
  a.dv = r.dv.data_ptr<float>();
  a.length = rows;
  a.head_dim = c.head_dim;
  a.q_stride = a.kv_stride = c.head_dim;
  if (!c.branches.empty()) {
    a.until = until.data();
    a.position = position.data();
  }
  a.window = c.window;
  a.scale = 0.3f;
  a.softcap = c.softcap;
  a.type = type_of(type);
  const int64_t floats =
      std::max(kernels.attention_forward_work(c.head_dim), kernels.attention_backward_work(a));
  at::Tensor work = at::full({floats + 1}, 7.0f);
  a.work = work.data_ptr<float>();
  kernels.attention_forward(a, 0, rows);
  kernels.attention_backward(a);
  EXPECT_EQ(work[floats].item<float>(), 7.0f) << kernels.name << " wrote past its work memory";
  return r;
}

AttentionOut reference(at::ScalarType type, const AttentionCase& c) {
  const int64_t rows = c.rows();
  const auto input = [&](int64_t seed) {
    return test::leaf(random({rows, c.head_dim}, seed, type).to(at::kDouble));
  };
  const at::Tensor q = input(1), k = input(2), v = input(3);
  at::Tensor scores = q.matmul(k.t()) * 0.3f;
  if (c.softcap > 0) scores = (scores / c.softcap).tanh() * c.softcap;
  at::Tensor visible = at::zeros({rows, rows}, at::kBool);
  const auto [until, position] = c.until_and_position();
  for (int64_t key = 0; key < rows; ++key) {
    const auto of_key = static_cast<size_t>(key);
    for (int64_t query = key; query < until[of_key]; ++query)
      visible.data_ptr<bool>()[query * rows + key] =
          c.window == 0 || position[static_cast<size_t>(query)] - position[of_key] < c.window;
  }
  scores = scores.masked_fill(visible.logical_not(), -1e300);
  const at::Tensor out = scores.softmax(-1).matmul(v);
  const auto grads =
      torch::autograd::grad({out}, {q, k, v}, {random({rows, c.head_dim}, 4, type).to(at::kDouble)});
  return {out.detach(), scores.logsumexp(-1).detach(), grads[0], grads[1], grads[2]};
}

TEST(Variants, AttentionAgrees) {
  const AttentionCase cases[] = {{1, 16, 0},
                                 {65, 20, 0},
                                 {130, 64, 0},
                                 {200, 33, 17},
                                 {70, 128, 0},
                                 {90, 33, 0, 1.5f},
                                 {130, 64, 40, 0.5f},
                                 {40, 20, 0, 0, {70, 3}},
                                 {90, 33, 50, 0, {65, 100}},
                                 {64, 16, 0, 2, {3, 1, 70}}};
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const AttentionCase& c : cases) {
      const AttentionOut want = reference(type, c);
      for (const CpuKernels* v : variants()) {
        SCOPED_TRACE(testing::Message() << v->name << " " << type << " " << c.length << " " << c.head_dim);
        const AttentionOut got = attend(*v, type, c);
        EXPECT_LT(error_of(got.lse, want.lse), 2e-6);
        EXPECT_LT(error_of(got.out, want.out), tolerance(type));
        EXPECT_LT(error_of(got.dq, want.dq, 1.0), tolerance(type));
        EXPECT_LT(error_of(got.dk, want.dk, 1.0), tolerance(type));
        EXPECT_LT(error_of(got.dv, want.dv, 1.0), tolerance(type));
      }
    }
  }
}

constexpr Activation kActivations[] = {Activation::silu, Activation::gelu, Activation::gelu_tanh,
                                       Activation::relu, Activation::relu_squared};

at::Tensor reference_activation(Activation kind, const at::Tensor& x) {
  if (kind == Activation::silu) return x * x.sigmoid();
  if (kind == Activation::relu) return x.clamp_min(0);
  if (kind == Activation::relu_squared) return x.clamp_min(0).square();
  if (kind == Activation::gelu) return x * ((x / std::sqrt(2.0)).erf() + 1.0) * 0.5;
  return x * ((std::sqrt(2 / M_PI) * (x + 0.044715 * x.pow(3))).tanh() + 1.0) * 0.5;
}

TEST(Variants, ActivationsAndGatedUnitsAgree) {
  for (const Activation kind : kActivations) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t count : {1, 15, 16, 33, 1000}) {
        const at::Tensor gate = random({count}, 1, type) * 5, up = random({count}, 2, type);
        const at::Tensor dy = random({count}, 3, type);
        const at::Tensor g = test::leaf(gate.to(at::kDouble)), u = test::leaf(up.to(at::kDouble));
        const at::Tensor act = reference_activation(kind, g), want = act * u;
        const auto grads = torch::autograd::grad({want}, {g, u}, {dy.to(at::kDouble)}, /*retain_graph=*/true);
        const at::Tensor slope = torch::autograd::grad({act}, {g}, {dy.to(at::kDouble)})[0];
        const double limit = type == at::kFloat ? 2e-6 : 8e-3;
        for (const CpuKernels* v : variants()) {
          SCOPED_TRACE(testing::Message() << v->name << " " << static_cast<int>(kind) << " " << count);
          at::Tensor y = at::empty_like(gate), d_gate = at::empty_like(gate), d_up = at::empty_like(gate);
          v->gated_forward(kind, gate.data_ptr(), up.data_ptr(), y.data_ptr(), type_of(type), count);
          v->gated_backward(kind, dy.data_ptr(), gate.data_ptr(), up.data_ptr(), d_gate.data_ptr(),
                            d_up.data_ptr(), type_of(type), count);
          EXPECT_LT(error_of(y, want), limit);
          EXPECT_LT(error_of(d_gate, grads[0]), limit);
          EXPECT_LT(error_of(d_up, grads[1]), limit);
          v->activation_forward(kind, gate.data_ptr(), y.data_ptr(), type_of(type), count);
          v->activation_backward(kind, dy.data_ptr(), gate.data_ptr(), d_gate.data_ptr(), type_of(type),
                                 count);
          EXPECT_LT(error_of(y, act), limit);
          EXPECT_LT(error_of(d_gate, slope), limit);
        }
      }
    }
  }
}

at::Tensor reference_norm(NormKind kind, const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
  if (kind == NormKind::layer) return at::layer_norm(x, {x.size(-1)}, w, b, 1e-5);
  const at::Tensor hat = x * (x * x).mean(-1, true).add(1e-5).rsqrt();
  return hat * (kind == NormKind::rms_offset ? 1 + w : w);
}

// Sum and norm of three rows, and back, in one table.
void check_norm(const CpuKernels& v, NormKind kind, at::ScalarType type, int64_t width) {
  SCOPED_TRACE(testing::Message() << v.name << " " << static_cast<int>(kind) << " " << type << " " << width);
  const at::Tensor x = random({3, width}, 1, type), branch = random({3, width}, 2, at::kBFloat16);
  const at::Tensor w = random({width}, 3), b = random({width}, 6), dy = random({3, width}, 4, type),
                   d_sum = random({3, width}, 5, type);
  const at::Tensor sum = x + (branch * 0.25).to(type);
  const at::Tensor s = test::leaf(sum.to(at::kDouble)), wd = test::leaf(w.to(at::kDouble));
  const at::Tensor want = reference_norm(kind, s, wd, b.to(at::kDouble));
  const auto grads = torch::autograd::grad({want}, {s, wd}, {dy.to(at::kDouble)});
  at::Tensor got = at::empty_like(x), y = at::empty_like(x), rstd = at::empty({3}), mean = at::empty({3});
  at::Tensor dx = at::empty_like(x), dw = at::zeros({width}), db = at::zeros({width});
  const bool layer = kind == NormKind::layer;
  v.norm_forward({x.data_ptr(), branch.data_ptr(), w.data_ptr(), layer ? b.data_ptr() : nullptr,
                  got.data_ptr(), y.data_ptr(), rstd.data_ptr<float>(), mean.data_ptr<float>(), width, 1,
                  1e-5f, 0.25f, kind, type_of(type), Type::bf16, Type::f32},
                 0, 3);
  v.norm_backward({dy.data_ptr(), d_sum.data_ptr(), got.data_ptr(), w.data_ptr(), rstd.data_ptr<float>(),
                   mean.data_ptr<float>(), dx.data_ptr(), dw.data_ptr<float>(), db.data_ptr<float>(), width,
                   1, kind, type_of(type), Type::f32},
                  0, 3);
  const double limit = type == at::kFloat ? 3e-6 : 8e-3;
  EXPECT_TRUE(same_bits(got, sum));
  EXPECT_LT(error_of(y, want), limit);
  EXPECT_LT(error_of(dx, grads[0] + d_sum.to(at::kDouble), 1.0), limit);
  EXPECT_LT(error_of(dw, grads[1]), 4e-6);
  EXPECT_LT(error_of(db, layer ? dy.to(at::kDouble).sum(0) : at::zeros({width})), 4e-6);
}

TEST(Variants, NormsOfSumsAgree) {
  for (const NormKind kind : {NormKind::rms, NormKind::rms_wide, NormKind::rms_offset, NormKind::layer}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t width : {2, 17, 64, 100}) {
        for (const CpuKernels* v : variants()) check_norm(*v, kind, type, width);
      }
    }
  }
}

TEST(Variants, ScaledCopiesAndSumsAgree) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor a = random({37}, 1), b = random({37}, 2, type);
    for (const CpuKernels* v : variants()) {
      at::Tensor y = at::empty({37}), sum = at::empty({37});
      v->scale(b.data_ptr(), type_of(type), 0.3f, y.data_ptr(), Type::f32, 37);
      EXPECT_TRUE(same_bits(y, b.to(at::kFloat) * 0.3f)) << v->name;
      v->add(a.data_ptr(), Type::f32, b.data_ptr(), type_of(type), 0.3f, sum.data_ptr(), 37);
      EXPECT_LT(error_of(sum, a + (b.to(at::kFloat) * 0.3f).to(type)), 1e-7) << v->name;
    }
  }
}

TEST(Variants, SkinnyProductsAgree) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [rows, outs, k] : {std::tuple{1, 1, 1}, {1, 5, 33}, {4, 9, 576}, {7, 16, 95}}) {
      const at::Tensor x = random({rows, k}, 1, type), w = random({outs, k}, 2, type);
      const at::Tensor bias = random({outs}, 3, type);
      for (const bool biased : {false, true}) {
        at::Tensor want = x.to(at::kDouble).matmul(w.to(at::kDouble).t());
        if (biased) want += bias.to(at::kDouble);
        for (const CpuKernels* v : variants()) {
          at::Tensor y = at::empty({rows, outs});
          Skinny args{x.data_ptr(),
                      w.data_ptr(),
                      biased ? bias.data_ptr() : nullptr,
                      y.data_ptr(),
                      rows,
                      k,
                      k,
                      outs,
                      type_of(type),
                      type_of(type),
                      type_of(type),
                      Type::f32};
          const at::Tensor packed = at::empty({v->skinny_bytes(args)}, at::kByte);
          v->skinny_pack(args, packed.data_ptr(), 0, 1);
          args.packed = packed.data_ptr();
          v->skinny(args, 0, outs);
          EXPECT_LT(error_of(y, want), 2e-6) << v->name << " " << rows << " " << outs << " " << k;
        }
      }
    }
  }
}

}  // namespace
}  // namespace trl::kernels
