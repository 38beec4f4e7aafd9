#include "base/text/message_text.h"

#include "base/json/json.h"

namespace trl::base {

namespace {

using OrderedJson = nlohmann::ordered_json;

// Returns the content of a message: a text, or parts; null: none.
std::string content_text(const OrderedJson& content) {
  if (content.is_null()) return {};
  if (!content.is_array()) return text_or_json(content);
  std::string out;
  for (const OrderedJson& part : content)
    out += text_or_json(part.is_object() ? part.value("text", part) : part);
  return out;
}

std::string call_text(const OrderedJson& call) {
  const OrderedJson function = call.is_object() ? call.value("function", call) : call;
  if (!function.is_object()) return text_or_json(function);
  return text_or_json(function.value("name", OrderedJson("?"))) + "(" +
         text_or_json(function.value("arguments", OrderedJson(""))) + ")";
}

}  // namespace

std::string text_or_json(const OrderedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

MessageText message_text(const OrderedJson& message) {
  MessageText out{content_text(message.value("role", OrderedJson())), {}};
  for (const char* name : {"reasoning_content", "content"})
    if (std::string text = content_text(message.value(name, OrderedJson())); !text.empty())
      out.parts.push_back(std::move(text));
  for (const OrderedJson& call : message.value("tool_calls", OrderedJson::array()))
    out.parts.push_back(call_text(call));
  return out;
}

}  // namespace trl::base
