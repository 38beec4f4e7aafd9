// Attention over cached keys and values, against attention over whole documents.
#include "kernels/attention/cached_rows.h"
#include "kernels/compare.h"
#include "kernels/cpu/cpu_kernels.h"

namespace trl::kernels {
namespace {

using test::random;
using test::same_bits;

struct AttendedShape {
  std::vector<int64_t> lengths;  // of the sequences
  int64_t heads, kv_heads, width, window = 0;
  double softcap = 0;
};

// Sequences that are extended together, by so many rows each at a time.
class Sequences {
 public:
  Sequences(const AttendedShape& shape, at::ScalarType type, bool int8 = false)
      : shape_(shape), cache_{shape.kv_heads, shape.width, type, int8} {
    int64_t seed = 1;
    for (const int64_t length : shape.lengths) {
      q_.push_back(random({length, shape.heads, shape.width}, seed++, type));
      k_.push_back(random({length, shape.kv_heads, shape.width}, seed++, type));
      v_.push_back(random({length, shape.kv_heads, shape.width}, seed++, type));
      rows_.emplace_back();
    }
    options_ = {1.0 / std::sqrt(static_cast<double>(shape.width)), shape.window, shape.softcap};
    done_.resize(rows_.size());
    blocks_.resize(rows_.size());
  }

  // step(sequence, position): how many rows follow.
  template <typename Step>
  std::vector<at::Tensor> extended(const Step& step) {
    for (bool any = true; any;) any = extend(step);
    std::vector<at::Tensor> all;
    for (const auto& rows : rows_) all.push_back(at::cat(rows));
    return all;
  }
  std::vector<at::Tensor> whole() const {
    std::vector<at::Tensor> all;
    for (size_t i = 0; i < q_.size(); ++i)
      all.push_back(attention(q_[i], k_[i], v_[i], test::segments({q_[i].size(0)}), options_));
    return all;
  }

 private:
  template <typename Step>
  bool extend(const Step& step) {
    std::vector<CachedRun> runs;
    std::vector<size_t> which;
    std::vector<at::Tensor> q, k, v;
    int64_t begin = 0;
    for (size_t i = 0; i < q_.size(); ++i) {
      const int64_t count = std::min(q_[i].size(0) - done_[i], step(i, done_[i]));
      if (count == 0) continue;
      // NaNs are what memory may hold that nothing was written to: all bits of them are 1.
      while (std::ssize(blocks_[i]) * kCacheRows < done_[i] + count)
        blocks_[i].push_back(at::full({2, cache_bytes(cache_, at::kCPU)}, 0xff, at::kByte));
      runs.push_back({begin, count, done_[i], blocks_[i]});
      which.push_back(i);
      q.push_back(q_[i].narrow(0, done_[i], count));
      k.push_back(k_[i].narrow(0, done_[i], count));
      v.push_back(v_[i].narrow(0, done_[i], count));
      begin += count;
      done_[i] += count;
    }
    if (runs.empty()) return false;
    const CachedRows rows(runs, shape_.heads, cache_, at::kCPU);
    const at::Tensor got = cached_attention(at::cat(q), at::cat(k), at::cat(v), rows, 1, options_);
    for (size_t i = 0; i < runs.size(); ++i)
      rows_[which[i]].push_back(got.narrow(0, runs[i].begin, runs[i].rows));
    return true;
  }

