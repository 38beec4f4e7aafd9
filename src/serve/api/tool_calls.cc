#include "serve/api/tool_calls.h"

#include <algorithm>
#include <set>

#include "serve/api/completion.h"
#include "serve/api/fields.h"
#include "text/response/response_form.h"

namespace trl::serve {

namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";

bool has_own_text(const text::ResponseForm& form) {
  return std::ranges::any_of(form.fields, [](const auto& field) { return field.open.empty(); });
}

// Returns how many bytes at the end of the text may be the beginning of the mark.
size_t overlap(std::string_view text, std::string_view mark) {
  size_t most = std::min(text.size(), mark.size() - 1);
  while (most > 0 && !text.ends_with(mark.substr(0, most))) --most;
  return most;
}

void remove_all(std::string& text, const std::string& part) {
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at)) text.erase(at, part.size());
}

std::string text_at(const base::Json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && found->is_string() ? found->get<std::string>() : std::string();
}

ToolCall call_of(const base::Json& call) {
  const base::Json function = call.value("function", base::Json::object());
  const base::Json arguments = function.value("arguments", base::Json::object());
  return {random_id("chatcmpl-tool-"), function.value("name", ""),
          arguments.is_string() ? arguments.get<std::string>() : base::exact_text(arguments)};
}

}  // namespace

MessageReader::MessageReader(const ServedModel& model, const text::ResponseForm& form, std::string prompt,
                             base::Json tools, bool all_calls)
    : model_(model),
      form_(form),
      parser_(form),
      prompt_(std::move(prompt)),
      tools_(std::move(tools)),
      all_calls_(all_calls) {}

std::optional<Message> MessageReader::read(const Ids& ids, const std::string& text) const {
  const bool cut = model_.decode(ids, true) != text;  // by a stop text
  const auto message = parser_.parse(cut ? text : model_.decode(ids, false), prompt_, tools_);
  if (!message) return std::nullopt;
  Message out;
  out.content = text_at(*message, "content");
  out.reasoning = text_at(*message, "reasoning_content") + text_at(*message, "thinking");
  for (const base::Json& call : message->value("tool_calls", base::Json::array()))
    if (all_calls_ || out.calls.empty()) out.calls.push_back(call_of(call));
  for (const int32_t id : std::set<int32_t>(ids.begin(), ids.end()))
    if (model_.decode({&id, 1}, true).empty())
      if (const std::string special = model_.decode({&id, 1}, false); !special.empty())
        remove_all(out.content, special);
  return out;
}

// Takes more of a field; returns what can be told of it.
std::string MessageStream::Told::take(std::string_view more) {
  if (text.empty()) more.remove_prefix(std::min(more.find_first_not_of(kSpace), more.size()));
  const size_t last = more.find_last_not_of(kSpace);
  if (last == more.npos) {
    space += more;
    return {};
  }
  std::string out = std::exchange(space, std::string(more.substr(last + 1)));
  out += more.substr(0, last + 1);
  text += out;
  return out;
}

std::string MessageStream::Told::rest(const std::string& whole) const {
  return whole.starts_with(text) ? whole.substr(text.size()) : std::string();
}

MessageStream::MessageStream(std::shared_ptr<const MessageReader> reader)
    : reader_(std::move(reader)), held_(!has_own_text(reader_->form())) {
  if (!held_) add(reader_->beginning());
}

Message MessageStream::add(std::string_view text) {
  Message out;
  waiting_ += text;
  while (step(out)) {
  }
  return out;
}

// Goes on to the next mark; false: there is none yet.
bool MessageStream::step(Message& out) {
  if (held_) return false;
  Told& told = close_.empty() ? content_ : reasoning_;
  std::string& to = close_.empty() ? out.content : out.reasoning;
  size_t place = waiting_.npos, kept = 0;
  const text::ResponseField* opened = nullptr;
  const auto look = [&](std::string_view mark, const text::ResponseField* field) {
    if (mark.empty()) return;
    kept = std::max(kept, overlap(waiting_, mark));
    const size_t at = waiting_.find(mark);
    if (at >= place) return;
    place = at;
    opened = field;
  };
  if (!close_.empty()) {
    look(close_, nullptr);
  } else {
    for (const text::ResponseField& field : reader_->form().fields) look(field.begin, &field);
  }
  if (place == waiting_.npos) {
    const size_t known = waiting_.size() - kept;
    to += told.take(std::string_view(waiting_).substr(0, known));
    waiting_.erase(0, known);
    return false;
  }
  to += told.take(std::string_view(waiting_).substr(0, place));
  held_ = opened != nullptr && opened->end.empty();
  const size_t mark = opened == nullptr ? close_.size() : held_ ? 0 : opened->begin.size();
  close_ = opened == nullptr ? std::string_view() : opened->end;
  waiting_.erase(0, place + mark);
  return true;
}

Message MessageStream::end(const Ids& ids, const std::string& text) {
  Message out;
  const std::string left = std::exchange(waiting_, {});
  if (!held_) {
    std::string& to = close_.empty() ? out.content : out.reasoning;
    Told& told = close_.empty() ? content_ : reasoning_;
    to = told.take(left);
    if (!told.text.empty()) to += told.space;
    return out;
  }
  const std::optional<Message> message = reader_->read(ids, text);
  if (!message || (message->calls.empty() && has_own_text(reader_->form()))) {
    if (!content_.text.empty()) out.content = content_.space;
    out.content += left;
    return out;
  }
  out = *message;
  out.reasoning = reasoning_.rest(out.reasoning);
  out.content = content_.rest(out.content);
  return out;
}

std::shared_ptr<const MessageReader> message_reader(const ServedModel& model,
                                                    const std::string& chat_template, std::string prompt,
                                                    const base::Json& tools, bool all_calls) {
  const std::string& source = chat_template.empty() ? model.chat_template(true) : chat_template;
  const text::ResponseForm* const form = text::response_form(source);
  if (form == nullptr) return nullptr;
  return std::make_shared<MessageReader>(model, *form, std::move(prompt), tools, all_calls);
}

}  // namespace trl::serve
