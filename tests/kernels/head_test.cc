#include "kernels/gemm/gemm.h"
#include "kernels/nll_loss.h"
#include "kernels/path.h"
#include "kernels/reference.h"
#include "tensor/counting_host.h"

namespace trl::kernels {
namespace {

using test::check_gradient;
using test::error_of;
using test::leaf;
using test::parameter;
using test::random;
using test::same_bits;
using test::Threads;

struct Reference {
  double nll = 0, entropy = 0;
  int64_t correct = 0, count = 0;
  at::Tensor log_probs, d_hidden, d_head;
};

Reference reference(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& targets, double scale,
                    const HeadOptions& options = {}) {
  const at::Tensor h = leaf(hidden.to(at::kDouble)), w = leaf(head.to(at::kDouble));
  const at::Tensor valid = targets.ne(-100);
  at::Tensor logits = h.matmul(w.t()) * options.scale;
  if (options.softcap > 0) logits = (logits / options.softcap).tanh() * options.softcap;
  const at::Tensor logp = logits.log_softmax(-1);
  const at::Tensor index = targets.clamp_min(0).to(at::kLong).unsqueeze(1);
  const at::Tensor at_target = logp.gather(1, index).squeeze(1) * valid.to(at::kDouble);
  const auto grads = torch::autograd::grad({-at_target.sum() * scale}, {h, w});
  Reference r;
  r.nll = -at_target.sum().item<double>();
  r.entropy = (-(logp.exp() * logp).sum(-1) * valid.to(at::kDouble)).sum().item<double>();
  r.correct = logits.argmax(-1).eq(targets).logical_and(valid).sum().item<int64_t>();
  r.count = valid.sum().item<int64_t>();
  r.log_probs = at_target.detach();
  r.d_hidden = grads[0];
  r.d_head = grads[1];
  return r;
}

void check(int64_t rows, int64_t vocab, int64_t tile, double logit_size, double softcap = 0,
           double scale = 1) {
  const at::Tensor hidden = leaf(random({rows, 24}, 1) * logit_size);
  Parameter head = parameter(random({vocab, 24}, 2));
  at::Tensor targets = random({rows}, 3).abs().mul(1000).fmod(static_cast<double>(vocab)).to(at::kInt);
  for (int64_t r = 0; r < rows; r += 3) targets[r] = -100;
  if (rows > 1) targets[1] = static_cast<int32_t>(vocab - 1);
  HeadOptions options{at::kFloat, tile};
  options.softcap = softcap;
  options.scale = scale;
  const Reference want = reference(hidden.detach(), *head.read(), targets, 0.25, options);
  head.gradient().fill_(0.125);
  test::NllSums sums;
  const at::Tensor loss = test::nll_loss(hidden, head, targets, 0.25, options, &sums);
  SCOPED_TRACE(testing::Message() << rows << " x " << vocab << " tile " << tile);
  EXPECT_EQ(sums.count, want.count);
  EXPECT_EQ(sums.correct, want.correct);
  EXPECT_NEAR(sums.nll, want.nll, 2e-6 * std::max(1.0, std::abs(want.nll)));
  EXPECT_NEAR(sums.entropy, want.entropy, 4e-6 * std::max(1.0, std::abs(want.entropy)));
  EXPECT_EQ(loss.item<float>(), static_cast<float>(sums.nll * 0.25));
  ASSERT_EQ(static_cast<int64_t>(sums.log_probs.size()), rows);
  const at::Tensor log_probs = at::tensor(sums.log_probs);
  EXPECT_LT(error_of(log_probs, want.log_probs, 1.0), 2e-6);
  const at::Tensor d_hidden = torch::autograd::grad({loss}, {hidden})[0];
  EXPECT_LT(error_of(d_hidden, want.d_hidden), 4e-6);
  EXPECT_LT(error_of(head.gradient(), want.d_head + 0.125), 4e-6);

  // Without a gradient: the same sums, and the head's gradient is left alone.
  const at::Tensor before = head.gradient().clone();
  test::NllSums plain;
  const at::NoGradGuard guard;
  test::nll_loss(hidden, head, targets, 0.25, options, &plain);
  EXPECT_EQ(plain.nll, sums.nll);
  EXPECT_EQ(plain.entropy, sums.entropy);
  EXPECT_TRUE(same_bits(head.gradient(), before));
}

TEST(HeadLoss, MatchesLogSoftmax) {
  check(1, 5, 512, 0.2);
  check(10, 2, 0, 0.2);
  check(33, 50, 7, 0.2);
  check(64, 997, 16, 0.2);
  check(20, 9001, 0, 0.2);
  check(40, 300, 512, 5.0);  // nearly all of the weight on one token
}

// Rows of an adapter count in the places of the head's, and have the gradients of those, which have none.
void check_own_rows(int64_t tile, at::ScalarType type, double softcap) {
  const at::Tensor hidden = leaf(random({20, 24}, 1).to(type));
  Parameter head = parameter(random({97, 24}, 2), type), own = parameter(random({3, 24}, 4), type);
  const OwnRows rows{&own, {90, 7, 31}};
  const at::Tensor ids = at::tensor({90, 7, 31}, at::kLong);
  at::Tensor targets = at::arange(20, at::kInt).mul(7).remainder(97);
  HeadOptions options{type, tile};
  options.softcap = softcap;
  const at::Tensor whole = head.read()->index_copy(0, ids, *own.read());
  const Reference want = reference(hidden.detach(), whole, targets, 0.25, options);
  options.own_rows = &rows;
  head.gradient().fill_(0.125);
  own.gradient().zero_();
  test::NllSums sums;
  const at::Tensor loss = test::nll_loss(hidden, head, targets, 0.25, options, &sums);
  const double limit = type == at::kFloat ? 4e-6 : 2e-2;
  EXPECT_LT(error_of(at::tensor(sums.log_probs), want.log_probs, 1.0), limit);
  EXPECT_LT(error_of(torch::autograd::grad({loss}, {hidden})[0], want.d_hidden), limit);
  EXPECT_LT(error_of(own.gradient(), want.d_head.index_select(0, ids)), limit);
  EXPECT_LT(error_of(head.gradient(), want.d_head.index_fill(0, ids, 0) + 0.125), limit);
  const at::Tensor logits = head_logits(hidden.detach(), head, options);
  Parameter patched = parameter(whole, type);
  options.own_rows = nullptr;
  EXPECT_LT(error_of(logits, head_logits(hidden.detach(), patched, options)), limit);
}

TEST(HeadLoss, RowsOfAnAdapterStandInPlaceOfTheHeads) {
  for (const Path path : {Path::fused, Path::plain}) {
    const PathScope scope(path);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      check_own_rows(0, type, 0);
      check_own_rows(7, type, 2);
    }
  }
}

TEST(HeadLoss, SoftcapMatchesTheFormula) {
  check(33, 50, 7, 0.2, 3.0);
  check(20, 997, 0, 1.0, 0.5);
  check(40, 300, 16, 5.0, 30.0);
}

TEST(HeadLoss, LogitsMayBeScaled) {
  check(37, 1000, 8, 1, 0, 0.125);
  check(37, 1000, 8, 3, 1.5, 0.3);
}

TEST(HeadLoss, GradientIsTheSlope) {
  for (const double softcap : {0.0, 2.0}) {
    Parameter head = parameter(random({37, 12}, 2));
    const at::Tensor hidden = random({9, 12}, 1) * 0.4, targets = at::arange(9, at::kInt), in = leaf(hidden);
    HeadOptions options;
    options.softcap = softcap;
    const auto loss = [&](const at::Tensor& at) {
      return test::nll_loss(at, head, targets, 1.0, options, nullptr);
    };
    check_gradient(hidden, at::ones({}), torch::autograd::grad({loss(in)}, {in})[0], loss);
    const at::Tensor d_head = head.gradient().clone();
    check_gradient(head.read()->clone(), at::ones({}), d_head, [&](const at::Tensor& at) {
      Parameter moved("weight", at.to(at::kFloat).contiguous());
      return test::nll_loss(hidden, moved, targets, 1.0, options, nullptr);
    });
  }
}

// The head is rounded to the type of the product piece by piece.
TEST(HeadLoss, AConvertedHeadComesInPieces) {
  const at::Tensor hidden = leaf(random({20, 64}, 1) * 0.3);
  Parameter head = parameter(random({40000, 64}, 2) * 0.3);
  const at::Tensor targets = at::arange(20, at::kInt) * 2000;
  const Reference want =
      reference(hidden.detach().to(at::kBFloat16), head.read()->to(at::kBFloat16), targets, 0.05);
  test::NllSums sums;
  const at::Tensor loss = test::nll_loss(hidden, head, targets, 0.05, {at::kBFloat16}, &sums);
  EXPECT_NEAR(sums.nll / 20, want.nll / 20, 4e-3);
  EXPECT_LT(error_of(torch::autograd::grad({loss}, {hidden})[0], want.d_hidden, 0.0), 1e-2);
  EXPECT_LT(error_of(head.gradient(), want.d_head, 0.0), 1e-2);
}

// Qwen2.5's vocabulary and more rows than fit at once; a bfloat16 gradient takes a byte more for each
// element.
TEST(HeadLoss, WorkMemoryStaysWithin64MiB) {
  struct Types {
    at::ScalarType weight, compute;
    int64_t width;
  };
  for (const Types& t : {Types{at::kBFloat16, at::kBFloat16, 896},
                         {at::kFloat, at::kBFloat16, 448},
                         {at::kFloat, at::kFloat, 448}}) {
    test::CountingHost host;
    tensor::set_host(&host);
    {
      const Threads two(2);
      Parameter head = parameter(at::zeros({151936, t.width}, t.weight), t.weight);
      const at::Tensor hidden = leaf(at::ones({260, t.width}, t.weight));
      test::NllSums sums;
      test::nll_loss(hidden, head, at::zeros({260}, at::kInt), 1.0, {t.compute}, &sums);
      EXPECT_NEAR(sums.nll, 260 * std::log(151936.0), 1e-2);
    }
    const int64_t low = t.weight == at::kBFloat16 ? 151936 * t.width : 0;
    EXPECT_GT(host.counter.peak() - low, int64_t{40} << 20);
    EXPECT_LE(host.counter.peak() - low, int64_t{64} << 20) << t.weight << " " << t.compute;
    tensor::set_host(nullptr);
  }
}

TEST(HeadLoss, Bfloat16KeepsGradientsCloseAndSumsInFloat32) {
  const at::Tensor hidden = leaf(random({50, 64}, 1) * 0.3);
  Parameter head = parameter(random({700, 64}, 2) * 0.3);
  at::Tensor targets = random({50}, 3).abs().mul(100).to(at::kInt);
  targets[7] = -100;
  const Reference want = reference(hidden.detach(), *head.read(), targets, 0.02);
  test::NllSums sums;
  const at::Tensor loss = test::nll_loss(hidden, head, targets, 0.02, {at::kBFloat16, 16}, &sums);
  // Logits of about 1.4 are rounded to 2^-8 of themselves; errors average out over 49 rows.
  EXPECT_NEAR(sums.nll / 49, want.nll / 49, 2e-3);
  EXPECT_NEAR(sums.entropy / 49, want.entropy / 49, 2e-3);
  EXPECT_LT(error_of(torch::autograd::grad({loss}, {hidden})[0], want.d_hidden, 0.0), 1e-2);
  EXPECT_LT(error_of(head.gradient(), want.d_head, 0.0), 1e-2);
}

// Three hundred tiles add to one gradient: in bfloat16 the sum would stand still before its end.
TEST(HeadLoss, TilesOfABfloat16GradientAreSummedWider) {
  const at::Tensor hidden = leaf((random({1200, 40}, 1).abs() + 0.5).to(at::kBFloat16));
  const at::Tensor targets = at::full({1200}, 7, at::kInt);
  for (const Path path : {Path::fused, Path::plain}) {
    const PathScope scope(path);
    Parameter head = parameter(random({50, 40}, 2, at::kBFloat16) * 0.02, at::kBFloat16);
    const Reference want = reference(hidden.detach(), *head.read(), targets, 1.0);
    HeadOptions options{at::kBFloat16, 4};
    test::nll_loss(hidden, head, targets, 1.0, options, nullptr);
    EXPECT_LT(error_of(head.gradient(), want.d_head, 0.0), 3e-3);
    test::nll_loss(hidden, head, targets, 1.0, options, nullptr);  // a second micro-batch
    EXPECT_LT(error_of(head.gradient(), want.d_head * 2, 0.0), 5e-3);
  }
}

TEST(HeadLoss, NothingToLearnIsZero) {
  const at::Tensor hidden = leaf(random({4, 8}, 1));
  Parameter head = parameter(random({6, 8}, 2));
  test::NllSums sums;
  const at::Tensor loss = test::nll_loss(hidden, head, at::full({4}, -100, at::kInt), 1.0, {}, &sums);
  EXPECT_EQ(loss.item<float>(), 0.0f);
  EXPECT_EQ(sums.count, 0);
  EXPECT_EQ(torch::autograd::grad({loss}, {hidden})[0].abs().sum().item<float>(), 0.0f);
  EXPECT_EQ(head.gradient().abs().sum().item<float>(), 0.0f);
}

TEST(HeadLoss, OnlyTheFirstOfEqualMaximaCounts) {
  Parameter head = parameter(at::tensor({1.f, 1.f, 0.f, 1.f}).reshape({4, 1}));
  const at::NoGradGuard guard;
  test::NllSums sums;
  test::nll_loss(at::ones({4, 1}), head, at::tensor({0, 1, 2, 3}, at::kInt), 1.0, {}, &sums);
  EXPECT_EQ(sums.correct, 1);
}

TEST(HeadLoss, BackwardStartsHereIfItSaysSo) {
  const at::Tensor hidden = leaf(random({4, 8}, 1));
  Parameter head = parameter(random({6, 8}, 2));
  const at::Tensor loss = test::nll_loss(hidden, head, at::zeros({4}, at::kInt), 1.0, {}, nullptr) * 2.0;
  EXPECT_THROW(loss.backward(), Error);
}

// The gradients are those of the loss times the incoming gradient, even if that is tiny or zero.
TEST(HeadLoss, BackwardTakesAnyGradient) {
  const at::Tensor targets = at::arange(20, at::kInt).mul(7).remainder(97);
  for (const Path path : {Path::fused, Path::plain}) {
    const PathScope scope(path);
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const auto gradients = [&](double d_loss, bool starts_backward) {
        const at::Tensor hidden = leaf(random({20, 24}, 1).to(type));
        Parameter head = parameter(random({97, 24}, 2), type), own = parameter(random({2, 24}, 4), type);
        const OwnRows rows{&own, {90, 7}};
        own.gradient().zero_();
        HeadOptions options{type, 7};
        options.own_rows = &rows;
        const at::Tensor loss = test::nll_loss(hidden, head, targets, 1, options, nullptr,
                                               {.smoothing = 0.1, .starts_backward = starts_backward});
        EXPECT_TRUE(starts_backward || head.gradient().eq(0).all().item<bool>());
        const at::Tensor d_hidden = torch::autograd::grad({loss * d_loss}, {hidden})[0];
        return std::vector<at::Tensor>{d_hidden, head.gradient().clone(), own.gradient().clone()};
      };
      const std::vector<at::Tensor> want = gradients(1, true), same = gradients(1, false);
      for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(same[i], want[i])) << i;
      for (const double d_loss : {0.0, 1e-3, -3.0}) {
        const std::vector<at::Tensor> got = gradients(d_loss, false);
        for (size_t i = 0; i < want.size(); ++i)
          EXPECT_LE(error_of(got[i], want[i].to(at::kDouble) * d_loss, 1e-9),
                    type == at::kFloat ? 4e-6 : 2e-2)
              << static_cast<int>(path) << " " << d_loss << " " << i;
      }
    }
  }
}

