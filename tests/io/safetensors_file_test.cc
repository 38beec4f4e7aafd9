// safetensors: what was written comes back; a header that lies in any way is an error that names file and
// tensor.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/json/json.h"
#include "io/safetensors.h"
#include "io/temporary_file.h"

namespace trl::io {
namespace {

using base::Json;
using test::TemporaryDirectory;

std::string file_of(std::string_view header, std::string_view data, int64_t length = -1) {
  const uint64_t size = length < 0 ? header.size() : static_cast<uint64_t>(length);
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &size, 8);
  return bytes + std::string(header) + std::string(data);
}

void expect_error(const std::string& bytes, std::string_view part, Status status = Status::format) {
  const TemporaryDirectory directory;
  const std::string path = directory.write("m.safetensors", bytes);
  try {
    Safetensors file(path);
    ADD_FAILURE() << "read without an error; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.message();
    EXPECT_NE(error.message().find("m.safetensors: "), std::string::npos) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

std::string entry(std::string_view name, std::string_view dtype, std::string_view shape,
                  std::string_view offsets) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":{}}})", name, dtype, shape, offsets);
}

TEST(Safetensors, WritesWhatItReads) {
  const TemporaryDirectory directory;
  const float a[] = {1, 2, 3, 4, 5, 6};
  const uint16_t b[] = {0x3f80, 0x4000, 0xc049};
  const std::string path = directory.file("m.safetensors");
  write_safetensors(path, {{"b", ElementType::bf16, {3}, b},
                           {"a", ElementType::f32, {2, 3}, a},
                           {"none", ElementType::f32, {0, 4}, a}});
  const Safetensors file(path);
  ASSERT_EQ(file.tensors().size(), 3u);
  const TensorView& first = file.tensors().at("a");
  EXPECT_EQ(first.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(first.type_name, "F32");
  EXPECT_EQ(std::memcmp(first.data, a, sizeof a), 0);
  EXPECT_EQ(file.tensors().at("b").type, ElementType::bf16);
  EXPECT_EQ(std::memcmp(file.tensors().at("b").data, b, sizeof b), 0);
  EXPECT_EQ(file.tensors().at("none").bytes, 0u);
  const std::string bytes = base::read_file(path);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  EXPECT_EQ(header % 8, 0u);
  EXPECT_EQ(base::parse_json(bytes.substr(8, header), "header")["__metadata__"]["format"], "pt");
}

TEST(Safetensors, RefusesHeadersThatLie) {
  const std::string eight(8, '\0');
  const std::string one = entry("w", "F32", "[2]", "[0,8]");
  expect_error("abc", "too few");
  expect_error("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n",
               ": it is a Git LFS pointer, not the file itself: fetch it with git lfs pull");
  expect_error(file_of("{}", "", 1000), "header length 1000 is larger");
  expect_error(file_of("{}", "", INT64_MAX), "header length");
  expect_error(file_of("{", ""), "not valid JSON");
  expect_error(file_of("[]", ""), "not a JSON object");
  expect_error(file_of("{" + one + "}", eight.substr(1)),
               "tensor w: data_offsets [0, 8] lie outside the 7 bytes");
  expect_error(file_of("{" + one + "}", eight + "x"), "1 bytes of data after the last tensor");
  expect_error(file_of("{" + entry("w", "F32", "[2]", "[8,0]") + "}", eight),
               "tensor w: data_offsets [8, 0]");
  expect_error(file_of("{" + entry("w", "F32", "[3]", "[0,8]") + "}", eight),
               "ask for 12 bytes, data_offsets give 8");
  expect_error(file_of("{" + entry("w", "BF16", "[2]", "[0,8]") + "}", eight), "ask for 4 bytes");
  expect_error(file_of("{" + entry("w", "F32", "[4611686018427387904,4]", "[0,0]") + "}", ""),
               "shape is too large");
  expect_error(file_of("{" + entry("w", "F32", "[18446744073709551615]", "[0,0]") + "}", ""),
               "shape is too large");
  expect_error(file_of("{" + entry("w", "F32", "[-2]", "[0,8]") + "}", eight),
               "tensor w: shape holds something");
  expect_error(file_of("{" + entry("w", "F32", "[2.0]", "[0,8]") + "}", eight),
               "tensor w: shape holds something");
  expect_error(file_of("{" + entry("w", "F32", "[2]", "[0,-8]") + "}", eight),
               "tensor w: data_offsets holds");
  expect_error(file_of("{" + entry("w", "F32", "[2]", "[0]") + "}", eight), "tensor w: expected dtype");
  expect_error(file_of("{" + entry("w", "F3", "[2]", "[0,8]") + "}", eight),
               "tensor w: dtype \"F3\" is not known", Status::unsupported);
  expect_error(file_of(R"({"w":{"dtype":"F32","shape":[2]}})", eight),
               "tensor w: \"data_offsets\" is missing");
  expect_error(file_of(R"({"w":3})", ""), "tensor w: entry is not an object");
}

TEST(Safetensors, RefusesOverlapHolesAndDuplicates) {
  const std::string data(16, '\0');
  const std::string a = entry("a", "F32", "[2]", "[0,8]");
  expect_error(file_of("{" + a + "," + entry("b", "F32", "[2]", "[4,12]") + "}", data.substr(4)),
               "tensor b: data begins at 4, inside");
  expect_error(file_of("{" + a + "," + entry("b", "F32", "[1]", "[12,16]") + "}", data),
               "tensor b: data begins at 12, past");
  expect_error(file_of("{" + entry("b", "F32", "[2]", "[8,16]") + "}", data),
               "tensor b: data begins at 8, past");
  expect_error(file_of("{" + a + "," + a + "}", data.substr(8)), "header names \"a\" twice");
  expect_error(
      file_of(R"({"a":{"dtype":"F32","dtype":"F16","shape":[2],"data_offsets":[0,8]}})", data.substr(8)),
      "header names \"dtype\" twice");
  expect_error(file_of(R"({"__metadata__":{"k":1}})", ""), "value of \"k\" is not a string");
  expect_error(file_of(R"({"__metadata__":[]})", ""), "__metadata__ is not an object");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"a":[)";
  expect_error(file_of(deep, ""), "header is nested deeper than 4 levels");
}

// A model of experts in 4 bits has that many tensors; time that grows with their square would end this test.
TEST(Safetensors, AHundredThousandTensors) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i)
    header +=
        fmt::format("{}{}", i == 0 ? "" : ",", entry(fmt::format("experts.{}", i), "F32", "[0]", "[0,0]"));
  const TemporaryDirectory directory;
  const std::string path = directory.write("model.safetensors", file_of(header + "}", ""));
  EXPECT_EQ(Safetensors(path).tensors().size(), 100'000u);
}

TEST(Safetensors, SurvivesEveryTruncationAndFlip) {
  const TemporaryDirectory directory;
  const float a[] = {1, 2, 3, 4};
  write_safetensors(directory.file("good"),
                    {{"a", ElementType::f32, {2, 2}, a}, {"b", ElementType::f32, {4}, a}});
  const std::string good = base::read_file(directory.file("good"));
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      const Safetensors file(directory.write("m.safetensors", bytes));
      for (const auto& [name, view] : file.tensors()) {
        float value = 0;
        if (view.type == ElementType::f32 && view.bytes >= 4) read_floats(view.type, view.data, 0, 1, &value);
      }
    } catch (const Error&) {
      ++refused;
    }
  };
  for (size_t size = 0; size < good.size(); ++size) attempt(good.substr(0, size));
  EXPECT_EQ(refused, static_cast<int>(good.size()));
  for (size_t i = 0; i < good.size(); ++i) {
    for (const char flip : {'\x01', '\x80', '\xff'}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(bytes[i] ^ flip);
      attempt(bytes);
    }
  }
}

