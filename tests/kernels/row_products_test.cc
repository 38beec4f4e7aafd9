// Products whose rows are independent: a row has the same bits beside any others.
#include <algorithm>
#include <cmath>

#include "io/four_bit.h"
#include "kernels/compare.h"
#include "kernels/gemm/gemm.h"
#include "kernels/ggml_blocks.h"
#include "kernels/head/head.h"
#include "kernels/weight/encoded_weight.h"

namespace trl::kernels {
namespace {

using test::parameter;
using test::random;
using test::same_bits;

struct ProjectionTypes {
  at::ScalarType x, w, factors, compute;
};
constexpr auto kF = at::kFloat, kB = at::kBFloat16;
constexpr ProjectionTypes kProjectionTypes[] = {
    {kF, kF, kF, kF}, {kF, kF, kF, kB}, {kB, kB, kF, kB}, {kB, kB, kB, kB}};

// A projection with a bias and low-rank terms, one without either, and one whose weight is [in, out].
class Projections {
 public:
  Projections(int64_t in, int64_t out, const ProjectionTypes& types, int64_t rank = 5) {
    const auto add = [&](const std::vector<int64_t>& sizes, at::ScalarType type) {
      all_.push_back(parameter(random(sizes, std::ssize(all_) + 5, type) * 0.3, kF));
      all_.back().trainable = false;
    };
    all_.reserve(8);
    add({out, in}, types.w);
    add({out}, types.w);
    add({out + 3, in}, types.w);
    add({in, out}, types.w);
    add({rank, in}, types.factors);
    add({out, rank}, types.factors);
  }
  at::Tensor of(const at::Tensor& x, at::ScalarType compute) {
    const at::NoGradGuard no_grad;
    const Projection p[] = {{&all_[0], &all_[1], false, {&all_[4], &all_[5], 2.0}},
                            {&all_[2], nullptr},
                            {&all_[3], nullptr, true}};
    return at::cat(linear(x, p, compute), 1);
  }

