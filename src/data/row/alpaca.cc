#include "data/row/alpaca.h"

#include <algorithm>
#include <array>
#include <utility>

#include "data/row/columns.h"

namespace trl::data {

bool is_alpaca(const Row& row, const std::string& text_field) {
  constexpr std::array<std::string_view, 6> kOthers = {"input_ids",  "messages", "prompt",
                                                       "completion", "chosen",   "rejected"};
  const auto has = [&](std::string_view name) { return find_column(row, name) != nullptr; };
  return has("instruction") && has("output") && !has(text_field) &&
         std::none_of(kOthers.begin(), kOthers.end(), has);
}

void convert_alpaca(Row& row, const std::string& text_field, const text::Tokenizer& tokenizer) {
  if (!is_alpaca(row, text_field)) return;
  std::string prompt = text_column(row, "instruction"), completion = text_column(row, "output");
  if (find_column(row, "input") != nullptr) {
    const std::string& input = text_column(row, "input");
    if (!input.empty()) prompt += "\n" + input;
  }
  for (const char* name : {"instruction", "input", "output"}) row.value.erase(name);
  const bool messages = tokenizer.chat_templates().contains("default");
  const auto said = [&](const char* role, std::string text) -> base::Json {
    if (!messages) return text;
    return base::Json::array({{{"role", role}, {"content", std::move(text)}}});
  };
  row.value["prompt"] = said("user", std::move(prompt));
  row.value["completion"] = said("assistant", std::move(completion));
}

}  // namespace trl::data
