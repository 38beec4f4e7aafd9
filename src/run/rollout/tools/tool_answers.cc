#include "run/rollout/tools/tool_answers.h"

#include <algorithm>

#include "base/error.h"
#include "text/chat_template/chat_template.h"

namespace trl::run {

namespace {

// Returns Python's str() of a value.
std::string python_text(const base::Json& value) {
  // never destroyed: other threads may still train while the process ends
  static const auto& as_it_is = *new const text::ChatTemplate("{{ value }}");
  text::RenderOptions options;
  options.variables["value"] = value;
  return as_it_is.render(base::Json::array(), options).text;
}

// A result that says that the call failed.
bool is_error(const base::Json& result) {
  return result.is_object() && result.size() == 1 && result.contains("error") && result["error"].is_string();
}

base::Json calls_of(const base::Json& message) { return message.value("tool_calls", base::Json::array()); }

// Returns why a call cannot be made; empty: the host makes it.
std::string refusal_of(const base::Json& call, const base::Json& schemas) {
  if (const std::string type = call.value("type", "function"); type != "function")
    return fmt::format("Unsupported tool call type: {}", type);
  const std::string name = call["function"]["name"];
  const bool known = std::ranges::any_of(schemas, [&](const base::Json& schema) {
    return (schema.contains("function") ? schema["function"] : schema)["name"] == name;
  });
  return known ? "" : fmt::format("Tool {} not found.", name);
}

}  // namespace

base::Json known_calls(const base::Json& message, const base::Json& schemas) {
  base::Json known = base::Json::array();
  for (const base::Json& call : calls_of(message))
    if (refusal_of(call, schemas).empty()) known.push_back(call["function"]);
  return known;
}

ToolAnswers answers_of(const base::Json& message, const base::Json& schemas, const base::Json& results) {
  const size_t wanted = known_calls(message, schemas).size();
  if (!results.is_array() || results.size() != wanted) {
    fail(Status::callback,
         "the host's tools: results is {}: give a list with one result for each of {} calls", results.dump(),
         wanted);
  }
  ToolAnswers out;
  size_t next = 0;
  for (const base::Json& call : calls_of(message)) {
    const std::string refusal = refusal_of(call, schemas);
    const base::Json result = refusal.empty() ? results[next++] : base::Json({{"error", refusal}});
    if (is_error(result)) ++out.failures;
    const bool as_it_is = result.is_string() || result.is_array();
    out.messages.push_back({{"role", "tool"},
                            {"name", call["function"]["name"]},
                            {"content", as_it_is ? result : base::Json(python_text(result))}});
  }
  return out;
}

void check_message(const base::Json& message) {
  const auto is_call = [](const base::Json& call) {
    const auto function = call.is_object() ? call.find("function") : call.end();
    return call.is_object() && function != call.end() && function->is_object() &&
           function->contains("name") && (*function)["name"].is_string() && function->contains("arguments") &&
           call.value("type", base::Json("function")).is_string();
  };
  const auto calls = message.is_object() ? message.find("tool_calls") : message.end();
  const bool good = message.is_object() && message.value("role", base::Json()) == "assistant" &&
                    (calls == message.end() || (calls->is_array() && std::ranges::all_of(*calls, is_call)));
  if (!good) {
    fail(
        Status::callback,
        "the host's tools: message is {}: give {{role: assistant, content: TEXT}}, with tool_calls: [{{type: "
        "function, function: {{name: NAME, arguments: {{...}}}}}}] for calls",
        message.dump());
  }
}

}  // namespace trl::run
