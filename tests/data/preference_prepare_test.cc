// The rules of preparing preference, unpaired and prompt-only rows on rows made for them, with a tokenizer of
// one token a byte: the ids, what is dropped or cut and said of it, and that the number of threads changes
// nothing.
#include <gtest/gtest.h>

#include <atomic>

#include "base/files/files.h"
#include "data/batch/preference_batches.h"
#include "letter_shop.h"
#include "support/interrupts.h"
#include "support/letter_tokenizer.h"
#include "support/scratch.h"

namespace trl::data {
namespace {

using test::kTurnsTemplate;
using test::LetterShop;
using test::spelt;
using Lines = std::vector<std::string>;

Lines spelt(const PreferenceList& list) {
  Lines out;
  for (int64_t i = 0; i < list.size(); ++i) {
    const PreferenceExample e = list[i];
    out.push_back(fmt::format("{} {}|{}|{}", e.source_row, spelt(e.prompt_ids), spelt(e.chosen_ids),
                              spelt(e.rejected_ids)));
  }
  return out;
}

Lines spelt(const UnpairedList& list) {
  Lines out;
  for (int64_t i = 0; i < list.size(); ++i) {
    const UnpairedExample e = list[i];
    out.push_back(fmt::format("{} {}|{} {}", e.source_row, spelt(e.prompt_ids), spelt(e.completion_ids),
                              e.label ? '+' : '-'));
  }
  return out;
}

Lines dpo(LetterShop& shop, const std::string& jsonl) {
  return spelt(*prepare_dpo(shop.table(jsonl), shop.context));
}
Lines reward(LetterShop& shop, const std::string& jsonl) {
  return spelt(*prepare_reward(shop.table(jsonl), shop.context));
}
Lines kto(LetterShop& shop, const std::string& jsonl) {
  return spelt(*prepare_kto(shop.table(jsonl), shop.context));
}

TEST(PreparePreference, Text) {
  LetterShop shop;
  EXPECT_EQ(dpo(shop, R"({"prompt":"q","chosen":"a","rejected":"b<e>"}
{"prompt":"","chosen":"","rejected":"b"})"),
            (Lines{"0 ^q|a$|b$", "1 ^|$|b$"}));
  EXPECT_EQ(dpo(shop, R"({"chosen":"q: yes","rejected":"q: no","extra":1})"), (Lines{"0 ^q:| yes$| no$"}));
  EXPECT_EQ(shop.log.lines, Lines{"t.jsonl: 1 of 2 rows has an empty completion (the first: t.jsonl:2)"});
}

// The shorter of the two common prefixes is the prompt of both.
TEST(PreparePreference, TokensThatJoinAcrossTheBoundary) {
  LetterShop shop;
  EXPECT_EQ(dpo(shop, R"({"prompt":"q<","chosen":"e>a","rejected":"b"})"), (Lines{"0 ^q|$a$|<b$"}));
  EXPECT_EQ(kto(shop, R"({"prompt":"q<","chosen":"e>a","rejected":"b"})"),
            (Lines{"0 ^q|$a$ +", "0 ^q<|b$ -"}));
  EXPECT_EQ(shop.log.lines,
            (Lines{"t.jsonl: in 1 of 1 row the tokens of the prompt are not the first tokens of prompt and "
                   "completion together; the completion starts where they differ (the first: t.jsonl:1)",
                   "t.jsonl: in 1 of 2 rows the tokens of the prompt are not the first tokens of prompt and "
                   "completion together; the completion starts where they differ (the first: t.jsonl:1)"}));
}

TEST(PreparePreference, Messages) {
  LetterShop shop(kTurnsTemplate);
  const Lines want = {"0 u:q$a:|x$|y$"};
  EXPECT_EQ(
      dpo(shop,
          R"({"prompt":[{"role":"user","content":"q"}],)"
          R"("chosen":[{"role":"assistant","content":"x"}],"rejected":[{"role":"assistant","content":"y"}]})"),
      want);
  EXPECT_EQ(dpo(shop, R"({"chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"x"}],)"
                      R"("rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"y"}]})"),
            want);
  EXPECT_EQ(
      dpo(shop,
          R"({"prompt":"q","chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"x"}],)"
          R"("rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"y"}]})"),
      want);
  EXPECT_EQ(dpo(shop, R"({"chosen":[{"from":"user","value":"q"},{"from":"assistant","value":"x"}],)"
                      R"("rejected":[{"from":"user","value":"q"},{"from":"assistant","value":"y"}]})"),
            want);
  EXPECT_EQ(
      dpo(shop,
          R"({"prompt":[{"role":"user","content":"q"}],"tools":"[{},{}]",)"
          R"("chat_template_kwargs":{"mood":"mild"},)"
          R"("chosen":[{"role":"assistant","content":"x"}],"rejected":[{"role":"assistant","content":"y"}]})"),
      (Lines{"0 [2](mild)u:q$a:|x$|y$"}));
  EXPECT_TRUE(shop.log.lines.empty());
}

