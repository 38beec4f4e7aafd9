// Rows with several targets, and every formula of a token: against autograd in double.
#include "kernels/compare.h"
#include "kernels/gemm/gemm.h"
#include "kernels/head/head.h"
#include "kernels/head/logit_row.h"

namespace trl::kernels::head_targets_test {
namespace {

using test::error_of;
using test::leaf;
using test::parameter;
using test::random;

// Rows 2 and 9 have several tokens, row 9 one of them twice; many rows have none.
const HeadTargets kTargets{{0, 2, 2, 2, 5, 9, 9, 9, 12}, {3, 96, 0, 41, 7, 50, 12, 50, 96}};

using Kind = TokenFormula::Kind;

TokenFormula formula_of(Kind kind) {
  TokenFormula formula{kind, 0.3, {0.2}};
  if (kind != Kind::weighted) return formula;
  std::vector<double>& weights = formula.columns.emplace_back();
  for (int64_t i = 0; i < kTargets.size(); ++i) weights.push_back(0.3 * static_cast<double>(i) - 1);
  return formula;
}

// The term of a target, as the formula's comment has it.
at::Tensor term_in_double(Kind kind, int64_t i, const at::Tensor& log_p, const at::Tensor& mean) {
  switch (kind) {
    case Kind::nll:
      return log_p * -0.3;
    case Kind::smoothed:
      return (log_p * 0.8 + mean * 0.2) * -0.3;
    case Kind::dft:
      return log_p * log_p.detach().exp() * -0.3;
    case Kind::weighted:
    case Kind::given:  // token_formula_test.cc
      break;
  }
  return log_p * ((0.3 * static_cast<double>(i) - 1) * 0.3);
}

struct Reference {
  std::vector<TokenValues> values;
  double loss = 0;
  at::Tensor d_hidden, d_head;
};

Reference reference(const at::Tensor& hidden, const at::Tensor& head, const HeadOptions& options, Kind kind) {
  const at::Tensor h = leaf(hidden.to(at::kDouble)), w = leaf(head.to(at::kDouble));
  at::Tensor z = h.matmul(w.t()) * options.scale;
  if (options.softcap > 0) z = (z / options.softcap).tanh() * options.softcap;
  z = z / options.temperature;
  const at::Tensor log_p = z.log_softmax(-1);
  at::Tensor sum = at::zeros({}, at::kDouble);
  Reference r;
  for (int64_t i = 0; i < kTargets.size(); ++i) {
    const int64_t row = kTargets.rows[static_cast<size_t>(i)],
                  token = kTargets.tokens[static_cast<size_t>(i)];
    const at::Tensor p = log_p[row].exp();
    sum = sum + term_in_double(kind, i, log_p[row][token], log_p[row].mean());
    r.values.push_back({log_p[row][token].item<double>(), log_p[row].mean().item<double>(),
                        -(p * log_p[row]).sum().item<double>(), z[row].mean().item<double>(),
                        p.square().sum().log().item<double>(), z[row].argmax().item<int64_t>() == token});
  }
  const auto grads = torch::autograd::grad({sum}, {h, w});
  r.loss = sum.item<double>();
  r.d_hidden = grads[0];
  r.d_head = grads[1];
  return r;
}

void expect_values(const std::vector<TokenValues>& got, const std::vector<TokenValues>& want, double limit) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(got[i].log_prob, want[i].log_prob, limit);
    EXPECT_NEAR(got[i].mean_log_prob, want[i].mean_log_prob, limit);
    EXPECT_NEAR(got[i].entropy, want[i].entropy, limit);
    EXPECT_NEAR(got[i].mean_logit, want[i].mean_logit, limit);
    EXPECT_NEAR(got[i].log_square, want[i].log_square, limit);
    EXPECT_EQ(got[i].best, want[i].best);
  }
}

