// Rows of instruction, input and output.
#include "data/row/conversions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/lengths/profile_lengths.h"
#include "data/prepare/sft.h"
#include "preference_shop.h"
#include "support/error_of.h"
#include "support/letter_tokenizer.h"
#include "support/warnings.h"

namespace trl::data {
namespace {

constexpr const char* kAlpacaRows = R"({"instruction":"ab","input":"c","output":"d","category":"qa"})"
                                    "\n"
                                    R"({"instruction":"ab","input":"","output":"d","category":null})"
                                    "\n"
                                    R"({"instruction":"ab","input":null,"output":"d"})"
                                    "\n"
                                    R"({"instruction":"ab","output":"d","id":3})";

using Rows = std::vector<std::string>;

struct Shop : test::PreferenceShop {
  explicit Shop(const char* chat_template = "")
      : PreferenceShop(std::make_unique<test::LetterTokenizer>(chat_template)) {}
  // What is trained on is in brackets.
  Rows rows(const std::string& jsonl) {
    const auto examples = prepare_sft(table(jsonl), context);
    Rows out;
    for (int64_t i = 0; i < examples->size(); ++i) {
      const Example one = examples->read(i);
      std::string& text = out.emplace_back();
      for (size_t at = 0; at < one.input_ids.size(); ++at) {
        const int32_t id = one.input_ids[at];
        const std::string shown = id == test::kBos   ? "^"
                                  : id == test::kEos ? "$"
                                                     : std::string(1, static_cast<char>(id));
        text += one.labels[at] >= 0 ? "[" + shown + "]" : shown;
      }
    }
    return out;
  }
  std::string error(const std::string& jsonl) {
    return test::message_of([&] { rows(jsonl); });
  }
};

TEST(Alpaca, IsPromptAndCompletion) {
  Shop shop;
  EXPECT_EQ(shop.rows(kAlpacaRows), (Rows{"^ab\nc[d][$]", "^ab[d][$]", "^ab[d][$]", "^ab[d][$]"}));
  EXPECT_TRUE(shop.log.lines.empty());
}

TEST(Alpaca, IsMessagesForAModelWithAChatTemplate) {
  Shop shop(test::kPlainTemplate);
  EXPECT_EQ(shop.rows(kAlpacaRows),
            (Rows{"u:ab\nc$a:[d][$]", "u:ab$a:[d][$]", "u:ab$a:[d][$]", "u:ab$a:[d][$]"}));
  Shop marked(test::kMarkedTemplate);
  marked.arguments.assistant_only_loss = true;
  EXPECT_EQ(marked.rows(kAlpacaRows).front(), "u:ab\nc$a:[d][$]");
}

TEST(Alpaca, OtherColumnsComeFirst) {
  Shop shop;
  EXPECT_EQ(shop.rows(R"({"instruction":"a","output":"b","text":"t"})"), Rows{"[^][t][$]"});
  EXPECT_EQ(shop.rows(R"({"instruction":"a","output":"b","prompt":"p","completion":"c"})"), Rows{"^p[c][$]"});
  shop.arguments.dataset_text_field = "output";
  EXPECT_EQ(shop.rows(R"({"instruction":"a","output":"b"})"), Rows{"[^][b][$]"});
}

TEST(Alpaca, DatasetColumnsWin) {
  Shop shop;
  shop.arguments.dataset_columns = {{"instruction", "prompt"}, {"output", "completion"}};
  EXPECT_EQ(shop.rows(R"({"instruction":"ab","input":"c","output":"d"})"), Rows{"^ab[d][$]"});
  shop.arguments.dataset_columns = {{"question", "instruction"}, {"answer", "output"}};
  EXPECT_EQ(shop.rows(R"({"question":"ab","input":"c","answer":"d"})"), Rows{"^ab\nc[d][$]"});
  shop.arguments.dataset_columns = {{"output", "completion"}};
  EXPECT_NE(shop.error(R"({"instruction":"ab","output":"d"})").find("no column to train on"),
            std::string::npos);
}

TEST(Alpaca, WhatIsNotReadIsTold) {
  Shop shop;
  shop.rows(R"({"system":"s","instruction":"ab","output":"d","history":[["q","a"]]})");
  EXPECT_EQ(
      shop.log.lines,
      Rows{"t.jsonl:1: instruction and output are trained on; history, system could be too, and are ignored "
           "(dataset_select_columns names the columns that are read)"});
}

TEST(Alpaca, NamesWhatIsWrong) {
  Shop shop;
  EXPECT_EQ(shop.error(R"({"instruction":"ab","input":"c","output":null})"),
            "t.jsonl:1: column 'output' is null, but text is expected; the row's columns: instruction, "
            "input, output");
  EXPECT_EQ(
      shop.error(R"({"instruction":"ab","input":3,"output":"c"})"),
      "t.jsonl:1: column 'input' is a number, but text is expected; the row's columns: instruction, input, "
      "output");
  EXPECT_NE(
      shop.error(std::string(kAlpacaRows) + "\n" + R"({"text":"t"})")
          .find(
              "t.jsonl:5: the row's format is text, but that of t.jsonl:1 is prompt and completion as text"),
      std::string::npos);
}

TEST(Alpaca, IsMeasuredAsItIsTrainedOn) {
  Shop shop;
  const auto table = shop.table(kAlpacaRows);
  RowMeasurer measurer(shop.context, first_row(*table));
  EXPECT_EQ(measurer.format(), "prompt and completion as text");
  Row row = first_row(*table);
  const RowMeasure measure = measurer.measure(row)[0];
  EXPECT_EQ(measure.total, 7);
  EXPECT_EQ(measure.trained, 2);
}

TEST(Alpaca, IsRatedForKto) {
  Shop shop(test::kPlainTemplate);
  const auto rows = prepare_kto(shop.table(R"({"instruction":"ab","input":"c","output":"d","label":true})"
                                           "\n"
                                           R"({"instruction":"ab","input":"","output":"e","label":false})"),
                                shop.context);
  ASSERT_EQ(rows->size(), 2);
  EXPECT_EQ(shop.tokenizer->decode((*rows)[0].prompt_ids, true), "u:ab\nca:");
  EXPECT_EQ(shop.tokenizer->decode((*rows)[0].completion_ids, true), "d");
  EXPECT_FALSE((*rows)[1].label);
}

}  // namespace
}  // namespace trl::data
