#include "base/arithmetic/counter_random.h"
#include "kernels/compare.h"
#include "kernels/op.h"

namespace trl::kernels::dropout_test {
namespace {

using test::each_table;
using test::leaf;
using test::random;
using test::same_bits;

// 1 / (1 - rate) where the counter keeps an element, else 0: float32 [rows, width].
at::Tensor factors(const Dropout& dropout, int64_t rows, int64_t width) {
  at::Tensor made = at::zeros({rows, width});
  const auto below = static_cast<uint32_t>(std::lround(dropout.rate * 16777216));
  for (int64_t r = 0; r < rows; ++r) {
    const base::CounterKey key = base::counter_key({dropout.key, static_cast<uint64_t>(r)});
    for (int64_t c = 0; c < width; ++c) {
      const bool kept = base::counter_bits(key, static_cast<uint32_t>(c)) / 256 >= below;
      if (kept) made[r][c] = 1 / (1 - dropout.rate);
    }
  }
  return made;
}

struct Pair {
  at::Tensor y, dx;
};
Pair dropped(const at::Tensor& x, const at::Tensor& dy, const Dropout& dropout) {
  const at::Tensor in = leaf(x), y = kernels::dropout(in, dropout);
  return {y.detach(), torch::autograd::grad({y}, {in}, {dy})[0]};
}

TEST(Dropout, LeavesOutWhatTheCounterSaysForwardAndBackward) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {3, 15}, {70, 64}, {33, 101}}) {
      const Dropout dropout{0.3, 0x1234567890abcdef + static_cast<uint64_t>(width)};
      const at::Tensor x = random({rows, width}, 1, type), dy = random({rows, width}, 2, type);
      const at::Tensor factor = factors(dropout, rows, width);
      const Pair want{(x.to(at::kFloat) * factor).to(type), (dy.to(at::kFloat) * factor).to(type)};
      const auto expect_wanted = [&] {
        const Pair got = dropped(x, dy, dropout);
        EXPECT_TRUE(at::equal(got.y, want.y)) << type << " " << rows << " x " << width;
        EXPECT_TRUE(at::equal(got.dx, want.dx)) << type << " " << rows << " x " << width;
        EXPECT_TRUE(at::equal(kernels::dropout(x, dropout), want.y)) << "without a graph";
      };
      each_table([&] {
        expect_wanted();
        const test::Threads one(1);
        expect_wanted();
      });
      const test::PathScope plain(Path::plain);
      expect_wanted();
    }
  }
}

// Drawn once, with a bit for each element, it is made again and added without drawing.
TEST(Dropout, IsMadeAgainFromItsWords) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [rows, width] : {std::pair{1, 1}, {3, 15}, {70, 64}, {33, 101}}) {
      const Dropout dropout{0.3, 99 + static_cast<uint64_t>(width)};
      const at::Tensor x = random({rows, width}, 1, type), other = random({rows, width}, 2, type);
      const at::Tensor sum = random({rows, width}, 3);
      each_table([&] {
        at::Tensor words, added = sum.clone();
        EXPECT_TRUE(same_bits(kernels::dropped(x, dropout, &words), kernels::dropped(x, dropout)));
        EXPECT_EQ(words.numel(), rows * ((width + 15) / 16));
        const at::Tensor want = kernels::dropped(other, dropout);
        EXPECT_TRUE(same_bits(kernels::dropped(other, dropout, words), want)) << rows << " x " << width;
        add_dropped(other, dropout, words, added);
        const at::Tensor factor = factors(dropout, rows, width);
        EXPECT_TRUE(at::allclose(added, sum + other.to(at::kFloat) * factor, 1e-6, 1e-6)) << width;
      });
    }
  }
}

// Of n elements a share p is left out, up to 5 standard deviations; and as many of those whose neighbour in
// the row, in the column or under the next key is left out.
TEST(Dropout, LeavesOutTheShareAskedForIndependently) {
  constexpr int64_t kRows = 512, kWidth = 512;
  for (const double rate : {0.01, 0.1, 0.5, 0.9}) {
    const auto out_of = [&](uint64_t key) {
      return dropout(at::ones({kRows, kWidth}), {rate, base::counter_seed({42, key})}) == 0;
    };
    const at::Tensor out = out_of(0);
    const auto expect_share = [&](const at::Tensor& of, const char* what) {
      const auto n = static_cast<double>(of.numel());
      EXPECT_NEAR(of.to(at::kDouble).mean().item<double>(), rate, 5 * std::sqrt(rate * (1 - rate) / n))
          << what << " " << rate;
    };
    expect_share(out, "all");
    expect_share(out.slice(1, 1).masked_select(out.slice(1, 0, kWidth - 1)), "behind one left out");
    expect_share(out.slice(0, 1).masked_select(out.slice(0, 0, kRows - 1)), "below one left out");
    expect_share(out_of(1).masked_select(out), "under the next key");
  }
}

TEST(Dropout, MeanOverKeysIsTheInput) {
  constexpr int kKeys = 4000;
  const at::Tensor x = random({3, 17}, 1);
  at::Tensor sum = at::zeros({3, 17}, at::kDouble);
  for (uint64_t key = 0; key < kKeys; ++key) sum += dropout(x, {0.25, base::counter_seed({7, key})});
  // An element's standard deviation is |x| sqrt(p / (1 - p)).
  const at::Tensor allowed = x.abs().to(at::kDouble) * (5 * std::sqrt(0.25 / 0.75 / kKeys));
  EXPECT_TRUE(((sum / kKeys - x).abs() <= allowed).all().item<bool>());
}

TEST(Dropout, WhatIsNotFiniteIsNeverHidden) {
  const at::Tensor x = at::full({40, 3}, INFINITY);
  x.select(1, 1).fill_(std::nanf(""));
  const auto expect_not_finite = [&] { EXPECT_FALSE(at::isfinite(dropout(x, {0.5, 9})).any().item<bool>()); };
  each_table(expect_not_finite);
  const test::PathScope plain(Path::plain);
  expect_not_finite();
}

TEST(Dropout, RateZeroLeavesAllAndRateOneNothing) {
  const at::Tensor x = random({4, 9}, 1), dy = random({4, 9}, 2);
  for (const Path path : {Path::fused, Path::plain}) {
    const test::PathScope scope(path);
    EXPECT_TRUE(dropout(x, {0, 5}).is_same(x));
    const Pair none = dropped(x, dy, {1, 5});
    EXPECT_TRUE(at::equal(none.y, at::zeros({4, 9})));
    EXPECT_TRUE(at::equal(none.dx, at::zeros({4, 9})));
  }
  EXPECT_THROW(dropout(x, {1.5, 5}), Error);
  EXPECT_THROW(dropout(x, {std::nan(""), 5}), Error);
}

}  // namespace
}  // namespace trl::kernels::dropout_test
