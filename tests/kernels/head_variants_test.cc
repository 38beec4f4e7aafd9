// The head's passes over a tile in every instruction set, against double.
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/reference.h"

namespace trl::kernels::head_variants_test {
namespace {

using test::error_of;
using test::leaf;
using test::random;

Type type_of(at::ScalarType type) { return type == at::kFloat ? Type::f32 : Type::bf16; }

struct Case {
  int64_t rows, width, vocab;
  double softcap = 0, scale = 1;
};

struct Passes {
  at::Tensor logits, grad, d_rows;
  std::vector<HeadStats> stats;
};

// scale, spread, own of the gradient as for the loss 0.5 (0.8 nll + 0.2 mean of -log p).
// tiles: how often the same gradient is added to a grad of 1, or where there are several, of 64.
Passes run(const CpuKernels& kernels, const at::Tensor& x, const at::Tensor& weight, at::ScalarType type,
           const Case& c, int tiles = 1) {
  const int64_t pitch = (c.rows + 15) / 16 * 16, stride = (c.width + 15) / 16 * 16;
  Passes p{at::full({c.vocab, pitch}, NAN, type),
           at::full_like(weight, tiles > 1 ? 64 : 1),
           at::zeros({c.rows, stride}),
           {}};
  p.stats.resize(static_cast<size_t>(c.rows));
  HeadTile tile{};
  tile.stopped = [] { return false; };
  tile.rows = c.rows;
  tile.width = c.width;
  tile.vocab = c.vocab;
  tile.pitch = pitch;
  tile.type = type_of(type);
  tile.weight = weight.data_ptr();
  tile.weight_type = tile.grad_type = type_of(weight.scalar_type());
  tile.grad = p.grad.data_ptr();
  tile.logits = p.logits.data_ptr();
  tile.scale = static_cast<float>(c.scale);
  tile.softcap = static_cast<float>(c.softcap);
  const HeadBytes bytes = kernels.head_bytes(tile);
  at::Tensor packed = at::full({bytes.packed / 4 + 1}, NAN), work = at::full({bytes.work / 4 + 1}, NAN);
  packed[bytes.packed / 4] = 7.0f;
  work[bytes.work / 4] = 7.0f;
  tile.packed = packed.data_ptr<float>();
  float* const memory = work.data_ptr<float>();
  const at::Tensor operand = x.to(type).contiguous();
  kernels.head_pack(tile, operand.data_ptr(), memory);
  const int64_t middle = std::min(c.vocab, kHeadBlock);  // two parts
  kernels.head_logits(tile, 0, middle, p.stats.data(), memory);
  kernels.head_logits(tile, middle, c.vocab, p.stats.data(), memory);
  std::vector<float> top(static_cast<size_t>(pitch)), scale(top), spread(top), surprise(top);
  std::vector<HeadTarget> targets;
  for (size_t i = 0; i < p.stats.size(); ++i) {
    top[i] = p.stats[i].top;
    scale[i] = static_cast<float>(c.scale * 0.5 / p.stats[i].sum);
    spread[i] = static_cast<float>(c.scale * 0.1 / static_cast<double>(c.vocab));
    const auto row = static_cast<int64_t>(i);
    targets.push_back({row * 31 % c.vocab, row, static_cast<float>(c.scale * 0.4)});
  }
  const auto place = [](const HeadTarget& t) { return std::pair(t.token, t.row); };
  std::sort(targets.begin(), targets.end(), [&](auto& a, auto& b) { return place(a) < place(b); });
  // Without an entropy in the loss its factors are 0, which is the same as none.
  const HeadFactors factors{top.data(),     scale.data(),
                            spread.data(),  c.softcap > 0 ? surprise.data() : nullptr,
                            targets.data(), targets.data() + targets.size()};
  at::Tensor low = at::full({c.vocab * c.width + 1}, 77, at::kByte);
  if (tiles > 1) tile.low = low.data_ptr<uint8_t>();
  for (int i = 0; i < tiles; ++i) {
    tile.low_from = i > 0;
    tile.low_to = i + 1 < tiles;
    kernels.head_gradient(tile, factors, 0, middle, p.d_rows.data_ptr<float>(), memory);
    kernels.head_gradient(tile, factors, middle, c.vocab, p.d_rows.data_ptr<float>(), memory);
  }
  EXPECT_EQ(low[-1].item<int>(), 77) << kernels.name << " wrote past the lower bits";
  EXPECT_EQ(packed[bytes.packed / 4].item<float>(), 7.0f) << kernels.name << " wrote past its operands";
  EXPECT_EQ(work[bytes.work / 4].item<float>(), 7.0f) << kernels.name << " wrote past its work memory";
  return p;
}

void compare(const CpuKernels& kernels, at::ScalarType weight_type, at::ScalarType type, const Case& c) {
  SCOPED_TRACE(testing::Message() << kernels.name << " " << weight_type << " " << type << " " << c.rows
                                  << " x " << c.width << " x " << c.vocab << " cap " << c.softcap << " scale "
                                  << c.scale);
  const at::Tensor x = random({c.rows, c.width}, 1) * (3 / std::sqrt(static_cast<double>(c.width)));
  const at::Tensor weight = random({c.vocab, c.width}, 2, weight_type);
  const Passes got = run(kernels, x, weight, type, c);
  const at::Tensor xd = leaf(x.to(type).to(at::kDouble)), wd = leaf(weight.to(type).to(at::kDouble));
  at::Tensor z = xd.matmul(wd.t()) * c.scale;
  if (c.softcap > 0) z = (z / c.softcap).tanh() * c.softcap;
  const at::Tensor log_p = z.log_softmax(-1);
  const at::Tensor target = (at::arange(c.rows, at::kLong) * 31).remainder(c.vocab).unsqueeze(1);
  const at::Tensor loss = -(log_p.gather(1, target).sum() * 0.4 + log_p.mean(-1).sum() * 0.1);
  const auto want = torch::autograd::grad({loss}, {xd, wd});
  // bfloat16: logits of up to 10 and their gradients are rounded to 2^-8 of themselves.
  const bool exact = type == at::kFloat;
  EXPECT_LT(error_of(got.logits.narrow(1, 0, c.rows).t(), z, 1.0), exact ? 2e-6 : 4e-3);
  EXPECT_LT(error_of(got.d_rows.narrow(1, 0, c.width), want[0], 0.01), exact ? 4e-6 : 2e-2);
  EXPECT_LT(error_of(got.grad, want[1] + 1.0), weight_type == at::kFloat && exact ? 4e-6 : 8e-3);
  for (int64_t r = 0; r < c.rows; ++r) {
    const HeadStats& s = got.stats[static_cast<size_t>(r)];
    const at::Tensor row = z[r].detach(), p = log_p[r].detach().exp();
    const double limit = exact ? 1e-5 : 3e-2;  // logits of about 10
    EXPECT_NEAR(static_cast<double>(s.top) + std::log(s.sum), row.logsumexp(0).item<double>(), limit);
    EXPECT_NEAR(std::log(s.sum) - s.weighted / s.sum, -(p * log_p[r]).sum().item<double>(), limit);
    EXPECT_NEAR(std::log(s.squares) - 2 * std::log(s.sum), p.square().sum().log().item<double>(), 2 * limit);
    EXPECT_NEAR(s.total / static_cast<double>(c.vocab), row.mean().item<double>(), limit);
    const at::Tensor own = got.logits.narrow(1, r, 1).squeeze(1).to(at::kFloat);
    EXPECT_EQ(s.best, own.eq(own.max()).to(at::kInt).argmax().item<int64_t>());
  }
}

TEST(HeadVariants, LogitsSumsAndGradientsAgree) {
  const Case cases[] = {{1, 1, 1},
                        {1, 24, 5},
                        {5, 33, 97},
                        {17, 64, 192},
                        {64, 100, 300},
                        {65, 64, 201},
                        {130, 576, 150},
                        {33, 40, 250, 1.5},
                        {7, 300, 96},
                        {20, 50, 130, 0, 0.3},
                        {33, 40, 99, 1.5, 0.3}};
  const at::ScalarType types[][2] = {
      {at::kFloat, at::kFloat}, {at::kFloat, at::kBFloat16}, {at::kBFloat16, at::kBFloat16}};
  for (const Case& c : cases) {
    for (const auto& [weight_type, type] : types) {
      for (const CpuKernels* const* v = cpu_variants(); *v != nullptr; ++v)
        compare(**v, weight_type, type, c);
    }
  }
}

// What one tile adds is a fraction of the last bit of the sum.
TEST(HeadVariants, TilesAddTheirShareOfABfloat16Gradient) {
  for (const Case& c : {Case{5, 33, 97}, {17, 64, 192}, {9, 3, 40}}) {
    const at::Tensor x = random({c.rows, c.width}, 1, at::kBFloat16) * 0.3;
    const at::Tensor weight = random({c.vocab, c.width}, 2, at::kBFloat16) * 0.1;
    for (const CpuKernels* const* v = cpu_variants(); *v != nullptr; ++v) {
      const at::Tensor once = run(**v, x, weight.to(at::kFloat), at::kBFloat16, c).grad.to(at::kDouble) - 1;
      const at::Tensor many = run(**v, x, weight, at::kBFloat16, c, 40).grad.to(at::kDouble);
      // Half a unit of bfloat16 (0.5 from 64 on) at the end, and of 2^-9 for each tile.
      EXPECT_LE((many - (64 + 40 * once)).abs().max().item<double>(), 0.25 + 40 * 0x1p-10) << (*v)->name;
      EXPECT_GT((40 * once).abs().max().item<double>(), 2.0);
    }
  }
}

TEST(HeadStats, JoinInAnyPartsIsTheWhole) {
  const auto stats_of = [](const std::vector<double>& z) {
    HeadStats s;
    for (size_t i = 0; i < z.size(); ++i) {
      HeadStats one;
      one.top = static_cast<float>(z[i]);
      one.sum = one.squares = std::isinf(z[i]) ? 0 : 1;
      one.total = z[i];
      one.best = static_cast<int64_t>(i);
      join(s, one);
    }
    return s;
  };
  const HeadStats s = stats_of({0.5, -INFINITY, 2, 2, -3});
  EXPECT_EQ(s.top, 2.0f);
  EXPECT_EQ(s.best, 2);
  EXPECT_NEAR(s.sum, std::exp(-1.5) + 2 + std::exp(-5.0), 1e-12);
  EXPECT_NEAR(s.squares, std::exp(-3.0) + 2 + std::exp(-10.0), 1e-12);
  EXPECT_NEAR(s.weighted, -1.5 * std::exp(-1.5) - 5 * std::exp(-5.0), 1e-12);
  EXPECT_TRUE(std::isnan(stats_of({1, NAN}).sum));
}

}  // namespace
}  // namespace trl::kernels::head_variants_test
