// The divergence of two models' distributions: against autograd in double, on every path and table.
#include "kernels/head/divergence.h"

#include "kernels/compare.h"
#include "support/golden.h"

namespace trl::kernels::divergence_test {
namespace {

using base::Json;
using test::error_of;
using test::leaf;
using test::parameter;
using test::random;

const std::vector<int64_t> kRows{0, 2, 5, 6, 9, 12}, kTeacherRows{0, 1, 2, 3, 4, 7};
const std::vector<double> kCounts{1, 3, 1, 2, 1, 1};

at::Tensor log_softmax_of(const at::Tensor& hidden, const at::Tensor& head, const HeadOptions& options) {
  at::Tensor z = hidden.matmul(head.t()) * options.scale;
  if (options.softcap > 0) z = (z / options.softcap).tanh() * options.softcap;
  return (z / options.temperature).log_softmax(-1);
}

at::Tensor kl(const at::Tensor& log_a, const at::Tensor& log_b) {
  return (log_a.exp() * (log_a - log_b)).sum(-1);
}

at::Tensor divergence_of(const at::Tensor& log_p, const at::Tensor& log_q, double beta) {
  if (beta == 0) return kl(log_q, log_p);
  if (beta == 1) return kl(log_p, log_q);
  const at::Tensor log_m = (log_p.exp() * (1 - beta) + log_q.exp() * beta).log();
  return kl(log_q, log_m) * beta + kl(log_p, log_m) * (1 - beta);
}

struct Case {
  double beta;
  int64_t tile = 0;
  at::ScalarType type = at::kFloat;
  HeadOptions student = {}, teacher = {};
};

void check(const Case& c) {
  SCOPED_TRACE(testing::Message() << "beta " << c.beta << " tile " << c.tile << " " << c.type);
  HeadOptions own = c.student, other = c.teacher;
  own.compute = other.compute = c.type;
  own.tile_rows = c.tile;
  Parameter head = parameter(random({97, 24}, 2, c.type), c.type);
  Parameter teacher_head = parameter(random({97, 16}, 3, c.type), c.type);
  const at::Tensor hidden = leaf((random({13, 24}, 1) * 0.5).to(c.type));
  const at::Tensor teacher = (random({8, 16}, 4) * 0.5).to(c.type);
  const at::Tensor h = leaf(hidden.detach().to(at::kDouble)), w = leaf(head.read()->to(at::kDouble));
  const at::Tensor log_p = log_softmax_of(h, w, own);
  const at::Tensor log_q =
      log_softmax_of(teacher.to(at::kDouble), teacher_head.read()->to(at::kDouble), other);
  at::Tensor want = at::zeros({}, at::kDouble);
  double entropy = 0;
  for (size_t i = 0; i < kRows.size(); ++i) {
    const at::Tensor row = log_p[kRows[i]];
    want = want + divergence_of(row, log_q[kTeacherRows[i]], c.beta) * kCounts[i] * 0.3;
    entropy -= (row.exp() * row).sum().item<double>() * kCounts[i];
  }
  const auto grads = torch::autograd::grad({want}, {h, w});
  const double limit = c.type == at::kFloat ? 1e-5 : 4e-2;
  for (const bool starts : {true, false}) {
    own.starts_backward = starts;
    const double d_loss = starts ? 1 : -0.37;
    head.gradient().zero_();
    DivergenceValues values;
    const at::Tensor loss =
        head_divergence({hidden, kRows, head, own}, {teacher, kTeacherRows, teacher_head, other}, kCounts,
                        {c.beta, 0.3}, &values);
    EXPECT_NEAR(loss.item<double>(), want.item<double>(), 10 * limit);
    EXPECT_NEAR(values.entropy, entropy, 10 * limit * std::abs(entropy));
    const at::Tensor d_hidden = torch::autograd::grad({loss * d_loss}, {hidden})[0];
    EXPECT_LT(error_of(d_hidden, grads[0] * d_loss), limit);
    EXPECT_LT(error_of(head.gradient(), grads[1] * d_loss), limit);
    EXPECT_EQ(teacher_head.gradient().abs().max().item<float>(), 0.0f);
  }
}

TEST(Divergence, IsThatOfTheDistributions) {
  for (const test::Path path : {test::Path::fused, test::Path::plain}) {
    const test::PathScope scope(path);
    test::each_table([] {
      for (const double beta : {0.0, 0.1, 0.5, 0.9, 1.0}) {
        for (const int64_t tile : {0, 1, 4}) check({beta, tile});
        check(
            {beta, 4, at::kFloat, {.scale = 0.4, .softcap = 1.5, .temperature = 0.7}, {.temperature = 0.7}});
        check({beta, 0, at::kFloat, {.temperature = 1.3}, {.softcap = 2.0, .temperature = 1.3}});
        check({beta, 4, at::kBFloat16});
      }
    });
  }
}

// Without a graph, and for equal models, whose divergence and gradient are 0.
TEST(Divergence, OfEqualModelsIsNothing) {
  for (const test::Path path : {test::Path::fused, test::Path::plain}) {
    const test::PathScope scope(path);
    Parameter head = parameter(random({97, 24}, 2)), copy = parameter(random({97, 24}, 2));
    const at::Tensor hidden = random({13, 24}, 1);
    for (const double beta : {0.0, 0.4, 1.0}) {
      const at::Tensor x = leaf(hidden);
      HeadOptions options;
      options.starts_backward = true;
      EXPECT_NEAR(
          head_divergence({hidden, kRows, head, options}, {hidden, kRows, copy, options}, kCounts, {beta})
              .item<double>(),
          0, 1e-5);
      head.gradient().zero_();
      const at::Tensor loss =
          head_divergence({x, kRows, head, options}, {hidden, kRows, copy, options}, kCounts, {beta});
      EXPECT_LT(torch::autograd::grad({loss}, {x})[0].abs().max().item<double>(), 1e-5);
    }
  }
}

// Logits of -1000 have probability 0 in one model or both.
TEST(Divergence, IsFiniteWhereProbabilitiesVanish) {
  for (const test::Path path : {test::Path::fused, test::Path::plain}) {
    const test::PathScope scope(path);
    const at::Tensor own = at::zeros({1, 16}), other = at::zeros({1, 16});
    own[0][3] = -1000;
    other[0][3] = -1000;
    other[0][5] = -1000;
    Parameter head = parameter(at::eye(16)), copy = parameter(at::eye(16));
    const at::Tensor x = leaf(own);
    HeadOptions options;
    options.starts_backward = true;
    for (const double beta : {0.0, 0.5}) {
      const at::Tensor loss =
          head_divergence({x, {0}, head, options}, {other, {0}, copy, options}, {1}, {beta});
      EXPECT_TRUE(std::isfinite(loss.item<double>()));
      const at::Tensor d = torch::autograd::grad({loss}, {x})[0];
      EXPECT_TRUE(d.isfinite().all().item<bool>());
      EXPECT_EQ(d[0][3].item<float>(), 0.0f);
    }
  }
}

at::Tensor tensor_of(const Json& json) {
  std::vector<int64_t> shape;
  for (const Json* inner = &json; inner->is_array(); inner = &inner->front())
    shape.push_back(std::ssize(*inner));
  const std::vector<float> numbers = [&] {
    std::vector<float> out;
    const std::function<void(const Json&)> add = [&](const Json& value) {
      if (!value.is_array()) return out.push_back(value.get<float>());
      for (const Json& element : value) add(element);
    };
    add(json);
    return out;
  }();
  return at::tensor(numbers).reshape(shape);
}

// The rows of [batch, length, width] that a mask or labels choose.
std::vector<int64_t> rows_of(const at::Tensor& chosen) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < chosen.numel(); ++i)
    if (chosen.flatten()[i].item<bool>()) rows.push_back(i);
  return rows;
}

