// Copies of weights in fewer bits, and products with them: against integers, ATen's operators, and each
// other.
#include "kernels/weight/narrow_weight.h"

#include "io/four_bit.h"
#include "kernels/compare.h"
#include "kernels/experts/experts.h"
#include "kernels/gemm/gemm.h"
#include "kernels/head/head.h"
#include "kernels/plain.h"
#include "kernels/weight/encoded_weight.h"

namespace trl::kernels {
namespace {

using test::error_of;
using test::parameter;
using test::random;
using test::same_bits;

constexpr NarrowType kNarrowTypes[] = {NarrowType::bfloat16, NarrowType::int8, NarrowType::int4};
constexpr NarrowType kCodeTypes[] = {NarrowType::int8, NarrowType::int4};

std::string name_of(NarrowType type) {
  return std::string(std::array{"bfloat16", "int8", "int4"}[static_cast<size_t>(type)]);
}

Parameter frozen(const at::Tensor& values) { return {"w", values.contiguous()}; }

double relative_error(const at::Tensor& got, const at::Tensor& want) {
  return (got - want).norm().item<double>() / want.norm().item<double>();
}

at::Tensor projected(const at::Tensor& x, Parameter& w, const NarrowWeight& copy, Parameter* bias = nullptr) {
  const at::NoGradGuard no_grad;
  Projection p{&w, bias};
  p.narrow = &copy;
  return linear(x, p, x.scalar_type())[0];
}

TEST(NarrowWeight, DiffersFromTheWeightByItsErrors) {
  for (const auto& [type, limit] :
       {std::pair{NarrowType::bfloat16, 0x1p-8}, {NarrowType::int8, 1.2e-2}, {NarrowType::int4, 0.12}}) {
    for (const at::ScalarType stored : {at::kFloat, at::kBFloat16}) {
      for (const auto& [out, in] : {std::pair{70, 100}, {32, 64}, {1, 1}, {97, 576}}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << stored << " " << out << " x " << in);
        test::each_table([&, type = type, limit = limit, out = out, in = in] {
          Parameter w = frozen(random({out, in}, 3, stored) * 0.1);
          const at::Tensor wide = w.read()->to(at::kFloat);
          const NarrowWeight copy(w, false, type);
          EXPECT_EQ(copy.outputs(), out);
          EXPECT_EQ(copy.terms(), in);
          const at::Tensor difference = copy.numbers() - wide;
          const NarrowErrors& errors = copy.errors();
          EXPECT_NEAR(std::sqrt(errors.values), wide.to(at::kDouble).norm().item<double>(), 2e-5);
          EXPECT_NEAR(std::sqrt(errors.errors), difference.to(at::kDouble).norm().item<double>(), 2e-5);
          const at::Tensor by_row = difference.norm(2, {1}) / wide.norm(2, {1});
          EXPECT_NEAR(errors.worst, by_row.max().item<double>(), 2e-5);
          EXPECT_LT(errors.worst, 2 * limit);
          EXPECT_LT(relative_error(copy.numbers(), wide), limit);
          if (type == NarrowType::bfloat16 && stored == at::kBFloat16) {
            EXPECT_EQ(errors.errors, 0);
          }
        });
      }
    }
  }
}

TEST(NarrowWeight, HasTheStepsThatAreStated) {
  const at::Tensor w = random({40, 96}, 3);
  Parameter parameter = frozen(w);
  const at::Tensor eight = NarrowWeight(parameter, false, NarrowType::int8).numbers();
  const at::Tensor step = w.abs().amax(1, true) / 127;
  EXPECT_LT(((eight - w).abs() / step).max().item<double>(), 0.5 + 1e-4);
  const at::Tensor codes = eight / step;
  EXPECT_LT((codes - codes.round()).abs().max().item<double>(), 1e-4);
  const at::Tensor four = NarrowWeight(parameter, false, NarrowType::int4).numbers().view({40, 3, 32});
  const at::Tensor blocks = w.view({40, 3, 32});
  const at::Tensor place = blocks.abs().argmax(-1, true);
  const at::Tensor most = blocks.gather(-1, place);
  EXPECT_LT(((four.gather(-1, place) - most) / most).abs().max().item<double>(), 0x1p-8);
  EXPECT_LT(((four - blocks).abs() / (most.abs() / 8)).max().item<double>(), 1.05);
}

TEST(NarrowWeight, OfAnEncodedOrTransposedWeightIsThatOfItsNumbers) {
  const at::Tensor values = random({70, 128}, 3);
  FourBitValues four{.type = io::FourBit::nf4, .block = 64};
  four.codes = at::empty({values.numel() / 2}, at::kByte);
  four.absmax = at::empty({values.numel() / 64});
  io::encode_four_bit(io::FourBit::nf4, values.data_ptr<float>(), values.numel(), 64,
                      four.codes.data_ptr<uint8_t>(), four.absmax.data_ptr<float>());
  for (const at::ScalarType stored : {at::kFloat, at::kBFloat16}) {
    Parameter encoded("w", four_bit_weight({70, 128}, four), stored);
    Parameter decoded = frozen(*encoded.read());
    Parameter transposed = frozen(encoded.read()->t());
    for (const NarrowType type : kNarrowTypes) {
      const NarrowWeight copy(decoded, false, type);
      EXPECT_TRUE(same_bits(NarrowWeight(encoded, false, type).values(), copy.values())) << name_of(type);
      EXPECT_TRUE(same_bits(NarrowWeight(transposed, true, type).values(), copy.values())) << name_of(type);
    }
  }
}

TEST(NarrowWeight, IsCopiedAgainOnlyAfterAChange) {
  for (const NarrowType type : kNarrowTypes) {
    Parameter w = frozen(random({70, 100}, 3));
    NarrowWeight copy(w, false, type);
    const at::Tensor before = copy.numbers();
    copy.values().zero_();
    copy.refresh();  // nothing has changed, so nothing is copied
    EXPECT_FALSE(same_bits(copy.numbers(), before)) << name_of(type);
    w.write()->mul_(1);
    copy.refresh();
    EXPECT_TRUE(same_bits(copy.numbers(), before)) << name_of(type);
    w.write()->mul_(2);
    copy.refresh();
    EXPECT_TRUE(same_bits(copy.numbers(), before * 2)) << name_of(type);
  }
}

// Values that are their own codes: all steps are 1, and every product is an integer.
at::Tensor integers(at::IntArrayRef sizes, int64_t seed, int64_t low, int64_t high, float top) {
  at::Generator generator = at::detail::createCPUGenerator(static_cast<uint64_t>(seed));
  at::Tensor x = at::randint(low, high + 1, sizes, generator).to(at::kFloat);
  x.view({-1, 32}).select(1, 5).fill_(top);
  return x;
}

TEST(NarrowProducts, OfIntegersAreExact) {
  for (const NarrowType type : kCodeTypes) {
    const bool four = type == NarrowType::int4;
    const at::Tensor w = four ? integers({70, 224}, 1, -8, 7, -8) : integers({70, 224}, 1, -127, 127, -127);
    const at::Tensor x = integers({45, 224}, 2, -127, 127, 127);
    const at::Tensor want = at::linear(x.to(at::kDouble), w.to(at::kDouble)).to(at::kFloat);
    Parameter weight = frozen(w);
    test::each_table([&] {
      const NarrowWeight copy(weight, false, type);
      EXPECT_EQ(copy.errors().errors, 0) << name_of(type);
      EXPECT_TRUE(same_bits(projected(x, weight, copy), want)) << name_of(type);
    });
  }
}

// The largest codes of either sign, for sums that come near the limits of the instructions.
TEST(NarrowProducts, OfTheLargestCodesAreExact) {
  for (const NarrowType type : kCodeTypes) {
    const float most = type == NarrowType::int4 ? -8.0f : 127.0f;
    for (const float sign : {-1.0f, 1.0f}) {
      Parameter weight = frozen(at::full({33, 64}, most));
      const at::Tensor x = at::full({3, 64}, sign * 127.0f);
      test::each_table([&] {
        const NarrowWeight copy(weight, false, type);
        const at::Tensor want = at::full({3, 33}, 64 * 127.0f * sign * most);
        EXPECT_TRUE(same_bits(projected(x, weight, copy), want)) << name_of(type);
      });
    }
  }
}

TEST(NarrowProducts, AreThoseOfThePlainPath) {
  for (const NarrowType type : kNarrowTypes) {
    for (const at::ScalarType x_type : {at::kFloat, at::kBFloat16}) {
      for (const auto& [rows, in, out] : {std::tuple{70, 100, 37}, {1, 64, 32}, {9, 17, 5}, {3, 1100, 100}}) {
        SCOPED_TRACE(testing::Message()
                     << name_of(type) << " " << x_type << " " << rows << " x " << in << " x " << out);
        Parameter w = frozen(random({out, in}, 3) * 0.3), bias = frozen(random({out}, 4));
        const at::Tensor x = random({rows, in}, 1, x_type);
        test::each_table([&] {
          const NarrowWeight copy(w, false, type);
          at::Tensor plain;
          {
            const test::PathScope scope(test::Path::plain);
            plain = projected(x, w, copy, &bias);
          }
          EXPECT_LT(error_of(projected(x, w, copy, &bias), plain), test::tolerance(x_type));
        });
      }
    }
  }
}

TEST(NarrowProducts, AreNearThoseOfTheWeight) {
  const at::Tensor x = random({16, 512}, 1);
  Parameter w = frozen(random({256, 512}, 3) * 0.05);
  const at::Tensor want = at::linear(x, *w.read());
  for (const auto& [type, limit] :
       {std::pair{NarrowType::bfloat16, 2.5e-3}, {NarrowType::int8, 1.1e-2}, {NarrowType::int4, 0.1}}) {
    const double error = relative_error(projected(x, w, NarrowWeight(w, false, type)), want);
    EXPECT_LT(error, limit) << name_of(type);
    EXPECT_GT(error, limit / 5) << name_of(type);
  }
}

TEST(NarrowProducts, HaveTheSameBitsBesideAnyRows) {
  for (const NarrowType type : kNarrowTypes) {
    for (const at::ScalarType x_type : {at::kFloat, at::kBFloat16}) {
      Parameter w = frozen(random({100, 1100}, 3)), bias = frozen(random({100}, 4));
      const at::Tensor x = random({70, 1100}, 1, x_type);
      test::each_table([&] {
        const NarrowWeight copy(w, false, type);
        const IndependentRows independent;
        const at::Tensor whole = projected(x, w, copy, &bias);
        for (const int64_t count : {1, 2, 5, 7, 33}) {
          std::vector<at::Tensor> parts;
          for (int64_t row = 0; row < 70; row += count)
            parts.push_back(
                projected(x.narrow(0, row, std::min(count, 70 - row)).contiguous(), w, copy, &bias));
          EXPECT_TRUE(same_bits(at::cat(parts), whole)) << name_of(type) << " " << count;
        }
        const test::Threads three(3);
        EXPECT_TRUE(same_bits(projected(x, w, copy, &bias), whole)) << name_of(type);
      });
    }
  }
}

TEST(NarrowProducts, OfSeveralCopiesInOneCallAreThoseOfEach) {
  const at::NoGradGuard no_grad;
  Parameter a = frozen(random({40, 96}, 3)), b = frozen(random({7, 96}, 4)), c = frozen(random({33, 96}, 5));
  const NarrowWeight of_a(a, false, NarrowType::int8), of_b(b, false, NarrowType::int4);
  const at::Tensor x = random({5, 96}, 1);
  Projection p[] = {{&a}, {&b}, {&c}};
  p[0].narrow = &of_a;
  p[1].narrow = &of_b;
  const std::vector<at::Tensor> together = linear(x, p, at::kFloat);
  EXPECT_TRUE(same_bits(together[0], projected(x, a, of_a)));
  EXPECT_TRUE(same_bits(together[1], projected(x, b, of_b)));
  EXPECT_TRUE(same_bits(together[2], linear(x, c, nullptr, at::kFloat)));
}

TEST(NarrowProducts, LowRankTermsAreAddedAsTheyAre) {
  const at::NoGradGuard no_grad;
  Parameter w = frozen(random({40, 96}, 3)), a = frozen(random({4, 96}, 4)), b = frozen(random({40, 4}, 5));
  const at::Tensor x = random({5, 96}, 1);
  for (const NarrowType type : kNarrowTypes) {
    const NarrowWeight copy(w, false, type);
    Projection p{&w, nullptr, false, {&a, &b, 0.5}};
    p.narrow = &copy;
    const at::Tensor terms = at::linear(at::linear(x, *a.read()), *b.read()) * 0.5;
    EXPECT_LT(error_of(linear(x, p, at::kFloat)[0], projected(x, w, copy) + terms), 2e-6) << name_of(type);
  }
}

TEST(NarrowProducts, OfExpertsAreNearThoseOfTheNumbersOfTheirCopies) {
  const at::NoGradGuard no_grad;
  Parameter gate_up = frozen(random({6, 64, 96}, 3) * 0.1), down = frozen(random({6, 96, 32}, 4) * 0.1);
  const at::Tensor x = random({40, 96}, 1);
  const Routing routing = route(random({40, 6}, 2), 2, true);
  for (const NarrowType type : kNarrowTypes) {
    test::each_table([&] {
      const NarrowWeight of_gate_up(gate_up, false, type), of_down(down, false, type);
      Parameter own_gate_up = frozen(of_gate_up.numbers().view({6, 64, 96})),
                own_down = frozen(of_down.numbers().view({6, 96, 32}));
      const auto mixed = [&](const at::Tensor& rows, const Routing& r, const ExpertWeights& weights) {
        const IndependentRows independent;
        return experts(rows, r, weights, Activation::silu, at::kFloat);
      };
      const ExpertWeights copied{&gate_up, &down, {}, {}, &of_gate_up, &of_down};
      const at::Tensor got = mixed(x, routing, copied);
      EXPECT_LT(relative_error(got, mixed(x, routing, {&own_gate_up, &own_down})),
                type == NarrowType::bfloat16 ? 1e-5 : 2e-2)
          << name_of(type);
      const Routing one{routing.weights.narrow(0, 7, 1), routing.experts.narrow(0, 7, 1)};
      EXPECT_TRUE(same_bits(mixed(x.narrow(0, 7, 1), one, copied)[0], got[7])) << name_of(type);
    });
  }
}

TEST(NarrowProducts, AValueThatIsNotFiniteSpoilsItsRowAlone) {
  Parameter w = frozen(random({40, 96}, 3));
  const at::Tensor x = random({5, 96}, 1);
  for (const NarrowType type : kNarrowTypes) {
    test::each_table([&] {
      const NarrowWeight copy(w, false, type);
      const at::Tensor want = projected(x, w, copy);
      for (const float bad :
           {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
        const at::Tensor other = x.clone();
        other[2][50] = bad;
        const at::Tensor got = projected(other, w, copy);
        EXPECT_FALSE(at::isfinite(got[2]).any().item<bool>()) << name_of(type);
        EXPECT_TRUE(same_bits(got[1], want[1]) && same_bits(got[3], want[3])) << name_of(type);
      }
    });
  }
}

TEST(NarrowProducts, AWeightThatIsNotFiniteSpoilsItsOutputAlone) {
  Parameter good = frozen(random({40, 96}, 3)), bad = frozen(good.read()->clone());
  bad.write()->operator[](7)[50] = std::numeric_limits<float>::quiet_NaN();
  const at::Tensor x = random({5, 96}, 1);
  for (const NarrowType type : kNarrowTypes) {
    test::each_table([&] {
      const at::Tensor want = projected(x, good, NarrowWeight(good, false, type));
      const at::Tensor got = projected(x, bad, NarrowWeight(bad, false, type));
      EXPECT_TRUE(at::isnan(got.select(1, 7)).all().item<bool>()) << name_of(type);
      EXPECT_TRUE(same_bits(got.narrow(1, 8, 32), want.narrow(1, 8, 32))) << name_of(type);
    });
  }
}

TEST(NarrowProducts, MakeTheLogitsOfAHeadAndNotThoseOfItsOwnRows) {
  Parameter head = frozen(random({300, 100}, 3)), rows = frozen(random({2, 100}, 4));
  const OwnRows own{&rows, {5, 299}};
  const at::Tensor x = random({20, 100}, 1);
  for (const NarrowType type : kNarrowTypes) {
    const NarrowWeight copy(head, false, type);
    HeadOptions options{.scale = 0.5, .softcap = 20};
    options.narrow = &copy;
    options.own_rows = &own;
    at::Tensor want = projected(x, head, copy);
    want.index_copy_(1, at::tensor({5, 299}, at::kLong), at::linear(x, *rows.read()));
    want = at::tanh(want * 0.5 / 20) * 20;
    EXPECT_LT(error_of(head_logits(x, head, options), want), 2e-6) << name_of(type);
    const test::PathScope scope(test::Path::plain);
    EXPECT_LT(error_of(head_logits(x, head, options), want), 2e-6) << name_of(type);
  }
}

}  // namespace
}  // namespace trl::kernels
