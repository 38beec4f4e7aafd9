// Pairs and unpaired rows of token ids, with a tokenizer of one token a byte.
#include <gtest/gtest.h>

#include "letter_shop.h"

namespace trl::data {
namespace {

using test::LetterShop;
using test::message_of;
using test::spelt;
using Lines = std::vector<std::string>;

Lines pairs_of(LetterShop& shop, const std::string& jsonl) {
  const auto list = prepare_dpo(shop.table(jsonl), shop.context);
  Lines out;
  for (int64_t i = 0; i < list->size(); ++i) {
    const PreferenceExample e = (*list)[i];
    out.push_back(fmt::format("{} {}|{}|{}", e.source_row, spelt(e.prompt_ids), spelt(e.chosen_ids),
                              spelt(e.rejected_ids)));
  }
  return out;
}

Lines unpaired_of(LetterShop& shop, const std::string& jsonl) {
  const auto list = prepare_kto(shop.table(jsonl), shop.context);
  Lines out;
  for (int64_t i = 0; i < list->size(); ++i) {
    const UnpairedExample e = (*list)[i];
    out.push_back(fmt::format("{} {}|{} {}", e.source_row, spelt(e.prompt_ids), spelt(e.completion_ids),
                              e.label ? '+' : '-'));
  }
  return out;
}

// Ids instead of texts, as TRL's own preparation leaves them; texts beside them count.
TEST(PreferenceIds, MakePairs) {
  LetterShop shop;
  shop.arguments.max_length = 3;
  EXPECT_EQ(pairs_of(shop, R"({"prompt_ids":[113],"chosen_ids":[97,257],"rejected_ids":[98,99]}
{"prompt_ids":[113,113,113],"chosen_ids":[97],"rejected_ids":[98]})"),
            (Lines{"0 q|a$|bc"}));  // no prompt fills max_length
  EXPECT_EQ(pairs_of(shop, R"({"prompt":"q","chosen":"a","rejected":"b","chosen_ids":[98]})"),
            (Lines{"0 ^q|a$|b$"}));
  const auto error = [&](const std::string& row) { return message_of([&] { pairs_of(shop, row); }); };
  EXPECT_NE(
      error(R"({"prompt_ids":[113],"chosen_ids":[97,258],"rejected_ids":[98]})")
          .find("t.jsonl:1: column 'chosen_ids', element 2: 258 is not a token id: 0 to 257 is accepted"),
      std::string::npos);
  EXPECT_NE(error(R"({"chosen_ids":[97],"rejected_ids":[98]})").find("t.jsonl:1: no column 'prompt_ids'"),
            std::string::npos);
}

TEST(PreferenceIds, MakeUnpairedRows) {
  LetterShop shop;
  EXPECT_EQ(unpaired_of(shop, R"({"prompt_ids":[113],"completion_ids":[97,257],"label":true}
{"prompt_ids":[],"completion_ids":[98],"label":false})"),
            (Lines{"0 q|a$ +", "1 |b -"}));
  EXPECT_NE(message_of([&] {
              unpaired_of(shop, R"({"prompt_ids":[113],"completion_ids":[-1],"label":true})");
            }).find("t.jsonl:1: column 'completion_ids', element 1: -1 is not a token id"),
            std::string::npos);
}

}  // namespace
}  // namespace trl::data
