// See left_out.h. In most conversations the contents are in the text one after another. For the others, each
// message gets a unique word, and the conversation is rendered again.
#include "data/row/left_out.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"

namespace trl::data {

namespace {

constexpr std::array<std::string_view, 4> kUsualRoles = {"system", "user", "assistant", "tool"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

const base::Json* member(const base::Json& value, const char* key) {
  const auto found = value.is_object() ? value.find(key) : value.end();
  return value.is_object() && found != value.end() ? &*found : nullptr;
}

// Returns the text that a rendered message surely shows: its content or the name of its first call.
std::string_view shown_text(const base::Json& message) {
  const base::Json* text = member(message, "content");
  if (text != nullptr && text->is_array() && !text->empty()) text = member(text->front(), "text");
  const base::Json* calls = member(message, "tool_calls");
  if ((text == nullptr || !text->is_string() || trimmed(text->get_ref<const std::string&>()).empty()) &&
      calls != nullptr && calls->is_array() && !calls->empty()) {
    const base::Json* function = member(calls->front(), "function");
    text = member(function != nullptr ? *function : calls->front(), "name");
  }
  return text != nullptr && text->is_string() ? trimmed(text->get_ref<const std::string&>()) : "";
}

bool stand_in_order(const base::Json& messages, std::string_view text) {
  size_t at = 0;
  return std::all_of(messages.begin(), messages.end(), [&](const base::Json& message) {
    const std::string_view words = shown_text(message);
    if (words.empty()) return true;
    const base::Json* role = member(message, "role");
    const size_t found = text.find(words, at);
    at = found + words.size();
    return found != std::string_view::npos && role != nullptr &&
           std::find(kUsualRoles.begin(), kUsualRoles.end(), *role) != kUsualRoles.end();
  });
}

std::string word_of(size_t index) { return "qzx" + std::to_string(index) + "xzq"; }

void put_word(base::Json& message, const std::string& word) {
  if (const auto content = message.find("content"); content != message.end()) {
    if (content->is_string() && !trimmed(content->get_ref<const std::string&>()).empty()) *content = word;
    if (content->is_array() && !content->empty()) *content = {{{"type", "text"}, {"text", word}}};
  }
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (base::Json& call : *calls) {
    if (!call.is_object()) continue;
    base::Json& function = member(call, "function") != nullptr ? call["function"] : call;
    if (member(function, "name") != nullptr) function["name"] = word;
  }
}

}  // namespace

size_t first_left_out(const base::Json& messages, const std::string& rendered,
                      const std::function<std::string(const base::Json&)>& render) {
  if (stand_in_order(messages, rendered)) return 0;
  base::Json marked = messages;
  for (size_t i = 0; i < marked.size(); ++i) {
    if (!shown_text(marked[i]).empty()) put_word(marked[i], word_of(i));
  }
  std::string text;
  try {
    text = render(marked);
  } catch (const Error&) {
    return 0;
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!shown_text(messages[i]).empty() && text.find(word_of(i)) == std::string::npos) return i + 1;
  }
  return 0;
}

}  // namespace trl::data