  const AttendedShape shape_;
  const CacheShape cache_;
  std::vector<at::Tensor> q_, k_, v_;
  AttentionOptions options_;
  std::vector<int64_t> done_;
  std::vector<std::vector<at::Tensor>> blocks_, rows_;
};

const AttendedShape kAttendedShapes[] = {
    {{33}, 6, 2, 20},          {{33, 1, 130}, 9, 3, 64},   {{200, 64}, 14, 2, 64},
    {{150}, 4, 4, 33},         {{1, 2, 65}, 2, 1, 128},    {{129, 5}, 3, 3, 15},
    {{300, 9}, 4, 2, 64, 8},   {{200, 140}, 2, 1, 32, 70}, {{40, 128}, 2, 2, 16, 1},
    {{70, 3}, 2, 1, 16, 0, 2}, {{150}, 4, 2, 64, 40, 0.5}, {{190}, 20, 1, 24, 65},
};

// Checks that a row has the bits of `want` however rows are cut into calls.
void expect_in_all_cuts(const AttendedShape& shape, at::ScalarType type, bool int8,
                        const std::vector<at::Tensor>& want) {
  const auto expect = [&](const char* what, const auto& step) {
    const std::vector<at::Tensor> got = Sequences(shape, type, int8).extended(step);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(got[i], want[i])) << what << " " << i;
  };
  expect("one by one", [](size_t, int64_t) { return int64_t{1}; });
  expect("at once", [](size_t, int64_t) { return int64_t{1000}; });
  expect("by seven", [](size_t, int64_t) { return int64_t{7}; });
  // A prompt beside sequences that get one row, some of which wait.
  expect("mixed", [](size_t i, int64_t at) { return at == 0 ? int64_t{3} << 3 * i : 1 + at % 3 * 9; });
  const test::Threads three(3);
  expect("threads", [](size_t i, int64_t at) { return at == 0 ? 40 : 1 + static_cast<int64_t>(i); });
}

template <typename Body>
void each_shape(const Body& body) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const AttendedShape& shape : kAttendedShapes) {
      SCOPED_TRACE(testing::Message()
                   << "width " << shape.width << " window " << shape.window << " " << type);
      body(shape, type);
    }
  }
}

TEST(CachedAttention, HasTheBitsOfAttention) {
  each_shape([](const AttendedShape& shape, at::ScalarType type) {
    test::each_table([&] { expect_in_all_cuts(shape, type, false, Sequences(shape, type).whole()); });
  });
}

int64_t some_rows(size_t i, int64_t at) { return at == 0 ? 20 + static_cast<int64_t>(i) : 1 + at % 50; }

TEST(CachedAttention, PlainIsTheSame) {
  each_shape([](const AttendedShape& shape, at::ScalarType type) {
    const std::vector<at::Tensor> want = Sequences(shape, type).extended(some_rows);
    const test::PathScope scope(test::Path::plain);
    const std::vector<at::Tensor> got = Sequences(shape, type).extended(some_rows);
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_LT(test::error_of(got[i], want[i]), test::tolerance(type));
  });
}

// A row has the same bits in all cuts, and those of the plain path to rounding.
TEST(CachedAttention, IntegersDoNotDependOnTheCut) {
  each_shape([](const AttendedShape& shape, at::ScalarType type) {
    std::vector<at::Tensor> plain;
    {
      const test::PathScope scope(test::Path::plain);
      plain = Sequences(shape, type, true).extended(some_rows);
    }
    test::each_table([&] {
      const std::vector<at::Tensor> want = Sequences(shape, type, true).extended(some_rows);
      expect_in_all_cuts(shape, type, true, want);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_LT(test::error_of(want[i], plain[i]), test::tolerance(type));
    });
  });
}

double norm_of_difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).norm().item<double>();
}

// Rounding a row to 127 steps of its largest element moves an output by about a hundredth of its size.
TEST(CachedAttention, IntegersAreAHundredthAway) {
  each_shape([](const AttendedShape& shape, at::ScalarType type) {
    const std::vector<at::Tensor> exact = Sequences(shape, type).whole();
    const std::vector<at::Tensor> got = Sequences(shape, type, true).extended(some_rows);
    for (size_t i = 0; i < exact.size(); ++i) {
      const double error =
          norm_of_difference(got[i], exact[i]) / exact[i].to(at::kDouble).norm().item<double>();
      EXPECT_LT(error, 0.012);
      EXPECT_GT(error, 1e-4);  // they are integers
    }
  });
}

