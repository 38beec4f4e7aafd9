// The SFT loss against the recorded values of TRL's, and its shift of labels.
#include "loss/sft.h"

#include "support/golden.h"

namespace trl::loss {
namespace {

at::Tensor ints(const std::vector<int32_t>& values) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kInt);
  std::copy(values.begin(), values.end(), tensor.data_ptr<int32_t>());
  return tensor;
}

std::vector<int32_t> list(const at::Tensor& tensor) {
  return {tensor.data_ptr<int32_t>(), tensor.data_ptr<int32_t>() + tensor.numel()};
}

TEST(ShiftLabels, stays_inside_each_document) {
  kernels::Segments segments;
  segments.cu_seqlens = {0, 3, 3, 4, 8};
  const at::Tensor targets = shift_labels(ints({1, 2, 3, 4, -100, 6, -100, 8}), segments);
  EXPECT_EQ(list(targets), (std::vector<int32_t>{2, 3, -100, -100, 6, -100, 8, -100}));
  EXPECT_EQ(count_targets(targets), 4);
}

TEST(ShiftLabels, of_nothing) {
  kernels::Segments segments;
  segments.cu_seqlens = {0};
  EXPECT_EQ(shift_labels(ints({}), segments).numel(), 0);
  EXPECT_EQ(count_targets(ints({})), 0);
}

// Two classes with log-probabilities l and log(1 - e^l) through an identity head give back l for the first.
TEST(SftNll, golden) {
  TRL_NEED_GOLDEN("losses/sft.json");
  int cases = 0;
  for (const base::Json& c : test::golden_json("losses/sft.json")["cases"]) {
    if (c["config"]["loss_type"] != "nll") continue;
    ++cases;
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
    kernels::Parameter head;
    head.value = at::eye(2);
    head.grad = at::zeros({2, 2});
    const bool counted = c["num_items_in_batch"].is_null();
    const double items = counted ? static_cast<double>(kept) : c["num_items_in_batch"].get<double>();
    const SftLoss result = sft_nll(hidden, head, ints(target), items, {});
    EXPECT_TRUE(test::close(result.loss.item<double>(), c["loss"], 1e-6, 1e-5)) << result.loss.item<double>();
    EXPECT_EQ(result.sums.count, kept);

    result.loss.backward();  // d/d logits of the target: (p - 1) / items; 0 where nothing is trained
    for (int64_t i = 0; i < count; ++i) {
      const bool trained = target[static_cast<size_t>(i)] == 0;
      const double p = std::exp(static_cast<double>(rows[static_cast<size_t>(2 * i)]));
      EXPECT_NEAR(hidden.grad()[i][0].item<double>(), trained ? (p - 1) / items : 0.0, 1e-6);
      EXPECT_NEAR(hidden.grad()[i][1].item<double>(), trained ? (1 - p) / items : 0.0, 1e-6);
    }
  }
  EXPECT_EQ(cases, 3);
}

TEST(SftNll, without_a_target_is_zero_and_finite) {
  at::Tensor hidden = at::ones({3, 4}).requires_grad_();
  kernels::Parameter head;
  head.value = at::ones({5, 4});
  head.grad = at::zeros({5, 4});
  const SftLoss result = sft_nll(hidden, head, ints({-100, -100, -100}), 0, {});
  EXPECT_EQ(result.loss.item<float>(), 0.0f);
  EXPECT_EQ(result.sums.count, 0);
  result.loss.backward();
  EXPECT_EQ(hidden.grad().abs().max().item<float>(), 0.0f);
  EXPECT_EQ(head.grad.abs().max().item<float>(), 0.0f);
}

}  // namespace
}  // namespace trl::loss
