// SentencePiece's library in a process that holds libtorch, whose Protocol Buffers have the same names.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/tokenizer_tiny.h"

namespace trl {
namespace {

TEST(SentencePieceBesideTorch, GivesTheRecordedIds) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "AddressSanitizer does not let a library prefer its own symbols (RTLD_DEEPBIND)";
#endif
  if (!base::file_exists(TRL_BINARY_DIR "/lib/trl/libtrl_sentencepiece.so")) return;  // not built
  EXPECT_EQ(at::ones({2, 3}).sum().item<float>(), 6);
  text::tiny::Folder folder;
  folder.put("tokenizer.model", test::read_golden("tokenizers/sentencepiece_small/tokenizer.model"));
  const auto tokenizer = text::Tokenizer::from_files(folder.path());
  const base::Json& recorded = test::golden_json("tokenizers/sentencepiece_small/cases_sentencepiece.json");
  for (const base::Json& c : recorded.at("cases"))
    EXPECT_EQ(tokenizer->encode(c.at("text").get<std::string>(), false),
              c.at("ids").get<std::vector<int32_t>>());
}

}  // namespace
}  // namespace trl
