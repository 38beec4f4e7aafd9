#include "cli/prompts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "cli/handles.h"

namespace trl::cli {

namespace {

std::string all_of(std::istream& in) {
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

using PromptRow = nlohmann::ordered_json;

struct Prompt {
  std::string text;
  bool conversation = false;  // its row as JSON, for the chat template
};

bool is_list(const PromptRow& row, const char* name) {
  return row.contains(name) && row[name].is_array() && !row[name].empty();
}

// Makes a prompt from a row to train on, without the part to be learned.
Prompt prompt_of(const PromptRow& row, const std::string& where) {
  const auto text = [&](const char* name) {
    return row.contains(name) && row[name].is_string() ? row[name].get<std::string>() : std::string();
  };
  if (row.is_string()) return {row.get<std::string>()};  // a line of text
  if (row.is_object() && row.contains("prompt") && row["prompt"].is_string()) return {text("prompt")};
  if (row.is_object() && !text("instruction").empty())
    return {text("instruction") + (text("input").empty() ? "" : "\n" + text("input"))};
  for (const char* name : {"prompt", "messages", "conversations"}) {
    if (row.is_object() && is_list(row, name)) return {row.dump(), true};
  }
  throw Failure(kFailed, where +
                             ": there is no \"prompt\" with a text or messages, no \"messages\", "
                             "\"conversations\" or \"instruction\"");
}

bool begins_with(const std::string& text, std::string_view brackets) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && brackets.find(text[first]) != std::string_view::npos;
}

// Says how to give the text of a compressed file, which its first bytes tell.
void refuse_compressed(const std::string& text, const std::string& name) {
  const char* const tool = text.starts_with("\x1f\x8b")           ? "gzip"
                           : text.starts_with("\x28\xb5\x2f\xfd") ? "zstd"
                                                                  : nullptr;
  if (tool != nullptr)
    throw Failure(kFailed, fmt::format("{0}: it is compressed ({1}): give its text, as in {1} -dc {2} | trl "
                                       "generate --prompts -",
                                       name, tool, name == "stdin" ? "FILE" : name));
}

// Reads a JSON list of rows, one row, or lines: a text or a row each.
std::vector<Prompt> prompts_in(std::string text, const std::string& name) {
  refuse_compressed(text, name);
  std::vector<Prompt> prompts;
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // the byte order mark that some editors write
  const bool json = begins_with(text, "[{");
  const PromptRow whole = json ? PromptRow::parse(text, nullptr, false) : PromptRow();
  if (whole.is_object()) return {prompt_of(whole, name + ":1")};
  if (whole.is_array() && !whole.empty() && whole.front().is_object()) {
    for (const PromptRow& row : whole)
      prompts.push_back(prompt_of(row, fmt::format("{} (row {})", name, prompts.size() + 1)));
    return prompts;
  }
  std::istringstream in(text);
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    const std::string where = fmt::format("{}:{}", name, ++number);
    if (line.ends_with('\r')) line.pop_back();
    if (line.empty()) continue;
    const PromptRow row = begins_with(line, "{") ? PromptRow::parse(line, nullptr, false) : PromptRow(line);
    if (row.is_discarded()) throw Failure(kFailed, where + ": not valid JSON");
    prompts.push_back(prompt_of(row, where));
  }
  return prompts;
}

std::vector<std::string> texts_of(const std::vector<Prompt>& prompts, const std::string& name, bool& chat) {
  std::vector<std::string> texts;
  size_t conversations = 0;
  for (const Prompt& prompt : prompts) {
    texts.push_back(prompt.text);
    conversations += prompt.conversation ? 1 : 0;
  }
  if (texts.empty()) throw Failure(kFailed, name + ": holds no prompts");
  if (conversations > 0 && conversations < texts.size() && !chat)
    throw Failure(kFailed, name +
                               ": some prompts are texts and some are messages; with --chat, a text is what "
                               "the user says");
  chat = chat || conversations > 0;
  return texts;
}

std::string file_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in || in.peek() == std::ifstream::traits_type::eof()) {
    const int reason = errno != 0 ? errno : EIO;
    if (!in.is_open())
      throw Failure(kFailed,
                    fmt::format("{}: cannot be opened: {}", path, std::generic_category().message(reason)));
    if (in.bad())
      throw Failure(kFailed,
                    fmt::format("{}: cannot be read: {}", path, std::generic_category().message(reason)));
  }
  return all_of(in);
}

}  // namespace

std::string standard_input() {
  std::string text = all_of(std::cin);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<std::string> read_prompts(const std::vector<std::string>& given,
                                      const std::optional<std::string>& file, bool& chat) {
  if (!given.empty() && file) throw Failure(kUsage, "give either --prompt or --prompts, not both");
  if (file) {
    const std::string name = *file == "-" ? "stdin" : *file;
    return texts_of(prompts_in(*file == "-" ? all_of(std::cin) : file_text(*file), name), name, chat);
  }
  std::vector<std::string> prompts = given;
  for (std::string& prompt : prompts) {
    if (prompt == "-") prompt = standard_input();
  }
  if (prompts.empty() && isatty(STDIN_FILENO) == 0) {
    prompts.push_back(standard_input());
    if (prompts.front().empty()) prompts.clear();
  }
  if (prompts.empty())
    throw Failure(kUsage,
                  "--prompt is needed: the text to complete; or give --prompts FILE, or the text on stdin");
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (prompts[i].empty())
      throw Failure(kUsage, fmt::format("--prompt: prompt {} of {} is empty", i + 1, prompts.size()));
  }
  return prompts;
}

}  // namespace trl::cli
