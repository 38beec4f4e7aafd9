// The formulas of SFT against the recorded values of TRL's losses.
#include "kernels/head/token_formula.h"

#include "kernels/head/head.h"
#include "kernels/path.h"
#include "support/golden.h"

namespace trl::kernels::token_formula_test {
namespace {

using Kind = TokenFormula::Kind;

at::Tensor ints(const std::vector<int32_t>& values) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kInt);
  std::copy(values.begin(), values.end(), tensor.data_ptr<int32_t>());
  return tensor;
}

// Two classes with log-probabilities l and log(1 - e^l) through an identity head give back l for the first.
TEST(TokenFormula, IsTheRecordedLoss) {
  TRL_NEED_GOLDEN("losses/sft.json");
  int cases = 0;
  for (const base::Json& c : test::golden_json("losses/sft.json")["cases"]) {
    ++cases;
    const bool dft = c["config"]["loss_type"] == "dft";
    std::vector<int32_t> target;
    std::vector<float> rows;
    int64_t kept = 0;
    for (size_t b = 0; b < c["label_mask"].size(); ++b) {
      for (size_t t = 0; t < c["label_mask"][b].size(); ++t) {
        const bool counts = c["label_mask"][b][t].get<int>() != 0;
        const double log_p = counts ? c["per_token_logps"][b][t].get<double>() : -1.0;
        target.push_back(counts ? 0 : -100);
        rows.push_back(static_cast<float>(log_p));
        rows.push_back(static_cast<float>(std::log(-std::expm1(log_p))));
        kept += counts;
      }
    }
    const auto count = static_cast<int64_t>(target.size());
    at::Tensor hidden = at::empty({count, 2}, at::kFloat);
    std::copy(rows.begin(), rows.end(), hidden.data_ptr<float>());
    hidden.requires_grad_();
    Parameter head("lm_head.weight", at::eye(2));
    head.begin_training(at::zeros({2, 2}));
    const bool counted = c["num_items_in_batch"].is_null();
    const double items = counted ? static_cast<double>(kept) : c["num_items_in_batch"].get<double>();
    const HeadTargets targets = head_targets(ints(target));
    EXPECT_EQ(targets.size(), kept);
    const at::Tensor loss =
        head_loss(hidden, head, targets, {dft ? Kind::dft : Kind::nll, 1 / std::max(items, 1.0)}, {});
    EXPECT_TRUE(test::close(loss.item<double>(), c["loss"], test::limits::function)) << loss.item<double>();

    // d/d logits of the target: (p - 1) / items, with dft times p; 0 where nothing is trained
    loss.backward();
    for (int64_t i = 0; i < count; ++i) {
      const bool trained = target[static_cast<size_t>(i)] == 0;
      const double p = std::exp(static_cast<double>(rows[static_cast<size_t>(2 * i)]));
      const double weight = trained ? (dft ? p : 1.0) / items : 0.0;
      EXPECT_NEAR(hidden.grad()[i][0].item<double>(), weight * (p - 1), 1e-6);
      EXPECT_NEAR(hidden.grad()[i][1].item<double>(), weight * (1 - p), 1e-6);
    }
  }
  EXPECT_EQ(cases, 6);
}

// (1 - e) nll / items + e * (sum of -log p over positions and vocabulary) / (items * vocabulary), from
// torch's autograd in double; the statistics are those without smoothing.
TEST(TokenFormula, SmoothsLabels) {
  constexpr int64_t kRows = 9, kWidth = 6, kVocab = 11;
  const double share = 0.3, items = 5;
  at::manual_seed(1);
  const at::Tensor hidden = at::randn({kRows, kWidth}).requires_grad_();
  Parameter head("lm_head.weight", at::randn({kVocab, kWidth}));
  head.begin_training(at::zeros({kVocab, kWidth}));
  const at::Tensor targets = ints({3, -100, 0, 10, -100, 7, 7, 1, -100});
  HeadOptions options;
  options.tile_rows = 4;
  std::vector<TokenValues> values;
  const at::Tensor loss =
      head_loss(hidden, head, head_targets(targets), {Kind::smoothed, 1 / items, {share}}, options, &values);
  loss.backward();
  double log_prob = 0;
  for (const TokenValues& v : values) log_prob += v.log_prob;

  const at::Tensor h = hidden.detach().to(at::kDouble).requires_grad_();
  const at::Tensor w = head.read()->to(at::kDouble).requires_grad_();
  const at::Tensor logp = h.matmul(w.t()).log_softmax(-1);
  const at::Tensor kept = targets.ne(-100).to(at::kDouble);
  const at::Tensor at_target = logp.gather(1, targets.clamp_min(0).to(at::kLong).unsqueeze(1)).squeeze(1);
  const at::Tensor nll = -(at_target * kept).sum();
  const at::Tensor want = ((1 - share) * nll - share * (logp.mean(-1) * kept).sum()) / items;
  want.backward();
  EXPECT_NEAR(loss.item<double>(), want.item<double>(), 1e-6);
  EXPECT_NEAR(log_prob, -nll.item<double>(), 1e-5);
  EXPECT_LT((hidden.grad() - h.grad()).abs().max().item<double>(), 1e-6);
  EXPECT_LT((head.gradient() - w.grad()).abs().max().item<double>(), 1e-6);
}

