// See row_reader.h.
#include "data/row/row_reader.h"

#include <algorithm>

#include "base/error.h"
#include "data/row/conversions.h"
#include "data/row/preference_columns.h"

namespace trl::data {

namespace {
using Ids = std::vector<int32_t>;
}

Row RowReader::normalized(const Row& first) const {
  Row row = first;
  normalize(row);
  return row;
}

void RowReader::normalize(Row& row) const {
  select_columns(row, arguments_.dataset_select_columns);
  rename_columns(row, arguments_.dataset_columns);
  refuse_images(row);
  convert_to_chatml(row);
  if (find_column(row, "label") != nullptr) convert_alpaca(row, arguments_.dataset_text_field, tokenizer_);
  if (tools_ != nullptr) tools_->give_prompt(row);
}

void RowReader::decide(const Row& first, std::string_view column, OwnVariables own) {
  if (content_of(first, column) == Content::messages)
    renderer_.emplace(tokenizer_, first, arguments_.template_keys, arguments_.chat_template_kwargs, own);
  if (tools_ == nullptr) return;
  if (!conversational())
    fail_key("tools", "tools: {}: its prompt is text, and tools are called in conversations: give messages",
             first.where);
  renderer_->use_tools(*tools_);
}

void RowReader::require(const Row& row, std::string_view column) const {
  if (conversational())
    messages_column(row, column);
  else
    text_column(row, column);
}

GivenText RowReader::prompt_text(const Row& row) const {
  if (conversational()) {
    text::Rendered rendered = renderer_->render(row, messages_column(row, "prompt"), true);
    return {std::move(rendered.text), std::move(rendered.given)};
  }
  const std::string& prompt = text_column(row, "prompt");
  return {prompt, tokenizer_.given_of(prompt.size())};
}

GivenText RowReader::render(const Row& row, const base::Json& messages, Events* events) const {
  text::Rendered rendered = renderer_->render(row, messages, false);
  if (events != nullptr && renderer_->left_out(row, messages, rendered.text) > 0)
    events->set(Event::left_out);
  return {std::move(rendered.text), std::move(rendered.given)};
}

GivenText RowReader::text(const Row& row, std::string_view column, Events* events) const {
  if (!conversational()) {
    const std::string& text = text_column(row, column);
    return {with_eos(tokenizer_, text), tokenizer_.given_of(text.size())};
  }
  return render(row, messages_column(row, column), events);
}

// extract_prompt leaves an empty list of messages if a side is all prompt.
GivenText RowReader::prompt_and_text(const Row& row, std::string_view column, Events* events) const {
  if (!conversational()) {
    const std::string &prompt = text_column(row, "prompt"), &text = text_column(row, column);
    return {prompt + with_eos(tokenizer_, text), tokenizer_.given_of(prompt.size() + text.size())};
  }
  base::Json whole = messages_column(row, "prompt");
  const base::Json* rest = find_column(row, column);
  if (rest == nullptr || *rest != base::Json::array()) rest = &messages_column(row, column);
  for (const base::Json& message : *rest) whole.push_back(message);
  return render(row, whole, events);
}

Ids RowReader::ids(const GivenText& text) const {
  return tokenizer_.encode(text.text, !conversational() && !arguments_.bare_prompts, text.given);
}

size_t RowReader::least_bytes_of_max_length() const {
  if (!arguments_.max_length) return SIZE_MAX;
  if (conversational()) return 0;  // a template may add any text
  const auto length = static_cast<size_t>(*arguments_.max_length);
  return length - std::min(length, kSpecialIds);
}

void RowReader::cut_prompt(Ids& ids, Events& events) const {
  const std::optional<int64_t>& length = arguments_.max_prompt_length;
  if (!length || ids.size() <= static_cast<size_t>(*length)) return;
  ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(*length));
  events.set(Event::prompt_cut);
}

void RowReader::cut_completion(Ids& ids, Events& events) const {
  const std::optional<int64_t>& length = arguments_.max_completion_length;
  if (!length || ids.size() <= static_cast<size_t>(*length)) return;
  ids.resize(static_cast<size_t>(*length));
  events.set(Event::completion_cut);
}

void RowReader::leave_room(const Row& row, size_t prompt, Events& events) const {
  const std::optional<int64_t>& room = arguments_.prompt_room;
  if (!room || prompt <= static_cast<size_t>(*room)) return;
  if (arguments_.long_prompts == config::LongPrompts::refuse) {
    fail(Status::format,
         "{}: its prompt has {} tokens, and the model's positions leave {} beside a whole completion: "
         "shorten it, or give long_prompts: drop",
         row.where, prompt, *room);
  }
  events.set(limits_prompts() ? Event::long_prompt : Event::beyond);
}

void RowReader::judge(size_t prompt, size_t completion, bool keep_end, Events& events) const {
  if (prompt + completion == 0) events.set(Event::empty);
  if (!arguments_.max_length) return;
  const size_t length = static_cast<size_t>(*arguments_.max_length);
  if (!keep_end && prompt >= length) events.set(Event::long_prompt);
  if (prompt + completion > length) events.set(Event::cut);
}

std::span<const int32_t> RowReader::kept(size_t prompt, const Ids& completion, bool keep_end) const {
  const std::span<const int32_t> all = completion;
  if (!arguments_.max_length) return all;
  const auto length = static_cast<size_t>(*arguments_.max_length);
  if (keep_end) return all.last(std::min(length, all.size()));
  return all.first(std::min(length - std::min(length, prompt), all.size()));
}

}  // namespace trl::data
