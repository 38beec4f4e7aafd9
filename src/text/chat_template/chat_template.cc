// Renders a chat template as Hugging Face's apply_chat_template does: the messages in the form that the
// template sees, and the cut of an unfinished final message.
#include "text/chat_template/chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/chat_template/interpreter.h"
#include "text/chat_template/unicode.h"

namespace trl::text {

namespace {

// A mark at the end of the final message's content, by which its end is found again in the rendered text.
constexpr std::string_view kContinueMark = "CONTINUE_FINAL_MESSAGE_TAG ";

// Leaves out keys without a value, and gives reasoning under each name that templates use for it.
base::Json visible_message(const base::Json& message, size_t index) {
  if (!message.is_object()) {
    fail(Status::format, "messages: entry {} is {}, an object with role and content was expected", index + 1,
         base::json_type(message));
  }
  base::Json given = base::Json::object();
  for (const auto& [key, value] : message.items())
    if (!value.is_null()) given[key] = value;
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    const auto found = given.find(name);
    if (found == given.end()) continue;
    base::Json out = base::Json::object();
    out["thinking"] = *found;
    for (const auto& [key, value] : given.items()) out[key] = value;
    out["reasoning_content"] = *found;
    return out;
  }
  return given;
}

base::Json visible_messages(const base::Json& messages) {
  if (!messages.is_array())
    fail(Status::format, "messages: a list was expected, got {}", base::json_type(messages));
  base::Json out = base::Json::array();
  for (size_t i = 0; i < messages.size(); ++i) out.push_back(visible_message(messages[i], i));
  return out;
}

// Marks the end of the final message's text and returns the original text.
std::string mark_final_message(base::Json& messages, std::string_view source) {
  if (messages.empty()) fail(Status::format, "continue_final_message: the conversation is empty");
  base::Json& message = messages.back();
  const auto content = message.find("content");
  if (content == message.end())
    fail(Status::format, "continue_final_message: the final message has no content");
  if (source.find("content") == std::string_view::npos)
    fail(Status::format, "continue_final_message: the chat template never reads 'content'");
  base::Json* text = &*content;
  if (content->is_array()) {
    text = nullptr;
    for (auto block = content->rbegin(); block != content->rend() && !text; ++block)
      if (block->is_object() && block->contains("text")) text = &(*block)["text"];
  }
  if (!text || !text->is_string())
    fail(Status::format, "continue_final_message: the final message has no text to continue");
  std::string original = text->get<std::string>();
  *text = original + std::string(kContinueMark);
  return original;
}

// Cuts the text after the final message. A template that trims drops the mark's last blank; then white space
// before the mark is dropped too.
void cut_after_final_message(std::string& text, std::string_view final_message) {
  const std::string_view mark = kContinueMark.substr(0, kContinueMark.size() - 1);
  const size_t at = text.rfind(mark);
  if (at == std::string::npos ||
      text.find(jinja::strip(final_message, jinja::Side::both)) == std::string::npos) {
    fail(Status::format,
         "continue_final_message: the final message does not appear in the rendered chat; the template "
         "changes it");
  }
  const bool kept = std::string_view(text).substr(at).starts_with(kContinueMark);
  text.resize(at);
  if (!kept) text = jinja::strip(text, jinja::Side::right);
}

int64_t clock_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

struct ChatTemplate::Parsed {
  std::string source;
  jinja::Program program;
};

ChatTemplate::ChatTemplate(std::string_view source) : parsed_(std::make_unique<Parsed>()) {
  if (const size_t bad = base::find_invalid_utf8(source); bad != base::kValid)
    fail(Status::format, "chat template: byte {} is not valid UTF-8", bad);
  parsed_->source = source;
  parsed_->program = jinja::parse(source);
}

ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

bool ChatTemplate::has_generation_markers() const { return parsed_->program.has_generation; }
const std::string& ChatTemplate::source() const { return parsed_->source; }

Rendered ChatTemplate::render(const base::Json& messages, const RenderOptions& options) const {
  if (options.continue_final_message && options.add_generation_prompt)
    fail(Status::invalid_argument, "continue_final_message and add_generation_prompt exclude each other");
  base::Json chat = visible_messages(messages);
  std::string final_message;
  if (options.continue_final_message) final_message = mark_final_message(chat, parsed_->source);

  jinja::Interpreter interpreter(parsed_->program, options.now < 0 ? clock_seconds() : options.now);
  interpreter.define("documents", jinja::Value::none());
  for (const base::Json* variables : {&options.variables, &options.row_variables}) {
    const bool given = options.find_given && variables == &options.row_variables;
    for (const auto& [name, value] : variables->items()) {
      if (name == "messages" || name == "tools" || name == "add_generation_prompt" ||
          name == "continue_final_message")
        fail(Status::invalid_argument,
             "chat template variables: '{}' has its own argument and cannot be a variable", name);
      interpreter.define(name, interpreter.from_json(value, given));
    }
  }
  interpreter.define("messages", interpreter.from_json(chat, options.find_given));
  interpreter.define("tools", interpreter.from_json(options.tools, options.find_given));
  interpreter.define("add_generation_prompt", jinja::Value::boolean(options.add_generation_prompt));

  Rendered rendered;
  rendered.text = interpreter.render();
  rendered.generation = interpreter.generation();
  rendered.given = interpreter.given();
  if (options.continue_final_message) {
    cut_after_final_message(rendered.text, final_message);
    cut_ranges(rendered.given, rendered.text.size());
  }
  return rendered;
}

ChatTemplates::ChatTemplates(const std::map<std::string, std::string>& sources) {
  for (const auto& [name, source] : sources) {
    names_ += (names_.empty() ? "'" : ", '") + name + "'";
    if (name == "default") default_.emplace(source);
    if (name == "tool_use") tool_use_.emplace(source);
  }
}

const ChatTemplate* ChatTemplates::find(const base::Json& tools) const {
  if (!tools.is_null() && tool_use_) return &*tool_use_;
  return default_ ? &*default_ : nullptr;
}

std::string ChatTemplates::why_none() const {
  if (names_.empty()) return "the tokenizer has no chat template";
  return fmt::format("the tokenizer has the chat templates {}, but none named 'default'", names_);
}

std::vector<uint8_t> assistant_mask(const Rendered& rendered,
                                    const std::vector<std::pair<uint32_t, uint32_t>>& offsets) {
  std::vector<uint8_t> mask(offsets.size(), 0);
  for (const auto& [begin, end] : rendered.generation) {
    const auto covers = [first = begin, last = end](const auto& token) {
      return std::max<size_t>(token.first, first) < std::min<size_t>(token.second, last);
    };
    const auto from = std::ranges::find_if(offsets, covers) - offsets.begin();
    const auto to = offsets.rend() - std::find_if(offsets.rbegin(), offsets.rend(), covers);
    if (from < to) std::fill(mask.begin() + from, mask.begin() + to, 1);
  }
  return mask;
}

}  // namespace trl::text
