#include "run/complete/sample_prompts.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/json/is_text.h"
#include "config/sizes_and_paths.h"
#include "data/row/conversions.h"
#include "data/source/source.h"
#include "run/complete/complete.h"

namespace trl::run {

namespace {

constexpr std::string_view kPromptsKey = "sample_prompts";

// Runs body, and reports another room's error about a prompt under the name of the key.
template <class Body>
auto naming(const std::string& where, Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.status() == Status::cancelled) throw;
    throw error.with(fmt::format("{}: {}", where, error.message()), kPromptsKey);
  }
}

bool is_message(const base::Json& value) {
  return value.is_object() && value.contains("role") && value["role"].is_string();
}

SamplePrompt prompt_of(const base::Json& value, const std::string& where);

// Reads prompt, messages or text.
SamplePrompt prompt_of_row(const base::Json& row, const std::string& where) {
  const auto tools = row.find("tools");
  const auto with_tools = [&](SamplePrompt prompt) {
    if (tools != row.end() && tools->is_array()) prompt.tools = *tools;
    return prompt;
  };
  for (const char* name : {"prompt", "messages", "text"}) {
    const auto found = row.find(name);
    if (found == row.end() || found->is_null()) continue;
    base::Json value = *found;
    const bool answered = std::string_view(name) == "messages" && value.is_array() && value.size() > 1 &&
                          is_message(value.back()) && base::is_text(value.back().at("role"), "assistant");
    if (answered) value.erase(value.size() - 1);
    if (!value.is_object()) return with_tools(prompt_of(value, where));
  }
  fail_key(kPromptsKey,
           "{}: it has no prompt, messages or text: give one of them, a text or a list of messages", where);
}

SamplePrompt prompt_of(const base::Json& value, const std::string& where) {
  if (value.is_object()) return prompt_of_row(value, where);
  if (value.is_string() && value.get_ref<const std::string&>().empty())
    fail_key(kPromptsKey, "{}: the prompt is empty: give a text to complete", where);
  const bool messages = value.is_array() && !value.empty() && std::ranges::all_of(value, is_message);
  if (!value.is_string() && !messages) {
    fail_key(kPromptsKey,
             "{}: a prompt is a text or a list of messages, each with role and content, and this is {}",
             where, value.is_array() ? "another list" : "a " + base::json_type(value));
  }
  return {where, value, nullptr};
}

std::vector<SamplePrompt> prompts_in(const std::string& path) {
  config::check_local_path(kPromptsKey, path);
  std::vector<SamplePrompt> prompts;
  const std::unique_ptr<data::Source> rows =
      naming(std::string(kPromptsKey), [&] { return data::open_file_source(path); });
  for (data::Row row; naming(std::string(kPromptsKey), [&] { return rows->next(row); });) {
    naming(std::string(kPromptsKey), [&] { data::convert_conversations(row); });
    const bool blank = row.value.size() == 1 && row.value.value("text", base::Json()) == "";
    if (blank) continue;
    prompts.push_back(placed(
        row.where, [&] { return prompt_of(row.value, fmt::format("{}: {}", kPromptsKey, row.where)); }));
    prompts.back().place = row.where;
  }
  if (prompts.empty())
    fail_key(kPromptsKey, "{}: {} holds no prompt: give at least one", kPromptsKey, Place{path});
  return prompts;
}

}  // namespace

std::vector<SamplePrompt> read_sample_prompts(const config::SampleArguments& arguments) {
  if (!arguments.file.empty()) return prompts_in(arguments.file);
  std::vector<SamplePrompt> prompts;
  for (const base::Json& value : arguments.prompts)
    prompts.push_back(prompt_of(value, fmt::format("{}: prompt {}", kPromptsKey, prompts.size() + 1)));
  return prompts;
}

std::vector<SamplePrompt> sample_prompts(const config::Config& config, const Tokenizer& tokenizer) {
  std::vector<SamplePrompt> prompts = read_sample_prompts(config::sample_arguments(config));
  for (SamplePrompt& prompt : prompts) {
    placed(prompt.place, [&] {
      prompt.ids = naming(prompt.where, [&] {
        return prompt.given.is_string() ? text_ids(tokenizer, prompt.given.get_ref<const std::string&>())
                                        : conversation_ids(tokenizer, prompt.given, prompt.tools);
      });
      if (prompt.ids.empty())
        fail_key(kPromptsKey, "{}: the prompt has no token: give a text to complete", prompt.where);
    });
  }
  return prompts;
}

}  // namespace trl::run