TEST(PreparePreference, LongPromptsAreDroppedWhereTheStartIsKept) {
  LetterShop shop;
  const std::string rows = R"({"prompt":"abc","chosen":"x","rejected":"y"}
{"prompt":"ab","chosen":"xxx","rejected":"y"}
{"prompt":"a","chosen":"x","rejected":"y"}
)";
  shop.arguments.max_length = 4;
  EXPECT_EQ(dpo(shop, rows), (Lines{"1 ^ab|xxx$|y$", "2 ^a|x$|y$"}));
  EXPECT_EQ(kto(shop, rows), (Lines{"1 ^ab|xxx$ +", "2 ^a|x$ +", "1 ^ab|y$ -", "2 ^a|y$ -"}));
  shop.arguments.truncation_keep_end = true;
  EXPECT_EQ(dpo(shop, rows).size(), 3u);
  EXPECT_EQ(
      shop.log.lines,
      (Lines{"t.jsonl: 1 of 3 rows is dropped because the prompt alone reaches max_length 4 (the first: "
             "t.jsonl:1); "
             "1 of 3 rows is cut to max_length 4 (the first: t.jsonl:2)",
             "t.jsonl: 2 of 6 rows are dropped because the prompt alone reaches max_length 4 (the first: "
             "t.jsonl:1); 2 of 6 rows are cut to max_length 4 (the first: t.jsonl:2)",
             "t.jsonl: 2 of 3 rows are cut to max_length 4 (the first: t.jsonl:1)"}));
}

// As DPO once did it: the prompt keeps its end, the completions their start, and then max_length counts.
TEST(PreparePreference, PromptAndCompletionHaveLimitsOfTheirOwn) {
  LetterShop shop;
  shop.arguments.max_length = 3;
  shop.arguments.max_prompt_length = 2;
  shop.arguments.max_completion_length = 3;
  EXPECT_EQ(dpo(shop, R"({"prompt":"abc","chosen":"wxyz","rejected":"v"}
{"prompt":"","chosen":"x","rejected":"y"})"),
            (Lines{"0 bc|wxy|v$", "1 ^|x$|y$"}));
  EXPECT_EQ(
      shop.log.lines,
      (Lines{"t.jsonl: 1 of 2 rows has a prompt that is cut to max_prompt_length 2 (the first: t.jsonl:1); "
             "1 of 2 rows has a completion that is cut to max_completion_length 3 (the first: "
             "t.jsonl:1); 1 of 2 rows is cut to max_length 3 (the first: "
             "t.jsonl:1)"}));
}

TEST(PreparePreference, WhatTeachesNothingIsCounted) {
  LetterShop shop;
  EXPECT_EQ(dpo(shop, R"({"prompt":"q","chosen":"a","rejected":"a"}
{"prompt":"q","chosen":"a","rejected":""}
{"prompt":"q","chosen":"a","rejected":"b"})"),
            (Lines{"0 ^q|a$|a$", "1 ^q|a$|$", "2 ^q|a$|b$"}));
  EXPECT_EQ(kto(shop, R"({"prompt":"q","completion":"","label":true}
{"prompt":"q","completion":"a","label":true})"),
            (Lines{"0 ^q|$ +", "1 ^q|a$ +"}));
  EXPECT_EQ(shop.log.lines,
            (Lines{"t.jsonl: 1 of 3 rows has an empty completion (the first: t.jsonl:2); 1 of 3 rows has a "
                   "chosen completion that is the same as the rejected one (the first: t.jsonl:1)",
                   "t.jsonl: 1 of 2 rows has an empty completion (the first: t.jsonl:1)"}));
}

