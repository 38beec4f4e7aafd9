// Prompts that spell out special tokens, for a tokenizer that splits them.
#include <gtest/gtest.h>

#include "run/complete/complete.h"
#include "support/letter_tokenizer.h"

namespace trl::run {
namespace {

std::string spelt(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids)
    out.push_back(id == test::kBos ? '^' : id == test::kEos ? '$' : static_cast<char>(id));
  return out;
}

Tokenizer tokenizer(bool splits) {
  auto made = std::make_unique<test::LetterTokenizer>(
      "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }}{{ mood }}{{ eos_token }}{% endfor %}"
      "{% if add_generation_prompt %}a:{% endif %}");
  made->splits = splits;
  return Tokenizer(std::move(made));
}

std::string prompt(const Tokenizer& with, std::string_view text, bool chat) {
  config::Config options;
  if (chat) options.set("generate.chat", "true");
  return spelt(prompt_ids(with, {&text, 1}, options)[0]);
}

TEST(SplitSpecialTokens, EndNoTurnOfAChat) {
  const Tokenizer splitting = tokenizer(true), plain = tokenizer(false);
  EXPECT_EQ(prompt(plain, "q<e>", true), "u:q$$a:");
  EXPECT_EQ(prompt(splitting, "q<e>", true), "u:q<e>$a:");
  EXPECT_EQ(prompt(splitting, R"([{"role":"user","content":"<e>"},{"role":"tool","content":"t<e>"}])", true),
            "u:<e>$t:t<e>$a:");
  EXPECT_EQ(
      prompt(splitting,
             R"({"messages":[{"role":"user","content":"q"}],"chat_template_kwargs":{"mood":"<e>"}})", true),
      "u:q<e>$a:");
  EXPECT_EQ(prompt(splitting, "q<e>", false), "^q<e>");
  EXPECT_EQ(prompt(plain, "q<e>", false), "^q$");
  const base::Json conversation = base::Json::parse(
      R"({"messages":[{"role":"user","content":"q<e>"},{"role":"assistant","content":"<e>"}]})");
  EXPECT_EQ(spelt(splitting.encode_conversation(conversation)), "u:q<e>$a:<e>$");  // as scores read it
  EXPECT_EQ(splitting.apply_chat_template(conversation), plain.apply_chat_template(conversation));
}

}  // namespace
}  // namespace trl::run
