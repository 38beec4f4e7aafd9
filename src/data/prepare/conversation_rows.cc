#include "data/prepare/conversation_rows.h"

#include <algorithm>

#include "base/error.h"
#include "data/row/columns.h"

namespace trl::data {

namespace {

bool is_byte_level(const text::Tokenizer& tokenizer) {
  for (const auto& [name, bytes] : tokenizer.files())
    if (name == "tokenizer.json") return bytes.find("\"ByteLevel\"") != std::string::npos;
  return false;
}

}  // namespace

ConversationRows::ConversationRows(RowReader reader, const Row& first)
    : reader_(std::move(reader)), byte_level_(is_byte_level(reader_.tokenizer())) {
  const Row row = reader_.normalized(first);
  reader_.decide(row, "messages", OwnVariables::left);
  messages_column(row, "messages");
}

// A column `prompt` is the text of the prompt as the chat template writes it, with which the whole text
// begins.
GivenText ConversationRows::prompt_of(const Row& row, const GivenText& whole) const {
  const base::Json* const text = find_column(row, "prompt");
  if (text != nullptr) {
    if (!text->is_string()) fail_column(row, "prompt", "text, beside 'messages'");
    GivenText prompt{text->get<std::string>()};
    if (!whole.text.starts_with(prompt.text)) return prompt;
    prompt.given = whole.given;
    text::cut_ranges(prompt.given, prompt.text.size());
    return prompt;
  }
  Row before = row;
  before.value["prompt"] = messages_column(row, "messages");
  before.value["prompt"].erase(before.value["prompt"].size() - 1);
  return reader_.prompt_text(before);
}

// Returns the number of the whole text's ids that belong to the prompt.
size_t ConversationRows::prompt_ids(const GivenText& prompt, const GivenText& whole, size_t all) const {
  if (!byte_level_) return std::min(reader_.ids(prompt).size(), all);
  const auto offsets = reader_.tokenizer().encode_with_offsets(whole.text, false, whole.given).offsets;
  const auto first =
      std::ranges::find_if(offsets, [&](const auto& offset) { return offset.first >= prompt.text.size(); });
  return static_cast<size_t>(first - offsets.begin());
}

void ConversationRows::examples(Row& row, std::vector<Made<PromptExample>>& out) const {
  reader_.normalize(row);
  if (messages_column(row, "messages").size() < 2)
    fail_column(row, "messages", "at least two messages, the last of which is the completion");
  Made<PromptExample>& made = out.emplace_back();
  made.events.set(Event::unrendered, has_own_variables(row));
  const GivenText whole = reader_.text(row, "messages", &made.events);
  std::vector<int32_t> ids = reader_.ids(whole);
  size_t prompt = prompt_ids(prompt_of(row, whole), whole, ids.size());
  const std::optional<int64_t> most = reader_.arguments().max_length;
  if (const size_t limit = most ? static_cast<size_t>(*most) : ids.size(); ids.size() > limit) {
    const size_t cut = ids.size() - limit;
    ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(cut));
    prompt -= std::min(prompt, cut);
    made.events.set(Event::cut);
    if (prompt == 0) {
      fail(Status::format,
           "{}: its completion alone fills max_length {}, which leaves no token of the prompt to answer: "
           "raise max_length",
           row.where, *most);
    }
  }
  if (prompt == 0) fail_column(row, "messages", "a conversation whose prompt has at least one token");
  const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(prompt);
  made.example.prompt_ids.assign(ids.begin(), begin);
  made.example.completion_ids.assign(begin, ids.end());
  reader_.leave_room(row, prompt, made.events);
  made.example.row = row.value.dump();
}

}  // namespace trl::data