// Of a paired row of KTO too, and where max_length leaves nothing that differs.
TEST(PreparePreference, CompletionsThatAreTheSameAreCounted) {
  LetterShop shop;
  kto(shop, R"({"prompt":"q","chosen":" a","rejected":" a"}
{"prompt":"q","chosen":"a","rejected":"b"})");
  const std::string cut = R"({"prompt":"q","chosen":"abcx","rejected":"abcy"}
{"prompt":"q","chosen":"abx","rejected":"aby"})";
  shop.arguments.max_length = 5;
  dpo(shop, cut);
  kto(shop, cut);
  shop.arguments.truncation_keep_end = true;
  shop.arguments.max_length = 3;
  dpo(shop, R"({"prompt":"q","chosen":"abc","rejected":"zzzbc"}
{"prompt":"q","chosen":"c","rejected":"bc"})");
  const std::string same = "chosen completion that is the same as the rejected one (the first: t.jsonl:1)";
  ASSERT_EQ(shop.log.lines.size(), 4u);
  for (const auto& [line, count] : {std::pair{0, "2 of 4 rows have a "},
                                    {1, "1 of 2 rows has a "},
                                    {2, "2 of 4 rows have a "},
                                    {3, "1 of 2 rows has a "}})
    EXPECT_NE(shop.log.lines[static_cast<size_t>(line)].find(count + same), std::string::npos)
        << shop.log.lines[static_cast<size_t>(line)];
}

// The prompt may be in the same list of messages as the completion.
TEST(PreparePreference, TheLastMessageDecidesWhetherACompletionIsEmpty) {
  LetterShop shop(kTurnsTemplate);
  reward(shop, R"({"chosen":[{"role":"user","content":"q"},{"role":"assistant","content":""}],)"
               R"("rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"x"}]})");
  EXPECT_EQ(shop.log.lines, Lines{"t.jsonl: 1 of 1 row has an empty completion (the first: t.jsonl:1)"});
}

TEST(PreparePreference, ColumnsThatAreNotReadAreCounted) {
  const std::string row = R"({"prompt":"q","completion":"c","chosen":"a","rejected":"b"})";
  LetterShop shop;
  EXPECT_EQ(dpo(shop, row), Lines{"0 ^q|a$|b$"});
  prepare_reward(shop.table(row), shop.context)->size();
  const std::string warning =
      "t.jsonl: 1 of 1 row has a column 'completion', which is not read beside 'chosen' and 'rejected' "
      "(the first: t.jsonl:1)";
  EXPECT_EQ(shop.log.lines, (Lines{warning, warning}));
  shop.log.lines.clear();
  reward(shop, R"({"chosen":"a","rejected":"b","chosen_ids":[97],"rejected_ids":[98]})");
  kto(shop, R"({"prompt":"q","chosen":"a","rejected":"b","label":false})");
  dpo(shop, R"({"prompt":"q","chosen":"a","rejected":"b","ref_chosen_logps":-1,"ref_rejected_logps":-2})");
  EXPECT_EQ(shop.log.lines,
            (Lines{"t.jsonl: 1 of 1 row has text in 'chosen' or 'rejected', which is not read beside the "
                   "token ids (the first: t.jsonl:1)",
                   "t.jsonl: 2 of 2 rows have a column 'label', which is not read: 'chosen' counts as true "
                   "and 'rejected' as false (the first: t.jsonl:1)",
                   "t.jsonl: 1 of 1 row has a column 'ref_chosen_logps' or 'ref_rejected_logps', which is "
                   "not read: the reference is asked (the first: t.jsonl:1)"}));
}

TEST(PreparePreference, MessagesOfNoTextAreCounted) {
  LetterShop shop("{% for m in messages %}{{ m['content'] }}{% endfor %}");
  EXPECT_EQ(
      dpo(shop, R"({"prompt":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"x"}],)"
                R"("rejected":[{"role":"assistant","content":"y"}]})"
                "\n"
                R"({"prompt":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"x"}],)"
                R"("rejected":[{"role":"assistant","content":""}]})"),
      (Lines{"0 q|x|y"}));
  EXPECT_EQ(shop.log.lines,
            (Lines{"t.jsonl: 1 of 2 rows is dropped because no token is left (the first: t.jsonl:2)"}));
}

TEST(PreparePreference, MessagesWithoutContentSayNothingUnlessTheyCallTools) {
  const auto warnings = [](const std::string& message) {
    LetterShop shop(
        "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{% for call in m.tool_calls %}"
        "{{ call.function.name }}{% endfor %}{{ eos_token }}{% endfor %}");
    dpo(shop, R"({"prompt":[{"role":"user","content":"q"}],"chosen":[{"role":"assistant","content":"x"}],)"
              R"("rejected":[)" +
                  message + "]}");
    return shop.log.lines.size();
  };
  EXPECT_EQ(warnings(R"({"role":"assistant","content":"y"})"), 0u);
  EXPECT_EQ(warnings(R"({"role":"assistant","content":null})"), 1u);
  EXPECT_EQ(warnings(R"({"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f"}}]})"), 0u);
  EXPECT_EQ(warnings(R"({"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]})"), 0u);
  EXPECT_EQ(warnings(R"({"role":"assistant","content":""})"), 1u);
}

