// How a micro-batch is cut, and in which order its parts go through the model.
#include "train/batches/micro_batch.h"

#include "train/stepper/gradients.h"
#include "train/tiny_run.h"

namespace trl::train::batch_parts_test {
namespace {

MicroBatch batch_of(const std::vector<int32_t>& lengths) {
  MicroBatch batch;
  auto segments = std::make_shared<kernels::Segments>(kernels::Segments{{0}, 0});
  std::vector<int32_t> positions;
  for (const int32_t length : lengths) {
    for (int32_t i = 0; i < length; ++i) positions.push_back(i);
    segments->cu_seqlens.push_back(static_cast<int32_t>(positions.size()));
    segments->max_length = std::max<int64_t>(segments->max_length, length);
  }
  batch.input_ids = at::arange(std::ssize(positions), at::kInt);
  batch.position_ids = at::tensor(positions, at::kInt);
  for (int32_t i = 0; i < static_cast<int32_t>(positions.size()); i += 2) {
    batch.targets.tokens.rows.push_back(i);
    batch.targets.tokens.tokens.push_back(i + 1);
    batch.targets.sequences.push_back(i / 3);
  }
  batch.segments = segments;
  batch.reach = segments->max_length;
  batch.row_ids = {7, 8, 9};
  batch.width = 11;
  return batch;
}

// Tokens of each part, after a look at all that a part says of itself.
std::vector<int64_t> sizes(const std::vector<int32_t>& lengths, std::optional<int64_t> most) {
  const MicroBatch batch = batch_of(lengths);
  std::vector<int64_t> sizes;
  int64_t first = 0, targets = 0;
  for (const MicroBatch& part : parts_of(batch, most)) {
    const int64_t tokens = part.input_ids.numel();
    EXPECT_EQ(part.first, first);
    for (const auto& [mine, whole] :
         {std::pair{&part.input_ids, &batch.input_ids}, {&part.position_ids, &batch.position_ids}})
      EXPECT_TRUE(at::equal(*mine, whole->narrow(0, first, tokens)));
    for (int64_t i = 0; i < part.targets.size(); ++i) {
      const auto at = static_cast<size_t>(i);
      EXPECT_EQ(part.targets.tokens.tokens[at], first + part.targets.tokens.rows[at] + 1);
      EXPECT_LT(part.targets.tokens.rows[at], tokens);
    }
    targets += part.targets.size();
    const std::vector<int32_t>& borders = part.segments->cu_seqlens;
    EXPECT_EQ(borders.front(), 0);
    EXPECT_EQ(borders.back(), tokens);
    int64_t longest = 0;
    for (size_t d = 1; d < borders.size(); ++d)
      longest = std::max<int64_t>(longest, borders[d] - borders[d - 1]);
    EXPECT_EQ(part.segments->max_length, longest);
    EXPECT_EQ(part.reach, batch.reach);
    EXPECT_EQ(part.row_ids, batch.row_ids);
    EXPECT_EQ(part.width, batch.width);
    sizes.push_back(tokens);
    first += tokens;
  }
  EXPECT_EQ(first, batch.input_ids.numel());
  EXPECT_EQ(targets, batch.targets.size());
  return sizes;
}

using Sizes = std::vector<int64_t>;

TEST(BatchParts, AreFewAndEven) {
  EXPECT_EQ(sizes({4, 4, 4, 4}, std::nullopt), Sizes{16});
  EXPECT_EQ(sizes({4, 4, 4, 4}, 16), Sizes{16});
  EXPECT_EQ(sizes({4, 4, 4, 4}, 15), (Sizes{8, 8}));
  EXPECT_EQ(sizes({4, 4, 4, 4}, 12), (Sizes{8, 8}));  // not 12 and 4
  EXPECT_EQ(sizes({4, 4, 4, 4}, 7), (Sizes{4, 4, 4, 4}));
  EXPECT_EQ(sizes({5, 1, 1, 1}, 6), (Sizes{5, 3}));
  EXPECT_EQ(sizes({1, 1, 1, 5}, 6), (Sizes{3, 5}));
}

TEST(BatchParts, ALongDocumentGoesByItself) {
  EXPECT_EQ(sizes({9, 2, 2}, 4), (Sizes{9, 4}));
  EXPECT_EQ(sizes({2, 9, 2}, 4), (Sizes{2, 9, 2}));
  EXPECT_EQ(sizes({9}, 1), Sizes{9});
  EXPECT_EQ(sizes({3, 1, 2}, 1), (Sizes{3, 1, 2}));
}

TEST(BatchParts, NoneIsWithoutTokens) {
  EXPECT_EQ(sizes({0, 9, 0, 2, 0}, 4), (Sizes{9, 2}));
  EXPECT_EQ(sizes({0, 0}, 4), Sizes{0});
}

// Trees stay whole: [0 1 2 | 3 4 | 5], [6 7] and [8 | 9 | 10 11].
TEST(BatchParts, AreCutBetweenTrees) {
  MicroBatch batch = batch_of({3, 2, 1, 2, 1, 1, 2});
  auto segments = std::make_shared<kernels::Segments>(*batch.segments);
  segments->prefix = {-1, 0, 0, -1, -1, 4, 5};
  segments->rows = {2, 1, 1, 1, 1, 1, 1};
  batch.segments = segments;
  const std::vector<MicroBatch> parts = parts_of(batch, 5);
  using Numbers = std::vector<int32_t>;
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].segments->cu_seqlens, (Numbers{0, 3, 5, 6}));
  EXPECT_EQ(parts[0].segments->prefix, (Numbers{-1, 0, 0}));
  EXPECT_EQ(parts[0].segments->rows, (Numbers{2, 1, 1}));
  EXPECT_EQ(parts[1].segments->cu_seqlens, (Numbers{0, 2}));
  EXPECT_EQ(parts[1].segments->prefix, (Numbers{-1}));
  EXPECT_EQ(parts[2].segments->cu_seqlens, (Numbers{0, 1, 2, 4}));
  EXPECT_EQ(parts[2].segments->prefix, (Numbers{-1, 0, 1}));
  EXPECT_EQ(parts_of(batch, 8).size(), 2u);
}

