#include "serve/api/conversation.h"

#include <fmt/format.h>

#include "base/error.h"

namespace trl::serve {

namespace {

[[noreturn]] void refuse_at(std::string_view name, const std::string& where, std::string_view text) {
  throw Refusal(400, fmt::format("{}: {}", where, text), std::string(name));
}

// Returns the text of a list of parts.
std::string joined_parts(const base::Json& parts, std::string_view name, const std::string& where) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) {
    const base::Json& part = parts[i];
    const std::string here = fmt::format("{}[{}]", where, i);
    if (i > 0) text += '\n';
    if (part.is_string()) {
      text += part.get_ref<const std::string&>();
      continue;
    }
    if (!part.is_object()) refuse_at(name, here, "give an object with type and text, or a text");
    const std::string type =
        part.contains("type") && part["type"].is_string() ? part["type"].get<std::string>() : "text";
    const char* const member = type == "refusal" ? "refusal" : "text";
    if (type != "text" && type != "refusal")
      refuse_at(name, here,
                fmt::format("the type {} is not accepted; this version takes text alone", json_text(type)));
    const auto found = part.find(member);
    if (found == part.end() || !found->is_string())
      refuse_at(name, here, fmt::format("{} is missing; give a text", member));
    text += found->get_ref<const std::string&>();
  }
  return text;
}

// Clients send the arguments of earlier calls as JSON text, templates take objects.
void read_calls(base::Json& calls, std::string_view name, const std::string& where) {
  if (!calls.is_array()) refuse_at(name, where, "give a list of calls");
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string here = fmt::format("{}[{}]", where, i);
    const bool good = calls[i].is_object() && calls[i].contains("function") &&
                      calls[i]["function"].is_object() && calls[i]["function"].contains("name");
    if (!good) refuse_at(name, here, "give {type: function, function: {name, arguments}}");
    base::Json& function = calls[i]["function"];
    const auto arguments = function.find("arguments");
    if (arguments == function.end() || arguments->is_null() || is_text(*arguments, "")) {
      function["arguments"] = base::Json::object();
    } else if (arguments->is_string()) {
      try {
        *arguments = base::parse_exact_json(arguments->get<std::string>(), here + ".function.arguments");
      } catch (const Error& error) {
        throw Refusal(400, error.message(), std::string(name));
      }
    }
  }
}

void check_tools(const base::Json& tools) {
  for (const base::Json& tool : tools) {
    const bool good = tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
                      tool["function"].contains("name") && tool["function"]["name"].is_string();
    if (!good) refuse_value("tools", tool, "objects {type: function, function: {name, parameters}}");
  }
}

// Returns the field that an error of a chat template is about.
std::string field_of_template(const TemplateFields& fields, std::string_view message) {
  if (message.starts_with("chat template variables")) return "chat_template_kwargs";
  return message.starts_with("chat template") && !fields.chat_template.empty() ? "chat_template" : "messages";
}

}  // namespace

TemplateFields read_template_fields(Fields& fields, const ServerOptions& options) {
  TemplateFields out;
  if (const base::Json* const tools = fields.find("tools")) {
    if (!tools->is_array()) refuse_value("tools", *tools, "a list of tools");
    check_tools(*tools);
    if (!tools->empty()) out.tools = *tools;
  }
  base::Json variables = base::Json::object();
  if (const base::Json* const kwargs = fields.object("chat_template_kwargs")) variables = *kwargs;
  if (variables.contains("chat_template"))
    throw Refusal(400, "chat_template_kwargs: chat_template is a field of its own", "chat_template_kwargs");
  if (const base::Json* const documents = fields.find("documents")) {
    if (!documents->is_array()) refuse_value("documents", *documents, "a list of objects");
    variables["documents"] = *documents;
  }
  if (const auto effort = fields.text("reasoning_effort")) {
    variables["reasoning_effort"] = *effort;
    if (!variables.contains("enable_thinking")) variables["enable_thinking"] = *effort != "none";
  }
  if (const auto own = fields.text("chat_template")) {
    if (!options.request_templates)
      throw Refusal(400, "chat_template: this server takes none in requests (serve.request_chat_template)",
                    "chat_template");
    out.chat_template = *own;
    out.json["chat_template"] = *own;
  }
  const bool continues = fields.boolean("continue_final_message").value_or(false);
  out.adds_prompt = fields.boolean("add_generation_prompt").value_or(!continues);
  if (continues && out.adds_prompt)
    throw Refusal(400, "Cannot set both `continue_final_message` and `add_generation_prompt` to True.",
                  "add_generation_prompt");
  out.special_tokens = fields.boolean("add_special_tokens").value_or(false);
  if (!out.tools.is_null()) out.json["tools"] = out.tools;
  out.json["add_generation_prompt"] = out.adds_prompt;
  out.json["continue_final_message"] = continues;
  out.json["chat_template_kwargs"] = std::move(variables);
  return out;
}

base::Json read_messages(const base::Json* messages, std::string_view name) {
  constexpr std::string_view kAccepted = "a list of messages, objects with role and content";
  if (messages == nullptr)
    throw Refusal(400, fmt::format("{}: missing; give {}", name, kAccepted), std::string(name));
  if (!messages->is_array() || messages->empty()) refuse_value(name, *messages, kAccepted);
  base::Json out = base::Json::array();
  for (size_t i = 0; i < messages->size(); ++i) {
    base::Json message = (*messages)[i];
    const std::string where = fmt::format("{}[{}]", name, i);
    if (!message.is_object() || !message.contains("role") || !message["role"].is_string())
      refuse_at(name, where, "give an object with role and content");
    const auto content = message.find("content");
    if (content == message.end())
      message["content"] = "";
    else if (content->is_null())  // beside calls
      *content = "";
    else if (content->is_array())
      *content = joined_parts(*content, name, where + ".content");
    else if (!content->is_string())
      refuse_at(name, where + ".content", "give a text, or a list of parts of the type text");
    if (const auto calls = message.find("tool_calls"); calls != message.end() && !calls->is_null()) {
      read_calls(*calls, name, where + ".tool_calls");
      if (calls->empty()) message.erase("tool_calls");
    }
    out.push_back(std::move(message));
  }
  return out;
}

Prompt render_prompt(const base::Json& messages, const TemplateFields& fields, const ServedModel& model) {
  base::Json conversation = fields.json;
  conversation["messages"] = messages;
  try {
    Prompt prompt{model.render(conversation), {}};
    prompt.ids = model.encode(prompt.text, fields.special_tokens);
    if (prompt.ids.empty())
      throw Refusal(400, "messages: the chat template makes no tokens of them", "messages");
    return prompt;
  } catch (const Error& error) {
    if (error.status() == Status::internal || error.status() == Status::out_of_memory) throw;
    throw Refusal(400, error.message(), field_of_template(fields, error.message()));
  }
}

}  // namespace trl::serve
