// The tokenizer of a GGUF file: what must be there, and what is told where it is not.
#include <gtest/gtest.h>

#include "data/tokenizer/open_tokenizer.h"
#include "io/gguf_writer.h"
#include "io/temporary_file.h"
#include "support/warnings.h"
#include "text/tokenizer_tiny.h"

namespace trl::data {
namespace {

using TinyIds = text::tiny::Ids;

// Without one of its keys.
test::GgufWriter tiny_gguf(std::string_view without = "") {
  std::vector<std::string> tokens = text::tiny::tiny_tokens();
  tokens.emplace_back("<s>");
  std::string types =
      test::GgufWriter::raw(uint32_t{test::kI32}) + test::GgufWriter::raw<uint64_t>(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i)
    types += test::GgufWriter::raw(int32_t{i + 1 < tokens.size() ? 1 : 3});
  test::GgufWriter writer;
  writer.add("tokenizer.ggml.model", "gpt2");
  writer.add("tokenizer.ggml.tokens", tokens);
  if (without != "merges") writer.add("tokenizer.ggml.merges", text::tiny::tiny_merges());
  if (without != "token_type") writer.pair("tokenizer.ggml.token_type", test::kArray, types);
  if (without != "pre") writer.add("tokenizer.ggml.pre", "gpt-2");
  return writer;
}

TEST(OpenTokenizer, TellsWhatAGgufFileLacks) {
  const test::TemporaryDirectory directory;
  test::Warnings log;
  const auto open = [&](std::string_view without) {
    return open_tokenizer(directory.write("m.gguf", tiny_gguf(without).bytes()), &log);
  };
  EXPECT_EQ(open("")->encode("the<s>", false), (TinyIds{116, 256, 265}));
  EXPECT_TRUE(log.lines.empty());
  const Error none = text::tiny::error_of([&] { open("merges"); });
  EXPECT_EQ(none.status(), Status::format);
  EXPECT_NE(none.message().find("m.gguf: tokenizer.ggml.merges is missing"), std::string::npos)
      << none.message();
  EXPECT_EQ(open("token_type")->encode("the<s>", false), (TinyIds{116, 256, 60, 115, 62}));
  EXPECT_EQ(open("pre")->encode("the<s>", false), (TinyIds{116, 256, 265}));
  ASSERT_EQ(log.lines.size(), 2u);
  EXPECT_NE(log.lines[0].find("tokenizer.ggml.token_type is missing"), std::string::npos) << log.lines[0];
  EXPECT_NE(log.lines[1].find("tokenizer.ggml.pre is missing: text is split by the rules of 'default'"),
            std::string::npos)
      << log.lines[1];
}

TEST(OpenTokenizer, GgufFilesMayNameTheirTemplates) {
  const test::TemporaryDirectory directory;
  test::GgufWriter writer = tiny_gguf();
  writer.add("tokenizer.chat_template", "plain");
  writer.add("tokenizer.chat_template.tool_use", "tools");
  writer.add("tokenizer.chat_templates", std::vector<std::string>{"tool_use"});
  EXPECT_EQ(open_tokenizer(directory.write("m.gguf", writer.bytes()))->chat_templates(),
            (std::map<std::string, std::string>{{"default", "plain"}, {"tool_use", "tools"}}));
}

TEST(OpenTokenizer, KnowsAGitLfsPointer) {
  const test::TemporaryDirectory directory;
  const std::string path =
      directory.write("m.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:00\n");
  EXPECT_EQ(text::tiny::error_of([&] { open_tokenizer(path); }).message(),
            path + ": it is a Git LFS pointer, not the file itself: fetch it with git lfs pull");
}

}  // namespace
}  // namespace trl::data