TEST(PrepareReward, PromptMarginAndLength) {
  LetterShop shop(kTurnsTemplate);
  EXPECT_EQ(reward(shop, R"({"prompt":"q","chosen":"a","rejected":"b<e>"})"), (Lines{"0 |^qa$|^qb$"}));
  EXPECT_EQ(reward(shop, R"({"chosen":"a","rejected":"b"})"), (Lines{"0 |^a$|^b$"}));
  EXPECT_EQ(
      reward(
          shop,
          R"({"prompt":[{"role":"user","content":"q"}],)"
          R"("chosen":[{"role":"assistant","content":"x"}],"rejected":[{"role":"assistant","content":"y"}]})"),
      (Lines{"0 |u:q$a:x$|u:q$a:y$"}));
  shop.arguments.max_length = 3;
  const auto list = prepare_reward(shop.table(R"({"chosen":"a","rejected":"b","margin":1}
{"chosen":"a","rejected":"bb","margin":2}
{"chosen":"c","rejected":"d","margin":-0.5})"),
                                   shop.context);
  EXPECT_EQ(spelt(*list), (Lines{"0 |^a$|^b$", "2 |^c$|^d$"}));
  EXPECT_EQ((*list)[0].margin, 1.0f);
  EXPECT_EQ((*list)[1].margin, -0.5f);
  EXPECT_EQ(shop.log.lines, (Lines{"t.jsonl: 1 of 3 rows is dropped because a side is longer than max_length "
                                   "3 (the first: t.jsonl:2)"}));
}

TEST(PrepareReward, RowsOfTokenIds) {
  LetterShop shop;
  shop.arguments.max_length = 2;
  EXPECT_EQ(reward(shop, R"({"chosen_ids":[97],"rejected_ids":[98,99],"margin":1}
{"chosen_ids":[97,97,97],"rejected_ids":[98],"margin":1}
{"chosen_ids":[],"rejected_ids":[98],"margin":1})"),
            (Lines{"0 |a|bc"}));
  EXPECT_EQ(reward(shop, R"({"chosen_input_ids":[97],"rejected_input_ids":[98,99]})"), (Lines{"0 |a|bc"}));
  EXPECT_EQ(
      shop.log.lines,
      (Lines{
          "t.jsonl: 1 of 3 rows is dropped because a side is longer than max_length 2 (the first: "
          "t.jsonl:2); "
          "1 of 3 rows is dropped because no token is left (the first: t.jsonl:3)",
          "t.jsonl: columns chosen_input_ids and rejected_input_ids are read as chosen_ids and rejected_ids, "
          "their current names"}));
}

TEST(PrepareUnpaired, Rows) {
  LetterShop shop;
  EXPECT_EQ(kto(shop, R"({"prompt":"q","completion":"a","label":true}
{"prompt":"r","completion":"b","label":0})"),
            (Lines{"0 ^q|a$ +", "1 ^r|b$ -"}));
  EXPECT_EQ(kto(shop, R"({"chosen":"q: yes","rejected":"q: no","label":7})"),
            (Lines{"0 ^q:| yes$ +", "0 ^q:| no$ -"}));
}

TEST(PrepareUnpaired, PairedRowsByBlocksAndAnyNumberOfThreads) {
  std::string rows;
  for (int i = 0; i < 2300; ++i)
    rows += fmt::format("{{\"prompt\":\"{}\",\"chosen\":\"c\",\"rejected\":\"r\"}}\n", i);
  Lines want;
  for (int begin = 0; begin < 2300; begin += 1000) {
    for (const char* side : {"c$ +", "r$ -"}) {
      for (int i = begin; i < std::min(2300, begin + 1000); ++i)
        want.push_back(fmt::format("{0} ^{0}|{1}", i, side));
    }
  }
  for (const int threads : {1, 2, 5}) {
    LetterShop shop("", threads);
    EXPECT_EQ(kto(shop, rows), want) << threads;
    EXPECT_EQ(shop.memory.now(), 0);
  }
}

TEST(PrepareUnpaired, KlCompletionsTurnWithinGroups) {
  LetterShop shop;
  std::string rows;
  for (const char letter : std::string("abcdefg"))
    rows += fmt::format("{{\"prompt\":\"\",\"completion\":\"{}\",\"label\":true}}\n", letter);
  const auto list = prepare_kto(shop.table(rows), shop.context);
  const std::vector<int64_t> indices = {0, 1, 2, 3, 4, 5, 6};
  const auto turned = [&](int64_t group) {
    std::string out;
    for (const std::vector<int32_t>& ids : kl_completions(*list, indices, group)) out += spelt(ids)[0];
    return out;
  };
  EXPECT_EQ(turned(3), "cabfdeg");
  EXPECT_EQ(turned(4), "dabcgef");
  EXPECT_EQ(turned(8), "gabcdef");
  EXPECT_EQ(turned(1), "abcdefg");
}

