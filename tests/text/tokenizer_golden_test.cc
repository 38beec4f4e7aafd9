// Every recorded case of `tokenizers`: ids, ids with special tokens, decoded text.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/utf8.h"
#include "support/golden.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::text {
namespace {

using Ids = std::vector<int32_t>;

struct Counted {
  const char* name;
  size_t cases;
  int64_t vocab_size;
};

class RecordedTokenizer : public testing::TestWithParam<Counted> {};

// Token by token, whole characters at each step, it is the same text.
void expect_streams(const Counted& counted) {
  const std::string folder = std::string("tokenizers/") + counted.name;
  const auto tokenizer = Tokenizer::from_files(test::golden_path(folder));
  size_t run = 0;
  const base::Json recorded = test::golden_json(folder + "/cases.json");
  for (const base::Json& c : recorded.at("cases")) {
    const Ids ids = c.at(c.at("ids_with_special").is_null() ? "ids" : "ids_with_special");
    for (const bool skip : {false, true}) {
      DecodeStream stream(*tokenizer, skip);
      std::string text;
      for (const int32_t id : ids) {
        const std::string step = stream.step(id);
        EXPECT_EQ(base::find_invalid_utf8(step), base::kValid);
        text += step;
      }
      text += stream.finish();
      const std::string whole = tokenizer->decode(ids, skip);
      const bool keeps_space = std::string_view("bpe_word_ends") == counted.name;  // DecodeStream
      if (keeps_space && text.ends_with(' ') && !whole.ends_with(' ')) text.pop_back();
      EXPECT_EQ(text, whole);
    }
    ++run;
  }
  EXPECT_EQ(run, counted.cases);
}

TEST_P(RecordedTokenizer, GivesTheRecordedIdsAndTexts) {
  const std::string folder = std::string("tokenizers/") + GetParam().name;
  TRL_NEED_GOLDEN(folder + "/cases.json");
  const auto tokenizer = Tokenizer::from_files(test::golden_path(folder));
  EXPECT_EQ(tokenizer->vocab_size(), GetParam().vocab_size);
  size_t run = 0;
  const base::Json recorded = test::golden_json(folder + "/cases.json");
  for (const base::Json& c : recorded.at("cases")) {
    const std::string text = c.at("text");
    const Ids ids = c.at("ids");
    const Ids with_special = c.at("ids_with_special").is_null() ? ids : c.at("ids_with_special").get<Ids>();
    EXPECT_EQ(tokenizer->encode(text, false), ids) << text;
    EXPECT_EQ(tokenizer->encode(text, true), with_special) << text;
    const Encoding encoding = tokenizer->encode_with_offsets(text, true);
    EXPECT_EQ(encoding.ids, with_special) << text;
    EXPECT_EQ(encoding.offsets.size(), with_special.size()) << text;
    EXPECT_EQ(tokenizer->decode(ids, false), c.at("decoded").get<std::string>()) << text;
    EXPECT_EQ(tokenizer->decode(ids, true), c.at("decoded_skip_special").get<std::string>()) << text;
    ++run;
  }
  EXPECT_EQ(run, GetParam().cases);
  expect_streams(GetParam());
}

TEST(PublishedIndex, NamesNoTokenizerThatIsNotTested) {
  TRL_NEED_GOLDEN("tokenizers/index.json");
  size_t run = 0;
  for (const auto& [name, size] : test::golden_json("tokenizers/index.json").at("tokenizers").items()) {
    const std::string folder = test::golden_path("tokenizers/" + name);
    if (base::file_exists(folder + "/tokenizer.json")) {
      EXPECT_EQ(Tokenizer::from_files(folder)->vocab_size(), size.get<int64_t>()) << name;
    } else {
      EXPECT_EQ(name, "sentencepiece_unigram");  // sentencepiece_test.cc
    }
    ++run;
  }
  EXPECT_EQ(run, 8u);
}

std::string instance_name(const testing::TestParamInfo<Counted>& instance) { return instance.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Recorded, RecordedTokenizer,
    testing::Values(Counted{"bpe_gpt2", 190, 1000}, Counted{"bpe_digits", 230, 1000},
                    Counted{"bpe_added", 230, 1112}, Counted{"bpe_qwen2", 210, 997},
                    Counted{"bpe_llama3", 203, 1800}, Counted{"spm_style_bpe", 203, 1100},
                    Counted{"sentencepiece_bpe", 190, 1200}, Counted{"unigram_charsmap", 129, 420},
                    Counted{"unigram_bytes", 129, 686}, Counted{"word_piece", 129, 511},
                    Counted{"unigram_t5", 109, 500}, Counted{"unigram_albert", 109, 501},
                    Counted{"unigram_xlm_roberta", 109, 501}, Counted{"unigram_llama", 109, 756},
                    Counted{"wordpiece_bert_uncased", 109, 500}, Counted{"wordpiece_bert_cased", 109, 500},
                    Counted{"wordpiece_steps", 109, 500}, Counted{"bpe_word_ends", 109, 349},
                    Counted{"bpe_continued", 109, 545}, Counted{"word_level", 109, 250},
                    Counted{"bpe_shuffled", 109, 120}, Counted{"unigram_twice", 109, 82}),
    instance_name);
// Of published models: they lie with the whole collection alone.
INSTANTIATE_TEST_SUITE_P(Published, RecordedTokenizer,
                         testing::Values(Counted{"real_smollm2", 230, 49152},
                                         Counted{"real_qwen3", 230, 151669}),
                         instance_name);

}  // namespace
}  // namespace trl::text
