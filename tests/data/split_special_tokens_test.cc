// Rows that spell out special tokens, prepared with split_special_tokens: only those of the chat template and
// of the library are special. One token a byte, EOS "<e>".
#include <gtest/gtest.h>

#include "data/prepare/sft.h"
#include "letter_shop.h"

namespace trl::data {
namespace {

using test::kTurnsTemplate;
using test::LetterShop;
using test::LetterTokenizer;
using test::spelt;
using Lines = std::vector<std::string>;

struct SplittingShop : LetterShop {
  explicit SplittingShop(const std::string& chat_template = "") : LetterShop(chat_template) {
    splits() = true;
  }
  bool& splits() { return static_cast<LetterTokenizer&>(*tokenizer).splits; }

  // The ids of each row and its labels, '.' for a token that is not trained.
  Lines sft(std::string jsonl) {
    const auto rows = prepare_sft(*open_memory_source("jsonl", std::move(jsonl), "t.jsonl"), context);
    Lines out;
    for (int64_t row = 0; row < rows->size(); ++row) {
      const Example example = rows->read(row);
      std::vector<int32_t> labels = example.labels;
      for (int32_t& label : labels) label = label == -100 ? '.' : label;
      out.push_back(spelt(example.input_ids) + " " + spelt(labels));
    }
    return out;
  }
};

TEST(SplitSpecialTokens, OfTextsAreText) {
  SplittingShop shop;
  EXPECT_EQ(shop.sft("{\"text\":\"ab<e>\"}\n{\"text\":\"<e>\"}\n{\"text\":\"c\"}"),
            (Lines{"^ab<e>$ ^ab<e>$", "^<e>$ ^<e>$", "^c$ ^c$"}));
  EXPECT_EQ(shop.sft(R"({"prompt":"q<e>","completion":"a<e>"})"), (Lines{"^q<e>a<e>$ .....a<e>$"}));
  shop.splits() = false;
  EXPECT_EQ(shop.sft("{\"text\":\"ab<e>\"}"), (Lines{"^ab$ ^ab$"}));
}

constexpr const char* kMarked =
    "{% for m in messages %}{{ m['role'][0] }}:{% if m['role'] == 'assistant' %}{% generation %}"
    "{{ m['content'] }}{{ eos_token }}{% endgeneration %}{% else %}{{ m['content'] }}{{ eos_token }}"
    "{% endif %}{% endfor %}{% if add_generation_prompt %}a:{% endif %}";

TEST(SplitSpecialTokens, OfMessagesAreText) {
  SplittingShop shop(kMarked);
  const std::string rows =
      R"({"messages":[{"role":"user","content":"q<e>"},{"role":"assistant","content":"a<e>b"}]})";
  EXPECT_EQ(shop.sft(rows), (Lines{"u:q<e>$a:a<e>b$ u:q<e>$a:a<e>b$"}));
  shop.arguments.assistant_only_loss = true;
  EXPECT_EQ(shop.sft(rows), (Lines{"u:q<e>$a:a<e>b$ .........a<e>b$"}));
  shop.arguments.assistant_only_loss = false;
  EXPECT_EQ(shop.sft(R"({"prompt":[{"role":"user","content":"q<e>"}],)"
                     R"("completion":[{"role":"assistant","content":"<e>"}]})"),
            (Lines{"u:q<e>$a:<e>$ .........<e>$"}));
  shop.splits() = false;
  EXPECT_EQ(shop.sft(rows), (Lines{"u:q$$a:a$b$ u:q$$a:a$b$"}));
}

TEST(SplitSpecialTokens, OfToolsAndVariablesOfARowAreText) {
  SplittingShop shop("{{ tools[0].name }}{{ mood }}{{ messages[0].content }}{{ eos_token }}");
  EXPECT_EQ(shop.sft(R"({"messages":[{"role":"user","content":"q"}],"tools":[{"name":"t<e>"}],)"
                     R"("chat_template_kwargs":{"mood":"<e>"}})"),
            (Lines{"t<e><e>q$ t<e><e>q$"}));
}

TEST(SplitSpecialTokens, OfPairsAreText) {
  SplittingShop shop(kTurnsTemplate);
  const auto pair = [&](const std::string& row) {
    const PreferenceExample e = (*prepare_dpo(shop.table(row), shop.context))[0];
    return Lines{spelt(e.prompt_ids), spelt(e.chosen_ids), spelt(e.rejected_ids)};
  };
  EXPECT_EQ(pair(R"({"prompt":"q<e>","chosen":"a<e>","rejected":"b"})"), (Lines{"^q<e>", "a<e>$", "b$"}));
  EXPECT_EQ(pair(R"({"prompt":[{"role":"user","content":"q<e>"}],"chosen":[{"role":"assistant",)"
                 R"("content":"<e>"}],"rejected":[{"role":"assistant","content":"b"}]})"),
            (Lines{"u:q<e>$a:", "<e>$", "b$"}));
  const PreferenceExample scored =
      (*prepare_reward(shop.table(R"({"chosen":"a<e>","rejected":"b"})"), shop.context))[0];
  EXPECT_EQ(spelt(scored.chosen_ids), "^a<e>$");
  EXPECT_EQ(spelt(scored.rejected_ids), "^b$");
  const UnpairedExample unpaired =
      (*prepare_kto(shop.table(R"({"prompt":"q<e>","completion":"a<e>","label":true})"), shop.context))[0];
  EXPECT_EQ(spelt(unpaired.prompt_ids), "^q<e>");
  EXPECT_EQ(spelt(unpaired.completion_ids), "a<e>$");
}

TEST(SplitSpecialTokens, OfPromptsAreText) {
  SplittingShop shop(kTurnsTemplate);
  const auto prompt = [&](const std::string& row) {
    return spelt((*prepare_prompts(shop.table(row), shop.context))[0].prompt_ids);
  };
  EXPECT_EQ(prompt(R"({"prompt":"q<e>"})"), "^q<e>");
  EXPECT_EQ(prompt(R"({"prompt":[{"role":"user","content":"q<e>"}]})"), "u:q<e>$a:");
  const PromptExample whole = (*prepare_conversations(
      shop.table(R"({"messages":[{"role":"user","content":"q<e>"},{"role":"assistant","content":"<e>"}]})"),
      shop.context))[0];
  EXPECT_EQ(spelt(whole.prompt_ids) + "|" + spelt(whole.completion_ids), "u:q<e>$a:|<e>$");
  const PromptExample named =
      (*prepare_conversations(shop.table(R"({"prompt":"u:q<e>","messages":[{"role":"user","content":"q<e>"},)"
                                         R"({"role":"assistant","content":"xy"}]})"),
                              shop.context))[0];
  EXPECT_EQ(spelt(named.prompt_ids) + "|" + spelt(named.completion_ids), "u:q<e>|$a:xy$");
}

TEST(SplitSpecialTokens, MakeAnotherFingerprint) {
  SplittingShop shop;
  const auto of = [&] {
    return prepare_prompts(shop.table(R"({"prompt":"q"})"), shop.context)->rows().fingerprint();
  };
  const uint64_t split = of();
  shop.splits() = false;
  EXPECT_NE(of(), split);
}

}  // namespace
}  // namespace trl::data
