// Block types against recorded blocks: of random bytes, dequantised by the Python package gguf 0.19 and by
// ggml's own functions, which agree in every bit; and of values that ggml quantised.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "io/gguf.h"
#include "io/gguf_types.h"
#include "io/safetensors.h"
#include "support/recorded.h"

namespace trl::io {
namespace {

constexpr const char* kBlocks = "gguf_blocks/blocks.gguf";

std::vector<float> values_of(const GgufTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.shape[0] * tensor.shape[1]));
  dequantize(tensor, 0, std::ssize(values), values.data());
  return values;
}

void expect_same_bits(const std::vector<float>& got, const std::vector<float>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
        << "element " << i << ": " << got[i] << " for " << want[i];
  }
}

TEST(GgufBlocks, DequantizesAsGgmlDoes) {
  TRL_NEED_GOLDEN(kBlocks);
  const Gguf file(test::golden_path(kBlocks));
  for (const char* name :
       {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"}) {
    SCOPED_TRACE(name);
    const GgufTensor& tensor = file.tensors().find(name)->second;
    EXPECT_EQ(tensor.type_name, name);
    const std::vector<float> want = values_of(file.tensors().find(std::string(name) + ".f32")->second);
    expect_same_bits(values_of(tensor), want);
    const int64_t block = tensor.shape[1];
    std::vector<float> second(static_cast<size_t>(block));
    dequantize(tensor, block, block, second.data());
    expect_same_bits(second, {want.begin() + block, want.begin() + 2 * block});
  }
}

TEST(GgufBlocks, QuantizesAsGgmlDoes) {
  TRL_NEED_GOLDEN(kBlocks);
  const Gguf file(test::golden_path(kBlocks));
  const std::vector<float> values = values_of(file.tensors().at("values"));
  for (const char* name : {"Q8_0", "Q4_0", "F16", "BF16"}) {
    SCOPED_TRACE(name);
    const GgufTensor& want = file.tensors().find(std::string("values.") + name)->second;
    const GgmlType& type = *find_ggml_type(std::string_view(name));
    ASSERT_TRUE(is_writable(type));
    std::vector<uint8_t> got(want.bytes);
    EXPECT_EQ(quantize(type, values.data(), std::ssize(values), got.data()), std::ssize(values));
    EXPECT_EQ(std::memcmp(got.data(), want.data, want.bytes), 0);
  }
}

TEST(GgufBlocks, TellsWhichValueDoesNotFit) {
  std::vector<uint8_t> out(256);
  const auto first_that_fits_not = [&](const char* name, float value) {
    std::vector<float> values(64, 1.0f);
    values[40] = value;
    return quantize(*find_ggml_type(std::string_view(name)), values.data(), 64, out.data());
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* name : {"Q8_0", "Q4_0"}) {
    EXPECT_EQ(first_that_fits_not(name, infinity), 32) << name;
    EXPECT_EQ(first_that_fits_not(name, std::nanf("")), 32) << name;
    EXPECT_EQ(first_that_fits_not(name, 1e8f), 32) << name;
    EXPECT_EQ(first_that_fits_not(name, 65504.0f), 64) << name;
  }
  EXPECT_EQ(first_that_fits_not("F16", 65520.0f), 40);
  EXPECT_EQ(first_that_fits_not("F16", 65519.0f), 64);
  EXPECT_EQ(first_that_fits_not("F16", infinity), 64);
  EXPECT_EQ(first_that_fits_not("BF16", 1e30f), 64);
  EXPECT_EQ(first_that_fits_not("F32", infinity), 64);
}

// Every float16 comes back as itself.
TEST(GgufBlocks, HalfIsExact) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    const uint16_t back = float_to_half(value);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(back)));
    } else {
      ASSERT_EQ(back, bits);
    }
  }
  EXPECT_EQ(float_to_half(0x1p-25f), 0);  // half of the smallest: a tie, to even
  EXPECT_EQ(float_to_half(0x1.8p-24f), 2);
  EXPECT_EQ(float_to_half(-65519.0f), 0xfbff);
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);
}

}  // namespace
}  // namespace trl::io
