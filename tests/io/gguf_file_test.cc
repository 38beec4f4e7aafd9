// GGUF: values and tensors come back exactly; whatever a file claims wrongly is an error that names it.
#include <gtest/gtest.h>

#include <bit>

#include "base/error.h"
#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "io/safetensors.h"
#include "io/temporary_file.h"

namespace trl::io {
namespace {

using test::GgufWriter;

Error error_of(const std::string& bytes) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("m.gguf", bytes);
  try {
    Gguf file(path);
  } catch (const Error& error) {
    EXPECT_NE(error.message().find("m.gguf"), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << error.message();
    return error;
  }
  ADD_FAILURE() << "read without an error";
  return Error(Status::ok, "");
}

void expect_error(const std::string& bytes, Status status, std::string_view part) {
  const Error error = error_of(bytes);
  EXPECT_EQ(error.status(), status) << error.message();
  EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
}

std::string half(float value) {  // exact values only
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value == 0) return GgufWriter::raw<uint16_t>(0);
  const uint32_t exponent = ((bits >> 23) & 0xff) - 112;
  return GgufWriter::raw(
      static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 0x3ff)));
}

GgufWriter sample() {
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("count", uint32_t{7});
  writer.add("eps", 0.5f);
  writer.add("flag", true);
  writer.add("tokens", std::vector<std::string>{"a", "", "\xC4\xA0t"});
  writer.pair("negative", test::kI32, GgufWriter::raw<int32_t>(-3));
  writer.pair("big", test::kU64, GgufWriter::raw<uint64_t>(UINT64_MAX));
  writer.pair("bytes", test::kArray,
              GgufWriter::raw(uint32_t{test::kU8}) + GgufWriter::raw<uint64_t>(2) + "\x01\xff");
  writer.pair("floats", test::kArray,
              GgufWriter::raw(uint32_t{test::kF32}) + GgufWriter::raw<uint64_t>(1) + GgufWriter::raw(1.5f));
  writer.tensor("w", {2, 3}, {1, 2, 3, 4, 5, 6});
  return writer;
}

TEST(Gguf, ReadsMetadataAndTensors) {
  const test::TemporaryDirectory directory;
  for (const uint32_t version : {2u, 3u}) {
    GgufWriter writer = sample();
    writer.version = version;
    const std::string path = directory.write("m.gguf", writer.bytes());
    EXPECT_TRUE(is_gguf(path));
    const Gguf file(path);
    EXPECT_EQ(file.metadata().size(), 9u);
    EXPECT_EQ(file.text("general.architecture"), "llama");
    EXPECT_EQ(file.integer("count"), 7);
    EXPECT_EQ(file.number("count"), 7.0);
    EXPECT_EQ(file.number("eps"), 0.5);
    EXPECT_EQ(std::get<bool>(*file.find("flag")), true);
    EXPECT_EQ(std::get<std::vector<std::string>>(*file.find("tokens")),
              (std::vector<std::string>{"a", "", "\xC4\xA0t"}));
    EXPECT_EQ(file.integer("negative"), -3);
    EXPECT_EQ(std::get<uint64_t>(*file.find("big")), UINT64_MAX);
    EXPECT_EQ(std::get<std::vector<int64_t>>(*file.find("bytes")), (std::vector<int64_t>{1, 255}));
    EXPECT_EQ(std::get<std::vector<double>>(*file.find("floats")), std::vector<double>{1.5});
    const GgufTensor& tensor = file.tensors().at("w");
    EXPECT_EQ(tensor.shape, (std::vector<int64_t>{2, 3}));
    EXPECT_EQ(tensor.type_name, "F32");
    std::vector<float> values(4);
    dequantize(tensor, 2, 4, values.data());
    EXPECT_EQ(values, (std::vector<float>{3, 4, 5, 6}));
  }
}

TEST(Gguf, TypedReadsNameTheKey) {
  const test::TemporaryDirectory directory;
  const Gguf file(directory.write("m.gguf", sample().bytes()));
  const auto message = [&](const auto& read) {
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::format);
      return error.message();
    }
    return std::string();
  };
  EXPECT_EQ(message([&] { file.text("none"); }), file.path() + ": metadata key none is missing");
  EXPECT_EQ(message([&] { file.text("count"); }), file.path() + ": metadata key count is not a string");
  EXPECT_EQ(message([&] { file.integer("eps"); }), file.path() + ": metadata key eps is not an integer");
  EXPECT_EQ(message([&] { file.integer("big"); }),
            file.path() + ": metadata key big is 18446744073709551615, larger than 2^63 - 1");
}

