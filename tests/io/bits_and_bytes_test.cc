// The codecs of bitsandbytes against what bitsandbytes 0.50.2 made on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "io/four_bit.h"
#include "io/safetensors.h"
#include "support/golden.h"

namespace trl::io {
namespace {

constexpr const char* kCases = "quantization/cases.json";
constexpr const char* kTensors = "quantization/tensors.safetensors";

class Recorded {
 public:
  Recorded() : file_(test::golden_path(kTensors)) {}
  bool has(const std::string& name) const { return file_.tensors().contains(name); }
  const TensorView& view(const std::string& name) const { return file_.tensors().at(name); }
  template <typename T>
  std::vector<T> values(const std::string& name) const {
    std::vector<T> out(view(name).bytes / sizeof(T));
    std::memcpy(out.data(), view(name).data, view(name).bytes);
    return out;
  }
  std::vector<float> floats(const std::string& name) const { return values<float>(name); }
  std::vector<uint8_t> bytes(const std::string& name) const { return values<uint8_t>(name); }

 private:
  Safetensors file_;
};

FourBit type_of(const base::Json& c) { return c["quant_type"] == "nf4" ? FourBit::nf4 : FourBit::fp4; }

struct Encoded {
  std::vector<uint8_t> codes;
  std::vector<float> absmax;
};

Encoded encode(FourBit type, const std::vector<float>& values, int64_t block) {
  const int64_t count = std::ssize(values);
  Encoded out{std::vector<uint8_t>(static_cast<size_t>((count + 1) / 2)),
              std::vector<float>(static_cast<size_t>((count + block - 1) / block))};
  EXPECT_EQ(encode_four_bit(type, values.data(), count, block, out.codes.data(), out.absmax.data()), count);
  return out;
}

TEST(FourBit, EncodesAsBitsAndBytesDoes) {
  TRL_NEED_GOLDEN(kTensors);
  const Recorded recorded;
  int checked = 0;
  for (const base::Json& c : test::golden_json(kCases)["cases"]) {
    if (!c.contains("quant_type")) continue;
    const std::string key = c["key"];
    SCOPED_TRACE(key);
    const Encoded got = encode(type_of(c), recorded.floats(c["input"]), c["blocksize"]);
    EXPECT_EQ(got.codes, recorded.bytes(key + ".packed"));
    if (!c["nested"]) {
      EXPECT_EQ(got.absmax, recorded.floats(key + ".absmax"));
      ++checked;
      continue;
    }
    std::vector<float> rest = got.absmax;
    for (float& value : rest) value -= c["offset"].get<float>();
    std::vector<uint8_t> codes(rest.size());
    std::vector<float> absmax((rest.size() + 255) / 256);
    encode_dynamic(rest.data(), std::ssize(rest), 256, codes.data(), absmax.data());
    EXPECT_EQ(codes, recorded.bytes(key + ".absmax"));
    EXPECT_EQ(absmax, recorded.floats(key + ".nested_absmax"));
    ++checked;
  }
  EXPECT_GE(checked, 20);
}

TEST(FourBit, CodesAreTheRecordedOnes) {
  TRL_NEED_GOLDEN(kTensors);
  const Recorded recorded;
  const auto same = [&](const auto& code, const std::string& name) {
    return std::vector<float>(code.begin(), code.end()) == recorded.floats(name);
  };
  EXPECT_TRUE(same(four_bit_code(FourBit::nf4), "code.nf4"));
  EXPECT_TRUE(same(four_bit_code(FourBit::fp4), "code.fp4"));
  EXPECT_TRUE(same(dynamic_code(), "code.dynamic8"));
}

TEST(FourBit, EncodesBlocksOfDynamicCodes) {
  TRL_NEED_GOLDEN(kTensors);
  const Recorded recorded;
  const std::vector<float> values = recorded.floats("blockwise8.input");
  std::vector<uint8_t> codes(values.size());
  std::vector<float> absmax(4);
  encode_dynamic(values.data(), std::ssize(values), 256, codes.data(), absmax.data());
  EXPECT_EQ(codes, recorded.bytes("blockwise8.packed"));
  EXPECT_EQ(absmax, recorded.floats("blockwise8.absmax"));
}

TEST(FourBit, SaysWhereAValueIsNotFinite) {
  std::vector<float> values(200, 0.5f);
  values[150] = std::numeric_limits<float>::infinity();
  std::vector<uint8_t> codes(100);
  std::vector<float> absmax(4);
  EXPECT_EQ(encode_four_bit(FourBit::nf4, values.data(), 200, 64, codes.data(), absmax.data()), 150);
}

TEST(Int8Rows, EncodesAsBitsAndBytesDoes) {
  TRL_NEED_GOLDEN(kTensors);
  const Recorded recorded;
  int checked = 0;
  for (const base::Json& c : test::golden_json(kCases)["cases"]) {
    if (!c.contains("scheme")) continue;
    const std::string key = c["key"];
    SCOPED_TRACE(key);
    const std::string input = key.substr(0, key.find('.')) + ".input";
    const std::vector<float> values = recorded.floats(input);
    const int64_t rows = recorded.view(input).shape[0], width = recorded.view(input).shape[1];
    std::vector<int8_t> codes(values.size());
    std::vector<float> absmax(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) {
      EXPECT_EQ(encode_int8_row(values.data() + r * width, width, codes.data() + r * width,
                                absmax[static_cast<size_t>(r)]),
                width);
    }
    EXPECT_EQ(codes, recorded.values<int8_t>(key + ".rows"));
    EXPECT_EQ(absmax, recorded.floats(key + ".row_absmax"));
    ++checked;
  }
  EXPECT_GE(checked, 5);
}

TEST(Int8Rows, SaysWhichValueFloat16DoesNotHold) {
  std::vector<float> values(8, 1.0f);
  values[5] = 70000.0f;
  std::vector<int8_t> codes(8);
  float absmax = 0;
  EXPECT_EQ(encode_int8_row(values.data(), 8, codes.data(), absmax), 5);
}

}  // namespace
}  // namespace trl::io