TEST(PrepareUnpaired, BatchesHoldTheTurnedCompletionsBehindTheOthers) {
  LetterShop shop;
  const std::string rows = R"({"prompt":"p","completion":"a","label":true}
{"prompt":"qq","completion":"bb","label":false}
{"prompt":"r","completion":"c","label":true})";
  OrderOptions order;
  order.batch_size = 2;
  order.sampling = Sampling::sequential;
  const auto lines_of = [&](BatchStream& stream) {
    Lines lines;
    for (Batch batch; stream.next(batch);) {
      std::string line;
      for (size_t i = 0; i + 1 < batch.cu_seqlens.size(); ++i) {
        const auto begin = batch.input_ids.begin() + batch.cu_seqlens[i];
        line += spelt({begin, batch.input_ids.begin() + batch.cu_seqlens[i + 1]}) + " ";
      }
      line += fmt::format("rows {} of {}, {} tokens, {} wide, labels", batch.rows,
                          fmt::join(batch.row_ids, " "), batch.num_tokens, batch.width);
      for (const float label : batch.columns.at("label")) line += label > 0 ? '+' : '-';
      lines.push_back(line);
    }
    return lines;
  };
  const auto stream_of = [&](int64_t group) {
    auto stream = batches_of_unpaired(prepare_kto(shop.table(rows), shop.context), order, {}, {5}, group);
    stream->start_epoch(0);
    return stream;
  };
  const auto turned = stream_of(2);
  const Lines want = {"^pa$ ^qqbb ^pbb$ ^qqa$ rows 2 of 0 1, 9 tokens, 5 wide, labels+-+-",
                      "^rc$ ^rc$ rows 1 of 2, 4 tokens, 4 wide, labels++"};
  EXPECT_EQ(lines_of(*turned), want);
  EXPECT_EQ(turned->longest_row(), 5);
  EXPECT_EQ(turned->longer_than(4)->rows, std::vector<int64_t>{0});
  EXPECT_EQ(turned->longer_than(4)->tokens, 5);
  EXPECT_FALSE(turned->longer_than(5).has_value());
  EXPECT_EQ(turned->batches_per_epoch(), 2);
  EXPECT_EQ(lines_of(*stream_of(0)), (Lines{"^pa$ ^qqbb rows 2 of 0 1, 9 tokens, 5 wide, labels+-",
                                            "^rc$ rows 1 of 2, 4 tokens, 4 wide, labels+"}));
  turned->start_pass(3);  // the groups stay
  EXPECT_EQ(lines_of(*turned), (Lines{"^pa$ ^qqbb ^rc$ ^pbb$ ^qqa$ ^rc$ rows 3 of 0 1 2, 13 tokens, 5 wide, "
                                      "labels+-++-+"}));
  turned->start_epoch(0);
  EXPECT_EQ(lines_of(*turned), want);
}

TEST(PrepareUnpaired, WeightsMakeUpForRowsOfOneLabel) {
  const auto warnings = [](int desirable, int undesirable, double weight, double other = 1) {
    LetterShop shop;
    std::string rows;
    for (int i = 0; i < desirable + undesirable; ++i)
      rows += fmt::format("{{\"prompt\":\"p\",\"completion\":\"c\",\"label\":{}}}\n", i < desirable);
    shop.context.label_weights = {weight, other};
    prepare_kto(shop.table(rows), shop.context)->size();
    return shop.log.lines;
  };
  EXPECT_EQ(warnings(4, 4, 1), Lines{});
  const Lines few = warnings(3, 9, 1);
  ASSERT_EQ(few.size(), 1u);
  EXPECT_NE(few[0].find("we recommend EITHER desirable_weight in [3, 3.99] or undesirable_weight in [0.25, "
                        "0.33] (but NOT BOTH)"),
            std::string::npos)
      << few[0];
  EXPECT_EQ(warnings(3, 9, 3), Lines{});
  EXPECT_EQ(warnings(3, 9, 1, 0.3), Lines{});
  EXPECT_EQ(warnings(3, 9, 4.2).size(), 1u);
  EXPECT_EQ(warnings(5, 4, 1), Lines{});  // undesirable_weight in [0.94, 1.25]
  for (const auto& [desirable, undesirable, label] : {std::tuple{3, 0, "true"}, {0, 3, "false"}}) {
    const Lines one = warnings(desirable, undesirable, 1);
    ASSERT_EQ(one.size(), 1u);
    EXPECT_NE(one[0].find(fmt::format("label is {} in all of 3 rows", label)), std::string::npos) << one[0];
  }
}