TEST(HeadLoss, ATargetOutsideTheVocabularyIsAnError) {
  Parameter head = parameter(random({6, 8}, 2));
  EXPECT_THROW(test::nll_loss(random({1, 8}, 1), head, at::full({1}, 6, at::kInt), 1.0, {}, nullptr), Error);
  EXPECT_THROW(test::nll_loss(random({1, 8}, 1), head, at::full({1}, -1, at::kInt), 1.0, {}, nullptr), Error);
}

TEST(HeadLoss, SameBitsForAnyNumberOfThreads) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    std::vector<at::Tensor> grads;
    std::vector<double> sums;
    for (const int threads : {1, 2, 3}) {
      const Threads scoped(threads);
      const at::Tensor hidden = leaf(random({70, 32}, 1));
      Parameter head = parameter(random({1001, 32}, 2));
      test::NllSums s;
      const at::Tensor targets = at::arange(70, at::kInt);
      const at::Tensor loss = test::nll_loss(hidden, head, targets, 1.0, {type, 32}, &s);
      grads.push_back(torch::autograd::grad({loss}, {hidden})[0]);
      grads.push_back(head.gradient());
      sums.push_back(s.nll + s.entropy);
    }
    for (size_t i : {2u, 4u}) {
      EXPECT_TRUE(same_bits(grads[i], grads[0]));
      EXPECT_TRUE(same_bits(grads[i + 1], grads[1]));
      EXPECT_EQ(sums[i / 2], sums[0]);
    }
  }
}