TEST(Divergence, EqualsTheOnesOfDistillation) {
  TRL_NEED_GOLDEN("losses/distillation.json");
  for (const Json& c : test::golden_json("losses/distillation.json")["cases"]) {
    const Json& config = c["config"];
    SCOPED_TRACE(config.dump());
    HeadOptions options;
    options.scale = config["logit_scale"];
    options.softcap = config["softcap"].is_null() ? 0.0 : config["softcap"].get<double>();
    options.temperature = config["temperature"];
    options.starts_backward = true;
    const at::Tensor own = tensor_of(c["student_hidden"]), other = tensor_of(c["teacher_hidden"]);
    Parameter head = parameter(tensor_of(c["student_lm_head"])),
              teacher = parameter(tensor_of(c["teacher_lm_head"]));
    head.gradient().zero_();
    const at::Tensor x = leaf(own.flatten(0, 1).contiguous());
    const std::vector<int64_t> rows = rows_of(tensor_of(c["completion_mask"]));
    const double count = c["num_valid"];
    EXPECT_EQ(std::ssize(rows), static_cast<int64_t>(count));
    DivergenceValues values;
    const at::Tensor loss =
        head_divergence({x, rows, head, options}, {other.flatten(0, 1).contiguous(), rows, teacher, options},
                        std::vector<double>(rows.size(), 1.0), {config["beta"], 1 / count}, &values);
    const double want = c["loss"], entropy = c["entropy_sum"];
    EXPECT_NEAR(loss.item<double>(), want, 1e-5 * std::max(1.0, std::abs(want)));
    EXPECT_NEAR(values.entropy, entropy, 1e-5 * std::abs(entropy));
    const at::Tensor d = torch::autograd::grad({loss}, {x})[0];
    EXPECT_LT(error_of(d, tensor_of(c["grad_student_hidden"]).flatten(0, 1).to(at::kDouble)), 1e-4);
    EXPECT_LT(error_of(head.gradient(), tensor_of(c["grad_student_lm_head"]).to(at::kDouble)), 1e-4);
  }
}

TEST(Divergence, EqualsTheOnesOfGkd) {
  TRL_NEED_GOLDEN("losses/gkd_jsd.json");
  for (const Json& c : test::golden_json("losses/gkd_jsd.json")["cases"]) {
    const Json& config = c["config"];
    if (config["reduction"] != "sum" || !config["num_items_in_batch"].is_null()) continue;
    SCOPED_TRACE(config.dump());
    const at::Tensor own = tensor_of(c["student_logits"]).flatten(0, 1).contiguous(),
                     other = tensor_of(c["teacher_logits"]).flatten(0, 1).contiguous();
    Parameter head = parameter(at::eye(own.size(1))), teacher = parameter(at::eye(own.size(1)));
    const at::Tensor x = leaf(own);
    HeadOptions options;
    options.temperature = config["temperature"];
    options.starts_backward = true;
    const std::vector<int64_t> rows = rows_of(tensor_of(c["labels"]).ne(-100));
    const at::Tensor loss = head_divergence({x, rows, head, options}, {other, rows, teacher, options},
                                            std::vector<double>(rows.size(), 1.0), {config["beta"]});
    EXPECT_NEAR(loss.item<double>(), c["loss"].get<double>(), 1e-5 * std::abs(c["loss"].get<double>()));
    const at::Tensor d = torch::autograd::grad({loss}, {x})[0];
    EXPECT_LT(error_of(d, tensor_of(c["grad_student_logits"]).flatten(0, 1).to(at::kDouble)), 1e-4);
  }
}

}  // namespace
}  // namespace trl::kernels::divergence_test