TEST(PreparePreference, SelectedAndRenamedColumns) {
  LetterShop shop;
  shop.arguments.dataset_select_columns = {"question", "good", "bad"};
  shop.arguments.dataset_columns = {{"question", "prompt"}, {"good", "chosen"}, {"bad", "rejected"}};
  EXPECT_EQ(dpo(shop, R"({"question":"q","good":"a","bad":"b","chosen":5})"), (Lines{"0 ^q|a$|b$"}));
}

struct BadRows {
  char method;  // d, r, k or p
  const char* rows;
  const char* message;
};

constexpr BadRows kBadRows[] = {
    {'d', R"({"prompt":"q","chosen":"a"})", ":1: no column 'rejected', but text is expected"},
    {'d', R"({"prompt":"q","chosen":"a","rejected":null})",
     ":1: column 'rejected' is null, but text is expected"},
    {'d', R"({"prompt":"q"})", ":1: no column 'chosen', but text or a list of messages is expected"},
    {'d', R"({"chosen_ids":[1],"rejected_ids":[2]})", ":1: no column 'prompt_ids', but a list of token ids"},
    {'d', R"({"prompt":"q","chosen":7,"rejected":"b"})",
     ":1: column 'chosen' is a number, but text or a list of messages is expected"},
    {'d', R"({"prompt":"q","chosen":[],"rejected":[]})", ":1: column 'chosen' is an empty list"},
    {'d', R"({"prompt":"q","chosen":"a","rejected":[{"role":"assistant","content":"b"}]})",
     ":1: column 'rejected' is a list of objects, but text is expected"},
    {'d', R"({"prompt":[{"role":"user","content":"q"}],"chosen":"a","rejected":"b"})",
     ":1: column 'prompt' is a list of objects, but text is expected"},
    {'d',
     R"({"prompt":"q","chosen":[{"role":"assistant","content":"a"}],"rejected":[{"role":"assistant","content":"b"}]})",
     ":1: column 'prompt' is a string, but a list of messages"},
    {'d',
     R"({"prompt":[{"role":"user","content":"q"}],"chosen":[{"content":"a"}],"rejected":[{"content":"b"}]})",
     ":1: column 'chosen' is a list of objects, but text or a list of messages is expected"},
    {'d',
     R"({"prompt":[{"role":"user","content":"q"},{"content":"x"}],"chosen":[{"role":"assistant","content":"a"}],)"
     R"("rejected":[{"role":"assistant","content":"b"}]})",
     ":1: column 'prompt': message 2 is an object without one, but an object with a 'role' is expected"},
    {'d',
     R"({"prompt":[{"role":"user","content":"q"},{"role":3,"content":"x"}],"chosen":[{"role":"assistant","content":"a"}],)"
     R"("rejected":[{"role":"assistant","content":"b"}]})",
     ":1: column 'prompt': message 2: its role is a number, but text is expected"},
    {'d', "{\"prompt\":\"q\",\"chosen\":\"a\",\"rejected\":\"b\"}\n{\"chosen\":\"qa\",\"rejected\":\"qb\"}",
     ":2: has no column 'prompt', unlike the dataset's first row; all rows must agree"},
    {'d', "{\"chosen\":\"qa\",\"rejected\":\"qb\"}\n{\"prompt\":\"q\",\"chosen\":\"a\",\"rejected\":\"b\"}",
     ":2: has a column 'prompt', unlike the dataset's first row; all rows must agree"},
    {'d', "{\"chosen\":\"qa\",\"rejected\":\"qb\"}\n{\"chosen\":\"\",\"rejected\":\"qb\"}",
     ":2: column 'chosen' is empty"},
    {'r', "{\"chosen\":\"a\",\"rejected\":\"b\",\"margin\":1}\n{\"chosen\":\"a\",\"rejected\":\"b\"}",
     ":2: no column 'margin', but a finite number"},
    {'r', R"({"chosen":"a","rejected":"b","margin":"1"})",
     ":1: column 'margin' is a string, but a finite number"},
    {'r', R"({"chosen":"a","rejected":"b","margin":1e40})",
     ":1: column 'margin' is a number, but a finite number"},
    {'r', R"({"chosen_ids":[1],"rejected_ids":[258]})",
     ":1: column 'rejected_ids', element 1: 258 is not a token id"},
    {'r', R"({"chosen_ids":[1]})", ":1: no column 'rejected_ids', but a list of token ids"},
    {'r', R"({"chosen_input_ids":[1],"chosen_ids":[1],"rejected_ids":[2]})",
     ":1: has both columns 'chosen_input_ids'"},
    {'k', R"({"prompt":"q","completion":"a","label":"yes"})",
     ":1: column 'label' is a string, but true or false"},
    {'k', R"({"prompt":"q","completion":"a","label":2})",
     ":1: column 'label' is a number, but true or false"},
    {'k', R"({"prompt":"q","completion":"a"})", ":1: no column 'label'"},
    {'k', R"({"completion":"a","label":true})", ":1: no column 'prompt'"},
    {'k', R"({"prompt":"q","label":true})", ":1: no column 'completion'"},
    {'k', R"({"prompt":"q","rejected":"a"})", ":1: no column 'chosen'"},
    {'k', R"({"prompt":"q","chosen":"a"})", ":1: no column 'rejected'"},
    {'k', R"({"prompt":"q","completion":"a","label":true,"chosen":"a","rejected":"b"})",
     ":1: has columns 'completion' and 'chosen'"},
    {'d',
     "{\"chosen\":\"qa\",\"rejected\":\"qb\"}\n{\"chosen\":[{\"role\":\"user\",\"content\":\"q\"}],"
     "\"rejected\":[{\"role\":\"user\",\"content\":\"q\"}]}",
     ":2: column 'chosen' is a list of objects, but text is expected"},
    {'p', R"({"question":"q"})", ":1: no column 'prompt', but text or a list of messages is expected"},
    {'p', "{\"prompt\":\"q\"}\n{\"prompt\":[{\"role\":\"user\",\"content\":\"q\"}]}",
     ":2: column 'prompt' is a list of objects, but text is expected"},
    {'d', "", ": holds no rows"},
};