// a log p^2 + b H, H being the entropy of the row.
class SquareAndEntropy final : public TargetLoss {
 public:
  static double a(size_t target) { return 0.3 - 0.1 * static_cast<double>(target); }
  static double b(size_t target) { return 0.2 + 0.05 * static_cast<double>(target); }
  TokenTerm term(size_t t, double log_prob, double entropy) const override {
    return {a(t) * log_prob * log_prob + b(t) * entropy, 2 * a(t) * log_prob, 0, b(t)};
  }
  bool by_entropy() const override { return true; }
};

// Against torch's autograd in double, by both back ends, with all that is done to logits.
TEST(TokenFormula, TakesTermsThatDependOnTheEntropy) {
  constexpr int64_t kRows = 9, kWidth = 6, kVocab = 150;
  const SquareAndEntropy given;
  const HeadTargets targets{{0, 0, 2, 3, 3, 7}, {5, 149, 0, 64, 64, 11}};
  for (const Path path : {Path::fused, Path::plain}) {
    for (const double softcap : {0.0, 5.0}) {
      const PathScope scope(path);
      at::manual_seed(1);
      const at::Tensor hidden = at::randn({kRows, kWidth}).requires_grad_();
      Parameter head("lm_head.weight", at::randn({kVocab, kWidth}));
      head.begin_training(at::zeros({kVocab, kWidth}));
      HeadOptions options;
      options.tile_rows = 2;
      options.scale = 0.7;
      options.softcap = softcap;
      options.temperature = 0.9;
      TokenFormula formula{.kind = Kind::given, .scale = 0.5, .given = &given};
      const at::Tensor loss = head_loss(hidden, head, targets, formula, options);
      loss.backward();

      const at::Tensor h = hidden.detach().to(at::kDouble).requires_grad_();
      const at::Tensor w = head.read()->to(at::kDouble).requires_grad_();
      at::Tensor logits = h.matmul(w.t()) * options.scale;
      if (softcap > 0) logits = (logits / softcap).tanh() * softcap;
      const at::Tensor log_p = (logits / options.temperature).log_softmax(-1);
      const at::Tensor entropy = -(log_p * log_p.exp()).sum(-1);
      at::Tensor want = at::zeros({}, at::kDouble);
      for (size_t t = 0; t < targets.rows.size(); ++t) {
        const at::Tensor own = log_p[targets.rows[t]][targets.tokens[t]];
        want = want + SquareAndEntropy::a(t) * own * own + SquareAndEntropy::b(t) * entropy[targets.rows[t]];
      }
      want = want * formula.scale;
      want.backward();
      EXPECT_NEAR(loss.item<double>(), want.item<double>(), 2e-6);
      EXPECT_LT((hidden.grad() - h.grad()).abs().max().item<double>(), 2e-6);
      EXPECT_LT((head.gradient() - w.grad()).abs().max().item<double>(), 2e-6);
    }
  }
}

TEST(TokenFormula, WithoutATargetIsZeroAndFinite) {
  at::Tensor hidden = at::ones({3, 4}).requires_grad_();
  Parameter head("lm_head.weight", at::ones({5, 4}));
  head.begin_training(at::zeros({5, 4}));
  const at::Tensor loss = head_loss(hidden, head, HeadTargets(), {}, {});
  EXPECT_EQ(loss.item<float>(), 0.0f);
  loss.backward();
  EXPECT_EQ(hidden.grad().abs().max().item<float>(), 0.0f);
  EXPECT_EQ(head.gradient().abs().max().item<float>(), 0.0f);
}

}  // namespace
}  // namespace trl::kernels::token_formula_test
