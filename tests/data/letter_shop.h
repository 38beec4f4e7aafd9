// A shop for preference, unpaired and prompt-only rows with a tokenizer of one token a byte.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "preference_shop.h"
#include "support/letter_tokenizer.h"

namespace trl::test {

inline constexpr const char* kTurnsTemplate =
    "{% if tools %}[{{ tools | length }}]{% endif %}{% if mood is defined %}({{ mood }}){% endif %}"
    "{% for m in messages %}{{ m['role'][0] }}:{{ m['content'] }}{{ eos_token }}{% endfor %}"
    "{% if add_generation_prompt %}a:{% endif %}";

struct LetterShop : PreferenceShop {
  explicit LetterShop(std::string chat_template = "", int threads = 2)
      : PreferenceShop(std::make_unique<LetterTokenizer>(std::move(chat_template)), threads) {}
};

// BOS '^', EOS '$'.
inline std::string spelt(const std::vector<int32_t>& ids) {
  std::string out;
  for (const int32_t id : ids) out.push_back(id == kBos ? '^' : id == kEos ? '$' : static_cast<char>(id));
  return out;
}

}  // namespace trl::test