void check(Kind kind, int64_t tile, double scale, double softcap, at::ScalarType type,
           double temperature = 1) {
  SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(kind) << " tile " << tile << " scale "
                                  << scale << " cap " << softcap << " " << type);
  HeadOptions options{type, tile, scale, softcap, temperature};
  Parameter head = parameter(random({97, 24}, 2, type), type);
  head.gradient().zero_();
  const at::Tensor hidden = leaf((random({13, 24}, 1) * 0.5).to(type));
  const Reference want = reference(hidden.detach(), *head.read(), options, kind);
  const double limit = type == at::kFloat ? 1e-5 : 3e-2;
  expect_values(head_values(hidden, head, kTargets, options), want.values, limit);
  EXPECT_EQ(head.gradient().abs().max().item<float>(), 0.0f);
  const TokenFormula formula = formula_of(kind);
  for (const double d_loss : {1.0, -0.37}) {
    options.starts_backward = d_loss == 1;
    head.gradient().zero_();
    std::vector<TokenValues> values;
    const at::Tensor loss = head_loss(hidden, head, kTargets, formula, options, &values);
    expect_values(values, want.values, limit);
    EXPECT_NEAR(loss.item<double>(), want.loss, 10 * limit);
    const at::Tensor d_hidden = torch::autograd::grad({loss * d_loss}, {hidden})[0];
    EXPECT_LT(error_of(d_hidden, want.d_hidden * d_loss), limit);
    EXPECT_LT(error_of(head.gradient(), want.d_head * d_loss), limit);
  }
}

TEST(HeadTargets, MayBeSeveralOfARow) {
  for (const test::Path path : {test::Path::fused, test::Path::plain}) {
    const test::PathScope scope(path);
    test::each_table([] {
      for (const Kind kind : {Kind::nll, Kind::smoothed, Kind::dft, Kind::weighted}) {
        for (const int64_t tile : {0, 1, 3}) {
          check(kind, tile, 1, 0, at::kFloat);
          check(kind, tile, 0.4, 1.5, at::kFloat);
          check(kind, tile, 0.4, 1.5, at::kFloat, 0.7);
          check(kind, tile, 1, 0, at::kFloat, 1.3);
          check(kind, tile, 1, 0, at::kBFloat16);
        }
      }
    });
  }
}

// Those of generation differ from the sweep's by its rounding of logits, and nothing else changes.
TEST(HeadTargets, MayHaveTheLogProbabilitiesOfGeneration) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    Parameter head = parameter(random({97, 24}, 2, type), type);
    const at::Tensor hidden = (random({13, 24}, 1) * 0.5).to(type);
    HeadOptions options{type, 3, 0.4, 1.5, 0.7};
    const std::vector<TokenValues> usual = head_values(hidden, head, kTargets, options);
    options.as_generated = true;
    const std::vector<TokenValues> got = head_values(hidden, head, kTargets, options);
    expect_values(got, usual, type == at::kFloat ? 1e-5 : 3e-2);
    for (size_t i = 0; i < got.size(); ++i) {
      const IndependentRows independent;
      const at::Tensor z = head_logits(hidden.narrow(0, kTargets.rows[i], 1), head, options);
      const LogitRow row({z.data_ptr<float>(), 97});
      EXPECT_EQ(
          got[i].log_prob,
          static_cast<double>(LogitSoftmax(row, options.temperature).log_probability(kTargets.tokens[i])));
      EXPECT_EQ(got[i].entropy, usual[i].entropy);
    }
    const test::PathScope plain(test::Path::plain);
    EXPECT_THROW(head_values(hidden, head, kTargets, options), Error);
  }
}

// A sequence's loss: its coefficient is known when all of its tokens have their values.
TEST(HeadTargets, ALossOfSumsAsksForTheValuesFirst) {
  const at::Tensor hidden = leaf(random({13, 24}, 1) * 0.5), h = leaf(hidden.detach().to(at::kDouble));
  Parameter head = parameter(random({97, 24}, 2));
  double sum = 0;
  for (const TokenValues& v : head_values(hidden, head, kTargets, {})) sum += v.log_prob;
  const double slope = 1 / (1 + std::exp(sum));  // of log sigmoid
  const at::Tensor loss = head_loss(hidden, head, kTargets, {Kind::nll, slope}, {});
  const at::Tensor log_p = h.matmul(head.read()->to(at::kDouble).t()).log_softmax(-1);
  at::Tensor wide = at::zeros({}, at::kDouble);
  for (size_t i = 0; i < kTargets.rows.size(); ++i) wide = wide + log_p[kTargets.rows[i]][kTargets.tokens[i]];
  const at::Tensor want = torch::autograd::grad({-at::log_sigmoid(wide)}, {h})[0];
  EXPECT_LT(error_of(torch::autograd::grad({loss}, {hidden})[0], want, 0.0), 1e-5);
}

}  // namespace
}  // namespace trl::kernels::head_targets_test