TEST(HeadLogits, FewAndManyRows) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Parameter head = parameter(random({203, 50}, 1, type));
    for (const int64_t rows : {1, 3, 4, 5, 16, 17, 40}) {
      const at::Tensor hidden = random({rows, 50}, 2, type);
      const at::Tensor logits = head_logits(hidden, head, {.compute = type});
      EXPECT_EQ(logits.scalar_type(), at::kFloat);
      EXPECT_LT(error_of(logits, hidden.to(at::kDouble).matmul(head.read()->to(at::kDouble).t())), 2e-6)
          << rows;
    }
  }
}

// Values in bfloat16 are read as they are: no hidden state and no logit is rounded to their type.
TEST(HeadLogits, AreInFloat32FromAHeadInBfloat16) {
  Parameter head = parameter(random({203, 50}, 1, at::kBFloat16)), own = parameter(random({2, 50}, 4));
  const OwnRows rows{&own, {90, 7}};
  const at::Tensor hidden = random({40, 50}, 2);
  for (const bool patched : {false, true}) {
    HeadOptions options{.compute = at::kFloat};
    at::Tensor values = head.read()->to(at::kDouble);
    if (patched) {
      options.own_rows = &rows;
      values = values.index_copy(0, at::tensor({90, 7}, at::kLong), own.read()->to(at::kDouble));
    }
    const at::Tensor want = hidden.to(at::kDouble).matmul(values.t());
    for (const int64_t count : {1, 16, 40})
      EXPECT_LT(error_of(head_logits(hidden.narrow(0, 0, count), head, options), want.narrow(0, 0, count)),
                2e-6)
          << count;
    const IndependentRows independent;
    const at::Tensor all = head_logits(hidden, head, options);
    EXPECT_LT(error_of(all, want), 2e-6);
    for (const int64_t row : {0, 21, 39})
      EXPECT_TRUE(same_bits(head_logits(hidden.narrow(0, row, 1), head, options), all.narrow(0, row, 1)));
  }
}