TEST(PreparePreference, BadRowsAreNamed) {
  for (const BadRows& bad : kBadRows) {
    LetterShop shop(kTurnsTemplate);
    const auto table = shop.table(bad.rows);
    const std::string message = test::message_of([&] {
      if (bad.method == 'd') prepare_dpo(table, shop.context);
      if (bad.method == 'r') prepare_reward(table, shop.context);
      if (bad.method == 'k') prepare_kto(table, shop.context);
      if (bad.method == 'p') prepare_prompts(table, shop.context);
    });
    EXPECT_TRUE(message.starts_with(std::string("t.jsonl") + bad.message)) << bad.rows << "\n" << message;
    EXPECT_EQ(shop.memory.now(), 0);
  }
}

TEST(PreparePreference, NothingLeft) {
  LetterShop shop;
  shop.arguments.max_length = 2;
  const auto table = shop.table(R"({"prompt":"abc","chosen":"x","rejected":"y"})");
  EXPECT_EQ(test::message_of([&] { prepare_dpo(table, shop.context); }),
            "t.jsonl: nothing is left to train on: 1 of 1 row is dropped because the prompt alone reaches "
            "max_length 2 (the first: t.jsonl:1)");
}

// More rows than are prepared before the first is read. Every seventh prompt is too long, and so is every
// seventh row of Reward.
std::string many_rows() {
  std::string text;
  for (size_t i = 0; i < 7000; ++i) {
    text += fmt::format("{{\"prompt\":\"{} {}\",\"chosen\":\"{}\",\"rejected\":\"{}\"}}\n", i,
                        std::string(i % 7 == 3 ? 330 : i % 150, 'p'), std::string(1 + i % 90, 'c'), i % 10);
  }
  return text;
}

template <class List>
Lines in_disorder(const List& list) {
  Lines out(static_cast<size_t>(list.size()));
  for (int64_t i = 0; i < list.size(); ++i) {
    const int64_t row = (i * 1009 + list.size() - 1) % list.size();
    out[static_cast<size_t>(row)] = to_record(list[row]);
  }
  return out;
}

TEST(PreparePreference, RowsReadEarlyAreThoseReadLate) {
  const std::string rows = many_rows();
  const auto compare = [&](const auto& prepare) {
    Lines records[2], lines[2];
    for (const int late : {0, 1}) {
      LetterShop shop("", 2 + late);
      shop.arguments.max_length = 300;
      shop.context.needs_lengths = late == 1;
      const auto list = prepare(shop.table(rows), shop.context);
      records[late] = in_disorder(*list);
      list->rows().wait();
      lines[late] = shop.log.lines;
      EXPECT_EQ(records[late].size(), 6000u);
    }
    EXPECT_EQ(records[0], records[1]);
    EXPECT_EQ(lines[0], lines[1]);
    ASSERT_EQ(lines[0].size(), 1u);
    EXPECT_NE(lines[0][0].find("1000 of 7000 rows are dropped because "), std::string::npos) << lines[0][0];
  };
  compare(prepare_dpo);
  compare(prepare_reward);
}