TEST(Weights, ShardsAndIndex) {
  const TemporaryDirectory directory;
  const float a[] = {1, 2, 3, 4};
  const std::vector<NamedTensor> tensors = {
      {"x", ElementType::f32, {2}, a}, {"y", ElementType::f32, {4}, a}, {"z", ElementType::f32, {1}, a}};
  const auto write = [&](int64_t max_shard_bytes) {
    base::StagedDirectory staged(directory.path());
    const std::vector<std::string> names = write_weights(staged, tensors, max_shard_bytes);
    staged.commit();
    return names;
  };
  EXPECT_EQ(write(kMaxShardBytes), std::vector<std::string>{"model.safetensors"});
  base::remove_tree(directory.file("model.safetensors"));
  const std::vector<std::string> names = write(12);
  EXPECT_EQ(names,
            (std::vector<std::string>{"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors", "model.safetensors.index.json"}));
  const Json index = base::read_json_file(directory.file("model.safetensors.index.json"));
  EXPECT_EQ(index["metadata"]["total_size"], 28);
  EXPECT_EQ(index["weight_map"]["y"], "model-00002-of-00003.safetensors");
  const Weights weights = Weights::open_directory(directory.path());
  EXPECT_EQ(weights.names(), (std::vector<std::string>{"x", "y", "z"}));
  EXPECT_EQ(std::memcmp(weights.find("y")->data, a, sizeof a), 0);
  EXPECT_EQ(weights.find("w"), nullptr);
  for (const std::string& name : names) EXPECT_TRUE(is_weight_file(name));
  EXPECT_FALSE(is_weight_file("model-0000a-of-00003.safetensors"));
  EXPECT_FALSE(is_weight_file("adapter_model.safetensors"));
}