// The gradient of the head has the type of its values.
TEST(HeadLoss, IsInFloat32FromAHeadInBfloat16) {
  const at::Tensor hidden = leaf(random({40, 24}, 1).to(at::kBFloat16));
  Parameter head = parameter(random({97, 24}, 2, at::kBFloat16), at::kBFloat16);
  head.gradient().zero_();
  const at::Tensor targets = at::arange(40, at::kInt).mul(7).remainder(97);
  const Reference want = reference(hidden.detach(), *head.read(), targets, 0.25);
  test::NllSums sums;
  const at::Tensor loss = test::nll_loss(hidden, head, targets, 0.25, {at::kFloat, 16}, &sums);
  EXPECT_LT(error_of(at::tensor(sums.log_probs), want.log_probs, 1.0), 2e-6);
  EXPECT_LT(error_of(torch::autograd::grad({loss}, {hidden})[0], want.d_hidden), 1e-2);
  EXPECT_LT(error_of(head.gradient(), want.d_head), 1e-2);
}

TEST(HeadLogits, AreScaledAndCapped) {
  Parameter head = parameter(random({203, 50}, 1));
  for (const int64_t rows : {1, 40}) {
    const at::Tensor hidden = random({rows, 50}, 2);
    HeadOptions options{.compute = at::kFloat, .scale = 0.3, .softcap = 2};
    const at::Tensor products = hidden.to(at::kDouble).matmul(head.read()->to(at::kDouble).t());
    const at::Tensor want = (products * 0.3 / 2).tanh() * 2;
    EXPECT_LT(error_of(head_logits(hidden, head, options), want), 2e-6);
    options.softcap = 0;
    EXPECT_LT(error_of(head_logits(hidden, head, options), products * 0.3), 2e-6);
  }
}

}  // namespace
}  // namespace trl::kernels