TEST(PreparePreference, APairedRowIsTwoInBlocks) {
  LetterShop shop;
  const auto list = prepare_kto(shop.table(many_rows()), shop.context);
  ASSERT_EQ(list->size(), 14000);
  for (const int64_t i : {0, 999, 1000, 1999, 2000, 13999}) {
    const UnpairedExample example = (*list)[i];
    EXPECT_EQ(example.source_row, i / 2000 * 1000 + i % 1000);
    EXPECT_EQ(example.label, i % 2000 < 1000);
  }
}

TEST(PreparePreference, PreparedRowsAreKeptForTheNextRun) {
  const test::Scratch scratch;
  const std::string rows = many_rows();
  Lines records[2], lines[2];
  for (const int again : {0, 1}) {
    LetterShop shop;
    std::atomic<int> encoded{0};
    static_cast<test::LetterTokenizer&>(*shop.tokenizer).before_encode = [&] { ++encoded; };
    shop.arguments.max_length = 300;
    shop.arguments.dataset_cache_dir = scratch / "cache";
    shop.arguments.dataset_cache_limit = int64_t{1} << 30;
    const auto list = prepare_dpo(shop.table(rows), shop.context);
    list->rows().wait();
    records[again] = in_disorder(*list);
    lines[again] = shop.log.lines;
    EXPECT_EQ(encoded == 0, again == 1);
    EXPECT_EQ(base::list_directory(scratch / "cache").size(), 1u);
  }
  EXPECT_EQ(records[0], records[1]);
  EXPECT_EQ(lines[0], lines[1]);
}

TEST(PreparePreference, WhatMakesOtherRowsMakesAnotherFingerprint) {
  LetterShop shop;
  const auto of = [&](const auto& prepare) {
    return prepare(shop.table(R"({"prompt":"q","chosen":"a","rejected":"b"})"), shop.context)
        ->rows()
        .fingerprint();
  };
  const uint64_t dpo = of(prepare_dpo);
  EXPECT_EQ(of(prepare_dpo), dpo);
  EXPECT_NE(of(prepare_reward), dpo);
  shop.arguments.row_options = "max_completion_length=5";
  EXPECT_NE(of(prepare_dpo), dpo);
}

TEST(PreparePreference, ConversationsNeedATemplate) {
  LetterShop shop;
  const auto table = shop.table(R"({"prompt":[{"role":"user","content":"q"}]})");
  const auto message = [&] {
    return test::message_of([&] { prepare_prompts(table, shop.context); }, Status::invalid_config);
  };
  EXPECT_EQ(message(),
            "model_name_or_path: t.jsonl:1 is conversational, and the tokenizer has no chat template; give a "
            "template in the model's directory (chat_template.jinja or tokenizer_config.json), or rows of "
            "text");
  shop.arguments.template_keys = {"chat_template_path"};
  EXPECT_EQ(message(),
            "chat_template_path: t.jsonl:1 is conversational, and the tokenizer has no chat template; give "
            "one through chat_template_path, a template in the model's directory (chat_template.jinja or "
            "tokenizer_config.json), or rows of text");
}

// The error is that of the first bad row, whichever thread meets one first.
TEST(PreparePreference, FirstBadRowAndCancel) {
  std::string rows;
  for (int i = 0; i < 1500; ++i)
    rows += R"({"prompt":"q","chosen":"a","rejected":)" + std::string(i < 700 ? "\"b\"" : "1") + "}\n";
  for (const int threads : {1, 4}) {
    LetterShop shop("", threads);
    const auto table = shop.table(rows);
    EXPECT_EQ(test::message_of([&] { prepare_dpo(table, shop.context); }).substr(0, 11), "t.jsonl:701");
    test::Stops stops;
    const base::InterruptScope scope(&stops);
    test::message_of([&] { prepare_dpo(table, shop.context); }, Status::cancelled);
  }
}

TEST(PreferenceRecords, ComeBackAndDamagedOnesAreRefused) {
  const PreferenceExample example{1LL << 40, {0, 127, 128}, {151935}, {}, -0.25f};
  const std::string record = to_record(example);
  PreferenceExample back;
  from_record(record, back);
  EXPECT_EQ(back.source_row, example.source_row);
  EXPECT_EQ(back.prompt_ids, example.prompt_ids);
  EXPECT_EQ(back.chosen_ids, example.chosen_ids);
  EXPECT_TRUE(back.rejected_ids.empty());
  EXPECT_EQ(back.margin, -0.25f);
  for (size_t length = 0; length < record.size(); ++length) {
    test::message_of([&] { from_record(std::string_view(record).substr(0, length), back); });
  }
}

}  // namespace
}  // namespace trl::data