// The square of the sum of all hidden states: the share of a part depends on every other.
class SquareOfSum final : public WeighedLoss {
 public:
  MethodMetrics metrics() const override { return {}; }
  int measured = 0, learned = 0;

 private:
  void measure(const model::Output& output, const MicroBatch&) override {
    EXPECT_FALSE(at::GradMode::is_enabled());
    EXPECT_FALSE(weight_);
    sum_ += output.hidden.sum().item<double>();
    ++measured;
  }
  float weigh() override {
    weight_ = 2 * sum_;
    return static_cast<float>(sum_ * sum_);
  }
  at::Tensor learn(const model::Output& output, const MicroBatch&) override {
    ++learned;
    return *weight_ * output.hidden.sum();
  }

  double sum_ = 0;
  std::optional<double> weight_;
};

struct Learned {
  double value = 0;
  int measured = 0, learned = 0;
  std::vector<at::Tensor> gradients;
};
Learned learned(const MicroBatch& batch, std::optional<int64_t> most) {
  test::SftRun run = test::tiny_run({});
  const auto method = make_method({run.setup.arguments, run.model()});
  Gradients gradients(run.model().parameters(), std::nullopt);
  gradients.begin_step(Gradients::Copies::none);
  const at::AutoGradMode with_graph(true);
  SquareOfSum loss;
  Learned out;
  loss.each_part(
      parts_of(batch, most), [&](const MicroBatch& part) { return method->forward(part, RunPosition{}); },
      [&](const Share& share, bool) {
        out.value += static_cast<double>(share.value);
        share.graph.backward();
        return true;
      });
  out.measured = loss.measured;
  out.learned = loss.learned;
  for (const tensor::Parameter* p : gradients.trained()) out.gradients.push_back(p->gradient().clone());
  return out;
}

TEST(BatchParts, ALossOfAllPartsMeasuresThemFirst) {
  TRL_NEED_TINY_RUN();
  const MicroBatch batch = batch_of({5, 3, 7, 2});
  const Learned whole = learned(batch, std::nullopt), parts = learned(batch, 8);
  EXPECT_EQ(whole.measured, 1);
  EXPECT_EQ(whole.learned, 1);
  EXPECT_EQ(parts.measured, 3);
  EXPECT_EQ(parts.learned, 3);
  EXPECT_NEAR(parts.value, whole.value, 1e-4 * whole.value);
  for (size_t i = 0; i < whole.gradients.size(); ++i) {
    const double largest = whole.gradients[i].abs().max().item<double>();
    EXPECT_LE((parts.gradients[i] - whole.gradients[i]).abs().max().item<double>(), 1e-4 * largest) << i;
  }
}

// An evaluation has no backward, for which parts would go forward again.
TEST(BatchParts, WithoutAGraphEachGoesForwardOnce) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = test::tiny_run({});
  const auto method = make_method({run.setup.arguments, run.model()});
  const MicroBatch batch = batch_of({5, 3, 7, 2});
  const at::NoGradGuard no_graph;
  const auto value = [&](std::optional<int64_t> most, int64_t times) {
    SquareOfSum loss;
    double sum = 0;
    int64_t forwards = 0;
    loss.each_part(
        parts_of(batch, most),
        [&](const MicroBatch& part) {
          ++forwards;
          return method->forward(part, std::nullopt);
        },
        [&](const Share& share, bool last) {
          EXPECT_TRUE(last);
          EXPECT_FALSE(share.graph.defined());
          sum += static_cast<double>(share.value);
          return true;
        });
    EXPECT_EQ(forwards, times);
    EXPECT_EQ(loss.learned, 0);
    return sum;
  };
  const double whole = value(std::nullopt, 1);
  EXPECT_NEAR(value(8, 3), whole, 1e-4 * whole);
}

TEST(BatchParts, EndWhereBackwardSaysSo) {
  TRL_NEED_TINY_RUN();
  test::SftRun run = test::tiny_run({});
  const auto method = make_method({run.setup.arguments, run.model()});
  const MicroBatch batch = batch_of({5, 3, 7, 2});
  const auto loss = method->loss(batch, {&batch, 1}, {});
  const at::NoGradGuard no_graph;
  int calls = 0, lasts = 0, forwards = 0;
  const auto go = [&](int stop_after) {
    calls = lasts = forwards = 0;
    loss->each_part(
        parts_of(batch, 8),
        [&](const MicroBatch& part) {
          ++forwards;
          return method->forward(part, std::nullopt);
        },
        [&](const Share&, bool last) {
          lasts += last ? 1 : 0;
          return ++calls != stop_after;
        });
  };
  go(-1);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(lasts, 1);
  go(2);
  EXPECT_EQ(forwards, 2);
  EXPECT_EQ(lasts, 0);
}

}  // namespace
}  // namespace trl::train::batch_parts_test
