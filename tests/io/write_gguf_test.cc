// What the writer writes, the reader reads; every tensor is aligned.
#include "io/gguf.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "io/gguf_types.h"
#include "io/temporary_file.h"

namespace trl::io {
namespace {

GgufPairs sample_pairs() {
  GgufPairs pairs;
  pairs.add("general.architecture", "llama");
  pairs.add("count", uint32_t{7});
  pairs.add("eps", 0.5f);
  pairs.add("flag", true);
  pairs.add("names", std::vector<std::string>{"a", "", "\xC4\xA0t"});
  GgufPairs more;
  more.add("ids", std::vector<int32_t>{-1, 3});
  more.add("scores", std::vector<float>{-1.5f, 0});
  pairs.append(more);
  return pairs;
}

GgufEntry entry(const std::string& name, std::vector<int64_t> shape, uint32_t type,
                const std::vector<float>& values) {
  const GgmlType* known = find_ggml_type(type);
  return {name, std::move(shape), known, [&values, known](int64_t first, int64_t count, uint8_t* out) {
            EXPECT_EQ(quantize(*known, values.data() + first, count, out), count);
          }};
}

TEST(WriteGguf, ReadsBack) {
  const test::TemporaryDirectory directory;
  std::vector<float> values(size_t{1200} * 1024);  // more than is encoded at once
  std::iota(values.begin(), values.end(), -7.0f);
  const std::vector<float> few = {1, 2, 3};
  const std::string path = directory.file("m.gguf");
  base::replace_file(path, [&](base::FileWriter& writer) {
    write_gguf(writer, sample_pairs(),
               {entry("few", {3}, kGgmlF32, few), entry("large", {1200, 1024}, kGgmlF32, values),
                entry("half", {3}, kGgmlF16, few), entry("blocks", {1200, 1024}, kGgmlQ8_0, values)});
  });
  const Gguf file(path);
  EXPECT_EQ(file.metadata().size(), 7u);
  EXPECT_EQ(file.text("general.architecture"), "llama");
  EXPECT_EQ(file.integer("count"), 7);
  EXPECT_EQ(file.number("eps"), 0.5);
  EXPECT_EQ(std::get<bool>(*file.find("flag")), true);
  EXPECT_EQ(std::get<std::vector<std::string>>(*file.find("names")),
            (std::vector<std::string>{"a", "", "\xC4\xA0t"}));
  EXPECT_EQ(std::get<std::vector<int64_t>>(*file.find("ids")), (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(std::get<std::vector<double>>(*file.find("scores")), (std::vector<double>{-1.5, 0}));
  EXPECT_EQ(file.tensors().at("large").shape, (std::vector<int64_t>{1200, 1024}));
  std::vector<float> back(values.size());
  dequantize(file.tensors().at("large"), 0, std::ssize(back), back.data());
  EXPECT_EQ(back, values);
  dequantize(file.tensors().at("half"), 0, 3, back.data());
  EXPECT_EQ(back[2], 3.0f);
  std::vector<uint8_t> blocks(file.tensors().at("blocks").bytes);
  quantize(*find_ggml_type(kGgmlQ8_0), values.data(), std::ssize(values), blocks.data());
  EXPECT_EQ(std::memcmp(blocks.data(), file.tensors().at("blocks").data, blocks.size()), 0);
}

TEST(WriteGguf, AFailedWriteLeavesTheFileThatWasThere) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("m.gguf", "before");
  GgufEntry broken = entry("w", {2}, kGgmlF32, {});
  broken.encode = [](int64_t, int64_t, uint8_t*) { throw std::runtime_error("broken"); };
  EXPECT_THROW(base::replace_file(path, [&](base::FileWriter& writer) { write_gguf(writer, {}, {broken}); }),
               std::runtime_error);
  EXPECT_EQ(base::read_file(path), "before");
  EXPECT_EQ(base::list_directory(directory.path()), std::vector<std::string>{"m.gguf"});
}

}  // namespace
}  // namespace trl::io