// Integers cannot hold a number that is not finite: the row's scale does, and outputs that see the row show
// it.
TEST(CachedAttention, IntegersDoNotHideWhatIsNotANumber) {
  const CacheShape shape{1, 16, at::kFloat, true};
  const auto expect = [&](float bad, bool in_values) {
    std::vector<at::Tensor> blocks = {at::full({1, cache_bytes(shape, at::kCPU)}, 0xff, at::kByte)};
    const at::Tensor q = random({1, 2, 16}, 1);
    for (int64_t row = 0; row < 3; ++row) {
      at::Tensor k = random({1, 1, 16}, 2 + row), v = random({1, 1, 16}, 5 + row);
      if (row == 1) (in_values ? v : k)[0][0][5] = bad;
      const std::vector<CachedRun> runs = {{0, 1, row, blocks}};
      const at::Tensor got = cached_attention(q, k, v, {runs, 2, shape, at::kCPU}, 0, {0.25});
      EXPECT_TRUE((got.isnan() == (row > 0)).all().item<bool>()) << row;
    }
  };
  test::each_table([&] {
    for (const float bad : {NAN, INFINITY})
      for (const bool in_values : {false, true}) expect(bad, in_values);
  });
}

TEST(CachedAttention, IntegersTakeAboutHalf) {
  test::each_table([] {
    const double half = static_cast<double>(cache_bytes({3, 64, at::kBFloat16, true}, at::kCPU)) /
                        static_cast<double>(cache_bytes({3, 64, at::kBFloat16}, at::kCPU));
    EXPECT_LT(half, 0.54);
  });
}

// Tasks that read the same keys follow each other, and the longest come first.
TEST(CachedAttention, TasksOfOneGroupFollowEachOther) {
  const CacheShape shape{2, 16, at::kFloat};
  const auto block = [&] { return at::empty({1, cache_bytes(shape, at::kCPU)}, at::kByte); };
  const at::Tensor first = block(), second = block();
  std::vector<std::vector<at::Tensor>> blocks;
  std::vector<CachedRun> runs;
  for (int64_t i = 0; i < 4; ++i) blocks.push_back({i % 2 == 0 ? first : second, block(), block(), block()});
  for (int64_t i = 0; i < 4; ++i)
    runs.push_back({i, 1, i == 3 ? 200 : 64 + i, blocks[static_cast<size_t>(i)]});
  const CachedRows rows(runs, 4, shape, at::kCPU);
  std::vector<std::pair<int64_t, int64_t>> order;  // row, the first head
  for (const CachedRows::Task& task : rows.tasks()) {
    EXPECT_TRUE(task.own);
    EXPECT_EQ(task.heads, 2);
    order.emplace_back(task.part.row, task.head);
  }
  const std::vector<std::pair<int64_t, int64_t>> want = {{3, 0}, {1, 0}, {3, 2}, {1, 2},
                                                         {2, 0}, {0, 0}, {2, 2}, {0, 2}};
  EXPECT_EQ(order, want);
  EXPECT_TRUE(rows.shared_parts().empty());
}

// Two sequences with the blocks of one prompt read the same as two with blocks of their own.
TEST(CachedAttention, SequencesShareBlocks) {
  const CacheShape shape{2, 32, at::kBFloat16};
  const int64_t bytes = cache_bytes(shape, at::kCPU);
  const auto block = [&] { return at::full({1, bytes}, 0xff, at::kByte); };
  const auto rows = [](int64_t count, int64_t heads, int64_t seed) {
    return random({count, heads, 32}, seed, at::kBFloat16);
  };
  std::vector<at::Tensor> first = {block(), block(), block()};
  const std::vector<CachedRun> prompt = {{0, 128, 0, first}};
  cached_attention(rows(128, 4, 1), rows(128, 2, 2), rows(128, 2, 3), {prompt, 4, shape, at::kCPU}, 0, {0.2});
  std::vector<at::Tensor> second = {first[0], first[1], block()};
  std::vector<at::Tensor> alone = {first[0].clone(), first[1].clone(), block()};
  const at::Tensor q = rows(2, 4, 4), k = rows(2, 2, 5), v = rows(2, 2, 6);
  const std::vector<CachedRun> both = {{0, 1, 128, first}, {1, 1, 128, second}};
  const std::vector<CachedRun> one = {{0, 1, 128, alone}};
  const at::Tensor got = cached_attention(q, k, v, {both, 4, shape, at::kCPU}, 0, {0.2});
  const at::Tensor want = cached_attention(q.narrow(0, 1, 1), k.narrow(0, 1, 1), v.narrow(0, 1, 1),
                                           {one, 4, shape, at::kCPU}, 0, {0.2});
  EXPECT_TRUE(same_bits(got.narrow(0, 1, 1), want));
}

}  // namespace
}  // namespace trl::kernels
