// Sums over one row of logits, of every instruction set.
#include "kernels/head/logit_row.h"

#include <fmt/format.h>

#include <cmath>

#include "kernels/reference.h"

namespace trl::kernels {
namespace {

class EachTable {
 public:
  template <class Body>
  explicit EachTable(const Body& body) {
    for (const CpuKernels* const* table = cpu_variants(); *table != nullptr; ++table) {
      SCOPED_TRACE((*table)->name);
      use_cpu(**table);
      body();
    }
    use_cpu(**cpu_variants());
  }
};

std::vector<float> some_logits(int64_t count) {
  const at::Tensor values = test::random({count}, 7) * 4;
  return {values.data_ptr<float>(), values.data_ptr<float>() + count};
}

TEST(LogitRow, LogProbabilitiesAndEntropyAreThoseOfTheSoftmax) {
  EachTable([] {
    for (const int64_t count : {1, 15, 128, 131, 5000}) {
      for (const double temperature : {1.0, 0.3, 7.0}) {
        const std::vector<float> logits = some_logits(count);
        const LogitRow row(logits);
        const LogitSoftmax softmax(row, temperature);
        const double top = *std::ranges::max_element(logits);
        EXPECT_EQ(row.top(), top);
        double sum = 0, weighted = 0;
        for (const float z : logits) {
          const double d = (z - top) / temperature;
          sum += std::exp(d), weighted += d * std::exp(d);
        }
        EXPECT_NEAR(softmax.sum(), sum, 1e-6 * sum);
        EXPECT_NEAR(softmax.entropy(), std::log(sum) - weighted / sum, 1e-5);
        for (const int64_t id : {int64_t{0}, count / 2, count - 1}) {
          const double want = (logits[static_cast<size_t>(id)] - top) / temperature - std::log(sum);
          EXPECT_NEAR(softmax.log_probability(static_cast<int32_t>(id)), want, 2e-6 * (1 + std::abs(want)));
        }
      }
    }
  });
}

TEST(LogitRow, RemovedTokensAddNothingAndAreNeverDrawn) {
  EachTable([] {
    std::vector<float> logits(400, -INFINITY);
    logits[7] = 1, logits[250] = 1;
    const LogitRow row(logits);
    const LogitSoftmax softmax(row, 1e30);
    EXPECT_DOUBLE_EQ(softmax.sum(), 2);
    EXPECT_NEAR(softmax.entropy(), std::log(2), 1e-6);
    EXPECT_EQ(row.first_top(), 7);
    EXPECT_EQ(softmax.id_at(0), 7);
    EXPECT_EQ(softmax.id_at(0.49), 7);
    EXPECT_EQ(softmax.id_at(0.51), 250);
    EXPECT_EQ(softmax.id_at(1), 250);
    EXPECT_EQ(softmax.log_probability(8), -INFINITY);
    EXPECT_EQ(row.ids_from(0), (std::vector<int32_t>{7, 250}));
  });
}

// Logits without a bit are as good as removed ones, to the bit.
TEST(LogitRow, BitsRemoveTheOthers) {
  EachTable([] {
    for (const int64_t count : {1, 15, 64, 128, 131, 5000}) {
      for (const int64_t every : {1, 3, 70, 1000}) {
        SCOPED_TRACE(fmt::format("{} logits, each {}th", count, every));
        const std::vector<float> logits = some_logits(count);
        std::vector<float> removed(logits.size(), -INFINITY);
        LogitBits bits(logits.size());
        bits.add(-1);
        bits.add(static_cast<int32_t>(count));
        for (int64_t id = 0; id < count; id += every) {
          removed[static_cast<size_t>(id)] = logits[static_cast<size_t>(id)];
          bits.add(static_cast<int32_t>(id));
        }
        const LogitRow row(logits, &bits), other(removed);
        EXPECT_EQ(row.top(), other.top());
        EXPECT_EQ(row.first_top(), other.first_top());
        EXPECT_EQ(row.ids_from(0), other.ids_from(0));
        EXPECT_EQ(row.limit_of(3), other.limit_of(3));
        const LogitSoftmax softmax(row, 0.7), like(other, 0.7);
        EXPECT_EQ(softmax.sum(), like.sum());
        EXPECT_EQ(softmax.entropy(), like.entropy());
        for (const double share : {0.0, 0.3, 0.9, 0.999999, 1.0})
          EXPECT_EQ(softmax.id_at(share), like.id_at(share));
        for (int32_t id = 0; id < count; id += 5)
          EXPECT_EQ(softmax.log_probability(id), like.log_probability(id));
      }
    }
  });
}

TEST(LogitRow, ANaNAnywhereIsTheTop) {
  EachTable([] {
    for (const int64_t at : {0, 16, 127, 128, 133}) {
      std::vector<float> logits(134, 2.0f);
      logits[static_cast<size_t>(at)] = std::nanf("");
      EXPECT_TRUE(std::isnan(LogitRow(logits).top())) << at;
    }
  });
}

TEST(LogitRow, ItsLimitIsReachedByAsManyLogits) {
  const std::vector<float> logits = some_logits(3000);
  const LogitRow row(logits);
  for (const int64_t count : {1, 5, 24}) {
    EXPECT_GT(row.limit_of(count), -INFINITY);
    EXPECT_GE(std::ssize(row.ids_from(row.limit_of(count))), count);
  }
  EXPECT_EQ(row.limit_of(25), -INFINITY);
}

}  // namespace
}  // namespace trl::kernels
