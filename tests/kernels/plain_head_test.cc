#include "kernels/compare.h"
#include "kernels/nll_loss.h"

namespace trl::kernels {
namespace {

using test::error_of;
using test::Path;
using test::PathScope;
using test::random;

struct HeadShape {
  int64_t rows, vocab, width, tile;
};
constexpr HeadShape kHeadShapes[] = {{1, 2, 8, 512}, {33, 50, 24, 7}, {64, 997, 24, 16}, {20, 5001, 33, 512}};

// Every third row is ignored.
at::Tensor head_targets(const HeadShape& s) {
  at::Tensor targets = random({s.rows}, 3).abs().mul(1000).fmod(static_cast<double>(s.vocab)).to(at::kInt);
  for (int64_t r = 1; r < s.rows; r += 3) targets[r] = -100;
  return targets;
}

HeadOptions head_options(const HeadShape& s, at::ScalarType compute) {
  HeadOptions options;
  options.compute = compute;
  options.tile_rows = s.tile;
  return options;
}

test::Comparison head_loss_of(const HeadShape& s, const HeadOptions& options, test::NllSums* sums,
                              const test::NllOptions& kind = {}) {
  return {{random({s.rows, s.width}, 1) * 0.5},
          {random({s.vocab, s.width}, 2)},
          [=, targets = head_targets(s)](const auto& x, auto& w) {
            return test::nll_loss(x[0], w[0], targets, 1.0 / static_cast<double>(s.rows), options, sums,
                                  kind);
          }};
}

void compare_head(at::ScalarType compute, double limit) {
  for (const HeadShape& s : kHeadShapes) {
    for (const auto& [smoothing, dft] : {std::pair{0.0, false}, {0.2, false}, {0.0, true}}) {
      SCOPED_TRACE(testing::Message()
                   << s.rows << " x " << s.vocab << ", smoothing " << smoothing << ", dft " << dft);
      const HeadOptions options = head_options(s, compute);
      const test::NllOptions kind{smoothing, dft};
      test::NllSums got, want;
      const test::Comparison c = head_loss_of(s, options, &got, kind);
      test::run(head_loss_of(s, options, &want, kind), Path::plain);
      test::expect_fused_is_plain(c, limit, 2);
      const double rows = static_cast<double>(s.rows);
      test::each_table([&] {
        test::run(c, Path::fused);
        EXPECT_EQ(got.count, want.count);
        EXPECT_NEAR(static_cast<double>(got.correct), static_cast<double>(want.correct),
                    compute == at::kFloat ? 0 : 1);
        EXPECT_NEAR(got.loss, want.loss, limit * rows);
        EXPECT_NEAR(got.nll, want.nll, limit * rows);
        EXPECT_NEAR(got.entropy, want.entropy, limit * rows);
        EXPECT_LT(error_of(at::tensor(got.log_probs), at::tensor(want.log_probs), 1.0), limit);
      });
    }
  }
}
TEST(PlainHeadLoss, FusedIsTheSameInFloat32) { compare_head(at::kFloat, 4e-6); }
TEST(PlainHeadLoss, FusedIsTheSameInBfloat16) { compare_head(at::kBFloat16, 1.2e-2); }

TEST(PlainHeadLoss, FusedIsTheSameWithScaledAndCappedLogits) {
  for (const double softcap : {0.0, 2.0}) {
    HeadOptions options = head_options(kHeadShapes[1], at::kFloat);
    options.scale = 0.3;
    options.softcap = softcap;
    test::expect_fused_is_plain(head_loss_of(kHeadShapes[1], options, nullptr, {0.2}), 4e-6, 2);
  }
}

TEST(PlainHeadLoss, GradientsAreDerivatives) {
  const HeadShape s{14, 41, 12, 5};
  for (const double smoothing : {0.0, 0.3}) {
    HeadOptions options = head_options(s, at::kFloat);
    options.scale = 0.3;
    test::expect_gradients(head_loss_of(s, options, nullptr, {smoothing}), 1e-3);
    HeadOptions wide = options;
    wide.compute = at::kDouble;
    test::expect_plain_gradients_in_double(head_loss_of(s, wide, nullptr, {smoothing}));
  }
}

TEST(PlainHeadLoss, WithoutATargetIsZeroAndWrongOnesAreErrors) {
  const PathScope plain(Path::plain);
  test::Parameter head = test::parameter(random({6, 8}, 2));
  const at::Tensor hidden = test::leaf(random({4, 8}, 1));
  test::NllSums sums;
  const at::Tensor loss = test::nll_loss(hidden, head, at::full({4}, -100, at::kInt), 1.0, {}, &sums);
  EXPECT_EQ(loss.item<float>(), 0.0f);
  EXPECT_EQ(torch::autograd::grad({loss}, {hidden})[0].abs().sum().item<float>(), 0.0f);
  EXPECT_THROW(test::nll_loss(hidden, head, at::full({4}, 6, at::kInt), 1.0, {}, nullptr), Error);
  EXPECT_THROW((test::nll_loss(hidden, head, at::zeros({4}, at::kInt), 1.0, {}, nullptr) * 2.0).backward(),
               Error);
}

TEST(PlainHeadLogits, AreTheSame) {
  test::Parameter head = test::parameter(random({203, 50}, 1));
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int64_t rows : {1, 5, 40}) {
      const at::Tensor hidden = random({rows, 50}, 2) * 0.3;
      const PathScope scope(Path::plain);
      const HeadOptions options{.compute = type, .scale = 0.3, .softcap = 5};
      const at::Tensor want = head_logits(hidden, head, options);
      EXPECT_EQ(want.scalar_type(), at::kFloat);
      const PathScope fused(Path::fused);
      test::each_table([&] {
        EXPECT_LT(error_of(head_logits(hidden, head, options), want), type == at::kFloat ? 2e-6 : 4e-3)
            << rows;
      });
    }
  }
}

}  // namespace
}  // namespace trl::kernels