TEST(Gguf, DequantizesBlocks) {
  const test::TemporaryDirectory directory;
  GgufWriter writer;
  std::string q8 = half(0.375f);
  for (int i = 0; i < 32; ++i) q8 += static_cast<char>(i * 8 - 128);
  std::string q8_second = half(-2.0f);
  for (int i = 0; i < 32; ++i) q8_second += static_cast<char>(i);
  writer.tensor("q8", {1, 64}, 8, q8 + q8_second);
  std::string q4 = half(0.25f) + half(-1.5f);
  for (int i = 0; i < 16; ++i) q4 += static_cast<char>(i | (15 - i) << 4);
  writer.tensor("q4", {32}, 3, q4);
  writer.tensor("f16", {3}, 1, std::string("\x00\x3c\x01\x00\x00\xfc", 6));  // 1, 2^-24, -inf
  writer.tensor("bf16", {2}, 30, std::string("\x80\x3f\x49\xc0", 4));        // 1, -3.140625
  const Gguf file(directory.write("m.gguf", writer.bytes()));
  std::vector<float> values(64);
  dequantize(file.tensors().at("q8"), 0, 64, values.data());
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], 0.375f * static_cast<float>(i * 8 - 128));
    EXPECT_EQ(values[static_cast<size_t>(32 + i)], -2.0f * static_cast<float>(i));
  }
  dequantize(file.tensors().at("q8"), 32, 32, values.data());
  EXPECT_EQ(values[31], -62.0f);
  dequantize(file.tensors().at("q4"), 0, 32, values.data());
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(values[static_cast<size_t>(i)], 0.25f * static_cast<float>(i) - 1.5f);
    EXPECT_EQ(values[static_cast<size_t>(16 + i)], 0.25f * static_cast<float>(15 - i) - 1.5f);
  }
  dequantize(file.tensors().at("f16"), 0, 3, values.data());
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], 0x1p-24f);
  EXPECT_EQ(values[2], -std::numeric_limits<float>::infinity());
  dequantize(file.tensors().at("bf16"), 0, 2, values.data());
  EXPECT_EQ(values[0], 1.0f);
  EXPECT_EQ(values[1], -3.140625f);
  EXPECT_THROW(dequantize(file.tensors().at("q4"), 1, 31, values.data()), Error);
}

TEST(Gguf, RefusesWhatItCannotRead) {
  expect_error("GGML....", Status::format, "does not begin with");
  expect_error("", Status::format, "does not begin with");
  GgufWriter writer = sample();
  writer.version = 1;
  expect_error(writer.bytes(), Status::unsupported, "version 1");
  writer.version = 0x03000000;
  expect_error(writer.bytes(), Status::unsupported, "big-endian");
  GgufWriter k;
  k.tensor("blk.0.ffn_up.weight", {1, 256}, 16, std::string(66, '\0'));
  expect_error(k.bytes(), Status::unsupported,
               "tensor blk.0.ffn_up.weight: type IQ2_XXS is not read; these are: F32, F16, BF16, Q8_0, Q4_0, "
               "Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL");
  GgufWriter unknown;
  unknown.tensor("w", {1}, 4711, std::string(4, '\0'));
  expect_error(unknown.bytes(), Status::unsupported, "type 4711");
  GgufWriter nested;
  nested.pair("deep", test::kArray, GgufWriter::raw(uint32_t{test::kArray}) + GgufWriter::raw<uint64_t>(1));
  expect_error(nested.bytes(), Status::format, "deep: arrays of arrays");
  GgufWriter type;
  type.pair("odd", 77, "");
  expect_error(type.bytes(), Status::format, "odd: value has the unknown type 77");
}

