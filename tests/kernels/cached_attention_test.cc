// Attention over cached keys and values, against attention over whole documents.
#include "kernels/compare.h"
#include "kernels/cpu/cpu_kernels.h"

namespace trl::kernels {
namespace {

using test::random;
using test::same_bits;

struct Shape {
  std::vector<int64_t> lengths;  // of the sequences
  int64_t heads, kv_heads, width, window = 0;
  double softcap = 0;
};

// Sequences that are extended together, by so many rows each at a time.
class Sequences {
 public:
  Sequences(const Shape& shape, at::ScalarType type) : shape_(shape) {
    int64_t seed = 1;
    for (const int64_t length : shape.lengths) {
      q_.push_back(random({length, shape.heads, shape.width}, seed++, type));
      k_.push_back(random({length, shape.kv_heads, shape.width}, seed++, type));
      v_.push_back(random({length, shape.kv_heads, shape.width}, seed++, type));
      rows_.emplace_back();
    }
    options_ = {1.0 / std::sqrt(static_cast<double>(shape.width)), shape.window, shape.softcap};
    elements_ = cache_elements({shape.kv_heads, shape.width, type}, at::kCPU);
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
      // NaNs are what memory may hold that nothing was written to.
      while (std::ssize(blocks_[i]) * kCacheRows < done_[i] + count)
        blocks_[i].push_back(at::full({2, elements_}, NAN, q_[i].options()));
      runs.push_back({begin, count, done_[i], blocks_[i]});
      which.push_back(i);
      q.push_back(q_[i].narrow(0, done_[i], count));
      k.push_back(k_[i].narrow(0, done_[i], count));
      v.push_back(v_[i].narrow(0, done_[i], count));
      begin += count;
      done_[i] += count;
    }
    if (runs.empty()) return false;
    const at::Tensor got = cached_attention(at::cat(q), at::cat(k), at::cat(v), runs, 1, options_);
    for (size_t i = 0; i < runs.size(); ++i)
      rows_[which[i]].push_back(got.narrow(0, runs[i].begin, runs[i].rows));
    return true;
  }

  const Shape shape_;
  std::vector<at::Tensor> q_, k_, v_;
  AttentionOptions options_;
  int64_t elements_;
  std::vector<int64_t> done_;
  std::vector<std::vector<at::Tensor>> blocks_, rows_;
};

const Shape kShapes[] = {
    {{33}, 6, 2, 20},          {{33, 1, 130}, 9, 3, 64},   {{200, 64}, 14, 2, 64},
    {{150}, 4, 4, 33},         {{1, 2, 65}, 2, 1, 128},    {{129, 5}, 3, 3, 15},
    {{300, 9}, 4, 2, 64, 8},   {{200, 140}, 2, 1, 32, 70}, {{40, 128}, 2, 2, 16, 1},
    {{70, 3}, 2, 1, 16, 0, 2}, {{150}, 4, 2, 64, 40, 0.5}, {{190}, 20, 1, 24, 65},
};

// However rows are cut into calls, a row has the bits of attention over the whole document.
TEST(CachedAttention, HasTheBitsOfAttention) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Shape& shape : kShapes) {
      SCOPED_TRACE(testing::Message()
                   << "width " << shape.width << " window " << shape.window << " " << type);
      test::each_table([&] {
        const std::vector<at::Tensor> want = Sequences(shape, type).whole();
        const auto expect = [&](const char* what, const auto& step) {
          const std::vector<at::Tensor> got = Sequences(shape, type).extended(step);
          for (size_t i = 0; i < want.size(); ++i)
            EXPECT_TRUE(same_bits(got[i], want[i])) << what << " " << i;
        };
        expect("one by one", [](size_t, int64_t) { return int64_t{1}; });
        expect("at once", [](size_t, int64_t) { return int64_t{1000}; });
        expect("by seven", [](size_t, int64_t) { return int64_t{7}; });
        // A prompt beside sequences that get one row, some of which wait.
        expect("mixed", [](size_t i, int64_t at) { return at == 0 ? int64_t{3} << 3 * i : 1 + at % 3 * 9; });
        const test::Threads three(3);
        expect("threads", [](size_t i, int64_t at) { return at == 0 ? 40 : 1 + static_cast<int64_t>(i); });
      });
    }
  }
}

TEST(CachedAttention, PlainIsTheSame) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const Shape& shape : kShapes) {
      const auto step = [](size_t i, int64_t at) {
        return at == 0 ? 20 + static_cast<int64_t>(i) : 1 + at % 50;
      };
      const std::vector<at::Tensor> want = Sequences(shape, type).extended(step);
      const test::PathScope scope(test::Path::plain);
      const std::vector<at::Tensor> got = Sequences(shape, type).extended(step);
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_LT(test::error_of(got[i], want[i]), test::tolerance(type)) << shape.width;
    }
  }
}

}  // namespace
}  // namespace trl::kernels
