// How products are divided: two threads must end together.
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/gemm/tiles.h"

namespace trl::kernels {
namespace {

TEST(GemmPieces, FullRowsMakeAnEvenNumberOfTilesThatAreNearlyEqual) {
  for (int64_t m = 257; m <= 2048; ++m) {
    for (const int64_t n : {192, 576, 4864}) {
      const Tiling tiling(m, n, 576, false, false, false);
      ASSERT_EQ(tiling.cols, n);
      const int64_t tiles = (m + tiling.rows - 1) / tiling.rows;
      EXPECT_EQ(tiles % 2, 0) << m << " rows in tiles of " << tiling.rows;
      EXPECT_GE(5 * (m - (tiles - 1) * tiling.rows), 2 * tiling.rows)
          << m << " rows in tiles of " << tiling.rows;
    }
  }
}

TEST(GemmPieces, FewRowsMoreThanATileGetNoTileOfTheirOwn) {
  EXPECT_GE(Tiling(520, 16384, 576, false, false, false).rows, 520);  // the head's logits
  EXPECT_GE(Tiling(520, 576, 16384, false, false, false).rows, 520);  // the gradient of its input
}

// Multiplies with ones, and returns the widths of the panels.
std::vector<int64_t> widths_of_panels(int64_t rows, int64_t cols, int64_t terms) {
  const at::Tensor a = at::ones({rows, terms}), b = at::ones({cols, terms}), c = at::zeros({rows, cols});
  std::vector<int64_t> widths;
  std::mutex mutex;
  const Panels panels{terms, cols, at::kFloat, true, 1, [&](int64_t first, int64_t count, void*) {
                        const std::lock_guard lock(mutex);
                        widths.push_back(count);
                        return static_cast<const void*>(b.data_ptr<float>() + first * terms);
                      }};
  const Matrix left{a.data_ptr(), at::kFloat, rows, terms, terms, false};
  gemm(PanelMultiplication{left, panels, c.data_ptr(), at::kFloat, cols});
  EXPECT_TRUE(at::equal(c, at::full({rows, cols}, static_cast<float>(terms))));
  return widths;
}

TEST(GemmPieces, PanelsAreEvenInNumberAndEquallyWide) {
  EXPECT_EQ(widths_of_panels(642, 1536, 576), std::vector<int64_t>(4, 384));
  EXPECT_EQ(widths_of_panels(642, 576, 1536), std::vector<int64_t>(4, 144));
}

// The product of random matrices, with panels that begin at multiples of `unit`.
at::Tensor product_in_panels(const at::Tensor& a, const at::Tensor& b, bool transposed, int64_t unit) {
  const int64_t rows = a.size(0), terms = a.size(1), cols = b.size(transposed ? 0 : 1);
  const at::Tensor c = at::zeros({rows, cols}, a.options());
  const auto size = static_cast<int64_t>(b.element_size());
  const Panels panels{terms,
                      cols,
                      b.scalar_type(),
                      transposed,
                      unit,
                      [&](int64_t first, int64_t count, void* room) -> const void* {
                        const auto* const data = static_cast<const char*>(b.data_ptr());
                        if (transposed) return data + first * terms * size;
                        for (int64_t r = 0; r < terms; ++r)
                          std::memcpy(static_cast<char*>(room) + r * count * size,
                                      data + (r * cols + first) * size, static_cast<size_t>(count * size));
                        return room;
                      }};
  const Matrix left{a.data_ptr(), a.scalar_type(), rows, terms, terms, false};
  gemm(PanelMultiplication{left, panels, c.data_ptr(), c.scalar_type(), cols});
  return c;
}

TEST(GemmPieces, TheWidthOfPanelsChangesNoBit) {
  at::manual_seed(5);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const auto& [cols, terms] : {std::pair<int64_t, int64_t>{576, 1536}, {1536, 576}, {896, 4864}}) {
      for (const bool transposed : {false, true}) {
        const at::Tensor a = at::randn({300, terms}).to(type);
        const at::Tensor b = (transposed ? at::randn({cols, terms}) : at::randn({terms, cols})).to(type);
        const at::Tensor c = product_in_panels(a, b, transposed, 1);
        for (const int64_t unit : {64, 256})
          EXPECT_TRUE(at::equal(c, product_in_panels(a, b, transposed, unit)))
              << type << ", " << cols << " columns of " << terms << ", unit " << unit;
      }
    }
  }
}

}  // namespace
}  // namespace trl::kernels