TEST(Gguf, RefusesCountsThatLie) {
  GgufWriter tensors = sample();
  tensors.extra_tensors = UINT64_MAX / 2;
  expect_error(tensors.bytes(), Status::format, "tensors cannot lie");
  GgufWriter pairs = sample();
  pairs.extra_pairs = 1'000'000'000'000;
  expect_error(pairs.bytes(), Status::format, "metadata pairs cannot lie");
  GgufWriter array;
  array.pair("a", test::kArray,
             GgufWriter::raw(uint32_t{test::kString}) + GgufWriter::raw<uint64_t>(uint64_t{1} << 60));
  expect_error(array.bytes(), Status::format, "array items cannot lie");
  GgufWriter string;
  string.pair("s", test::kString, GgufWriter::raw<uint64_t>(UINT64_MAX));
  expect_error(string.bytes(), Status::format, "truncated: s at byte");
}

TEST(Gguf, RefusesBadTensors) {
  const std::string data(64, '\0');
  const auto with = [&](const std::vector<int64_t>& shape, uint32_t type, uint64_t offset) {
    GgufWriter writer;
    writer.tensor_at("w", shape, type, offset, data);
    return writer.bytes();
  };
  expect_error(with({1 << 30, int64_t{1} << 40}, 0, 0), Status::format, "tensor w: dimension");
  expect_error(with({4, 0}, 0, 0), Status::format, "tensor w: dimension 0 is 0");
  expect_error(with({1, 1, 1, 1, 16}, 0, 0), Status::format, "5 dimensions");
  expect_error(with({}, 0, 0), Status::format, "0 dimensions");
  expect_error(with({2, 8}, 8, 0), Status::format, "not a multiple of the 32 elements of a Q8_0 block");
  expect_error(with({16}, 0, 8), Status::format, "not a multiple of the alignment 32");
  expect_error(with({16}, 0, 32), Status::format, "truncated: tensor w needs bytes 32 to 96");
  expect_error(with({16}, 0, uint64_t{1} << 63), Status::format, "truncated: tensor w");
  GgufWriter overlap;
  overlap.tensor_at("a", {16}, 0, 0, data);
  overlap.tensor_at("b", {8}, 0, 32, "");
  expect_error(overlap.bytes(), Status::format, "tensor b: offset 32 lies inside another tensor");
  GgufWriter twice;
  twice.tensor("w", {1}, {1.0f});
  twice.tensor("w", {1}, {1.0f});
  expect_error(twice.bytes(), Status::format, "tensor w appears twice");
  GgufWriter keys;
  keys.add("k", true);
  keys.add("k", false);
  expect_error(keys.bytes(), Status::format, "metadata key k appears twice");
  for (const uint32_t alignment : {0u, 24u, 1u << 30}) {
    GgufWriter odd;
    odd.add("general.alignment", alignment);
    expect_error(odd.bytes(), Status::format, "general.alignment is");
  }
  GgufWriter name;
  name.tensor("a\nb", {1}, {1.0f});
  expect_error(name.bytes(), Status::format, "tensor name before byte");
}

TEST(Gguf, HonoursAlignment) {
  const test::TemporaryDirectory directory;
  GgufWriter writer;
  writer.alignment = 128;
  writer.add("general.alignment", uint32_t{128});
  writer.tensor("a", {2}, {1, 2});
  writer.tensor("b", {2}, {3, 4});
  const Gguf file(directory.write("m.gguf", writer.bytes()));
  float values[2];
  dequantize(file.tensors().at("b"), 0, 2, values);
  EXPECT_EQ(values[1], 4.0f);
}

// Whatever is cut off or flipped, the reader answers with an Error or with tensors that lie inside the file.
TEST(Gguf, SurvivesEveryTruncationAndFlip) {
  const test::TemporaryDirectory directory;
  const std::string good = sample().bytes();
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    const std::string path = directory.write("m.gguf", bytes);
    try {
      const Gguf file(path);
      for (const auto& [name, tensor] : file.tensors()) {
        std::vector<float> values(32);
        dequantize(tensor, 0, tensor.type == 0 ? 1 : 0, values.data());
      }
    } catch (const Error&) {
      ++refused;
    }
  };
  for (size_t size = 0; size < good.size(); ++size) attempt(good.substr(0, size));
  EXPECT_EQ(refused, static_cast<int>(good.size()) - 8);  // the last 8 bytes are padding after the tensor
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      attempt(bytes);
    }
  }
}

}  // namespace
}  // namespace trl::io