void expect_directory_error(const TemporaryDirectory& directory, Status status, std::string_view part) {
  try {
    Weights::open_directory(directory.path());
    ADD_FAILURE() << "opened without an error; expected: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  }
}

TEST(Weights, BadDirectories) {
  const TemporaryDirectory directory;
  expect_directory_error(directory, Status::not_found, "holds neither model.safetensors nor");
  const std::string index = "model.safetensors.index.json";
  directory.write(index, "{}");
  expect_directory_error(directory, Status::format, "\"weight_map\" is missing");
  directory.write(index, R"({"weight_map":{"w":"model-00001-of-00001.safetensors"}})");
  expect_directory_error(directory, Status::not_found, "shard model-00001-of-00001.safetensors is missing");
  const float a[] = {1};
  write_safetensors(directory.file("model-00001-of-00001.safetensors"), {{"v", ElementType::f32, {1}, a}});
  expect_directory_error(directory, Status::format, "model-00001-of-00001.safetensors: tensor w is missing");
  for (const char* shard :
       {"\"../x.safetensors\"", "\"/etc/passwd\"", "\"sub/x\"", "\"..\"", "\"\"", "3", "\"a\\u0000b\""}) {
    directory.write(index, fmt::format(R"({{"weight_map":{{"w":{}}}}})", shard));
    expect_directory_error(directory, Status::format, "is not the name of a file beside the index");
  }
}

TEST(Elements, ConvertExactly) {
  EXPECT_EQ(half_to_float(0x3c00), 1.0f);
  EXPECT_EQ(half_to_float(0xc000), -2.0f);
  EXPECT_EQ(half_to_float(0x7bff), 65504.0f);
  EXPECT_EQ(half_to_float(0x0001), 0x1p-24f);
  EXPECT_EQ(half_to_float(0x83ff), -0x1.ff8p-15f);
  EXPECT_EQ(half_to_float(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(half_to_float(0x7e00)));
  EXPECT_TRUE(std::signbit(half_to_float(0x8000)));
  const double wide[] = {0.1, -1e300};
  float narrow[2];
  read_floats(ElementType::f64, wide, 0, 2, narrow);
  EXPECT_EQ(narrow[0], 0.1f);
  EXPECT_EQ(narrow[1], -std::numeric_limits<float>::infinity());
}

}  // namespace
}  // namespace trl::io