 private:
  std::vector<Parameter> all_;
};

// The rounding of a product with float32 terms. Without vectors they are added one after the other, and it
// grows with the root of their number.
double rounding([[maybe_unused]] int64_t terms) {
#ifdef TRL_CPU_SCALAR
  return std::max(2e-6, 0x1p-23 * std::sqrt(static_cast<double>(terms)));
#else
  return 2e-6;
#endif
}

template <typename Product>
void expect_independent(const at::Tensor& x, const Product& product, double limit) {
  const at::Tensor usual = product(x);
  const IndependentRows independent;
  const at::Tensor whole = product(x);
  EXPECT_LT(test::error_of(whole, usual.to(at::kDouble)), limit);
  for (const int64_t count : {1, 3, 17, 40}) {
    std::vector<at::Tensor> parts;
    for (int64_t row = 0; row < x.size(0); row += count)
      parts.push_back(product(x.narrow(0, row, std::min(count, x.size(0) - row)).contiguous()));
    EXPECT_TRUE(same_bits(at::cat(parts), whole)) << count;
  }
  const test::Threads three(3);
  EXPECT_TRUE(same_bits(product(x), whole));
}

TEST(RowProducts, OfProjectionsHaveTheSameBitsBesideAnyRows) {
  for (const auto& [rows, in, out] :
       {std::tuple{70, 96, 64}, {33, 100, 37}, {5, 17, 5}, {130, 576, 192}, {18, 1100, 37}, {4, 8300, 35}}) {
    for (const ProjectionTypes& types : kProjectionTypes) {
      SCOPED_TRACE(testing::Message()
                   << rows << " x " << in << " x " << out << " " << types.w << " " << types.compute);
      Projections projections(in, out, types);
      test::each_table([&] {
        expect_independent(
            random({rows, in}, 1, types.x),
            [&](const at::Tensor& x) { return projections.of(x, types.compute); },
            types.compute == kF ? rounding(in) : 1.6e-2);
      });
    }
  }
}

// Up to kMostFewTerms terms are added by a kernel of their own.
TEST(RowProducts, OfTermsOfAnyRankHaveTheSameBitsBesideAnyRows) {
  for (const int64_t rank : {1, 2, 16, 33, 63, 64, 65}) {
    for (const ProjectionTypes& types : kProjectionTypes) {
      SCOPED_TRACE(testing::Message() << rank << " " << types.factors << " " << types.compute);
      Projections projections(96, 75, types, rank);
      test::each_table([&] {
        expect_independent(
            random({43, 96}, 1, types.x),
            [&](const at::Tensor& x) { return projections.of(x, types.compute); },
            types.compute == kF ? rounding(96) : 1.6e-2);
      });
    }
  }
}

TEST(RowProducts, OfEncodedWeightsHaveTheSameBitsBesideAnyRows) {
  const at::Tensor w = random({150, 192}, 3);
  FourBitValues values{.type = io::FourBit::nf4, .block = 64};
  values.codes = at::empty({w.numel() / 2}, at::kByte);
  values.absmax = at::empty({w.numel() / 64});
  io::encode_four_bit(io::FourBit::nf4, w.data_ptr<float>(), w.numel(), 64, values.codes.data_ptr<uint8_t>(),
                      values.absmax.data_ptr<float>());
  Parameter encoded("w", four_bit_weight(w.sizes().vec(), std::move(values)), kF);
  for (const at::ScalarType type : {kF, kB}) {
    test::each_table([&] {
      const auto projected = [&](const at::Tensor& x) { return linear(x, encoded, nullptr, type); };
      expect_independent(random({70, 192}, 1, type), projected, type == kF ? 2e-6 : 1.2e-2);
      const auto logits = [&](const at::Tensor& x) { return head_logits(x, encoded, {.compute = type}); };
      expect_independent(random({70, 192}, 1, type), logits, type == kF ? 2e-6 : 1.2e-2);
    });
  }
}

TEST(RowProducts, OfRowsOf8BitCodesHaveTheSameBitsBesideAnyRows) {
  const at::Tensor codes = at::randint(-127, 128, {150, 192}, at::kFloat).to(at::kChar);
  Parameter encoded("w", int8_weight({150, 192}, codes, at::rand({150}) + 0.5), kF);
  for (const at::ScalarType type : {kF, kB}) {
    test::each_table([&] {
      const auto projected = [&](const at::Tensor& x) { return linear(x, encoded, nullptr, type); };
      expect_independent(random({70, 192}, 1, type), projected, type == kF ? 2e-6 : 1.2e-2);
    });
  }
}

TEST(RowProducts, OfBlocksOfFilesHaveTheSameBitsBesideAnyRows) {
  for (const test::Layout& layout : test::kLayouts) {
    test::Bytes bytes;
    Parameter encoded("w", ggml_weight(nullptr, test::blocks(layout, 83, 768, bytes)), kF);
    for (const at::ScalarType type : {kF, kB}) {
      SCOPED_TRACE(testing::Message() << layout.type << " " << type);
      test::each_table([&] {
        const auto projected = [&](const at::Tensor& x) { return linear(x, encoded, nullptr, type); };
        expect_independent(random({70, 768}, 1, type), projected, type == kF ? 2e-6 : 1.2e-2);
      });
    }
  }
}

TEST(RowProducts, OfAHeadHaveTheSameBitsBesideAnyRows) {
  for (const ProjectionTypes& types : kProjectionTypes) {
    Parameter head = parameter(random({300, 100}, 3, types.w), kF);
    test::each_table([&] {
      const auto logits = [&](const at::Tensor& x) {
        return head_logits(x, head, {.compute = types.compute});
      };
      expect_independent(random({70, 100}, 1, types.x), logits, types.compute == kF ? 2e-6 : 1.2e-2);
    });
  }
}

}  // namespace
}  // namespace trl::kernels
