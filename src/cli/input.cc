#include "cli/input.h"

#include <fmt/format.h>
#include <histedit.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <clocale>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>

#include "cli/json_text.h"

namespace trl::cli {

namespace {

std::string all_of(std::istream& in) {
  std::ostringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

using PromptRow = nlohmann::ordered_json;

// Returns whether a row has messages under a name.
bool has_messages(const PromptRow& row, const char* name, const std::string& where) {
  if (!row.contains(name) || !row[name].is_array() || row[name].empty()) return false;
  const auto is_message = [](const PromptRow& message) {
    const auto says = [&](const char* who) { return message.contains(who) && message[who].is_string(); };
    return message.is_object() && (says("role") || says("from"));
  };
  if (!std::ranges::all_of(row[name], is_message))
    throw Failure(kFailed, fmt::format("{}: \"{}\" is a list of something other than messages: give each of "
                                       "them a role and content (or from and value)",
                                       where, name));
  return true;
}

// Makes a prompt from a row to train on, without the part to be learned.
Prompt prompt_of(const PromptRow& row, const std::string& where) {
  const auto text = [&](const char* name) {
    return row.contains(name) && row[name].is_string() ? row[name].get<std::string>() : std::string();
  };
  if (row.is_string()) return {row.get<std::string>(), where};  // a line of text
  if (row.is_object() && row.contains("prompt") && row["prompt"].is_string()) return {text("prompt"), where};
  if (row.is_object() && !text("instruction").empty())
    return {text("instruction") + (text("input").empty() ? "" : "\n" + text("input")), where};
  for (const char* name : {"prompt", "messages", "conversations"})
    if (row.is_object() && has_messages(row, name, where)) return {row.dump(), where, true};
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
    throw Failure(
        kFailed,
        fmt::format(
            "{0}: it is compressed ({1}): give its text, as in {1} -dc {2} | trl generate --prompts -", name,
            tool, name == "stdin" ? "FILE" : name));
}

// Reads a JSON list of texts or of rows, one row, or lines: a text or a row each.
std::vector<Prompt> prompts_in(std::string text, const std::string& name) {
  refuse_compressed(text, name);
  std::vector<Prompt> prompts;
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // the byte order mark that some editors write
  const bool json = begins_with(text, "[{");
  const PromptRow whole = json ? parse_text(text) : PromptRow();
  if (whole.is_object()) return {prompt_of(whole, name + ":1")};
  const auto is_text = [](const PromptRow& row) { return row.is_string(); };
  if (whole.is_array() && (std::ranges::all_of(whole, is_text) || whole.front().is_object())) {
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
    const PromptRow row = begins_with(line, "{") ? parse_text(line) : PromptRow(line);
    if (row.is_discarded())
      throw Failure(kFailed,
                    fmt::format("{}: not valid JSON, or nested deeper than {}", where, kMostNesting));
    prompts.push_back(prompt_of(row, where));
  }
  return prompts;
}

// Checks prompts of a file, and sets chat if they are conversations.
void settle_chat(const std::vector<Prompt>& prompts, const std::string& name, bool& chat) {
  if (prompts.empty()) throw Failure(kFailed, name + ": holds no prompts");
  const auto conversations =
      static_cast<size_t>(std::ranges::count_if(prompts, [](const Prompt& one) { return one.conversation; }));
  if (conversations > 0 && conversations < prompts.size() && !chat)
    throw Failure(
        kFailed,
        name + ": some prompts are texts and some are messages; with --chat, a text is what the user says");
  chat = chat || conversations > 0;
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

struct LineReader::Editor {
  explicit Editor(const char* text) : prompt(text) {
    std::setlocale(LC_CTYPE, "");  // so that libedit knows which bytes make a character
    line = el_init("trl", stdin, stdout, stderr);
    past = history_init();
    if (line == nullptr || past == nullptr) throw Failure(kFailed, "the terminal cannot be read");
    HistEvent event{};
    history(past, &event, H_SETSIZE, 1000);
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, &Editor::shown);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_HIST, history, past);
    // Makes Ctrl-C a key here: after a signal libedit would continue to read.
    el_set(line, EL_SETTY, "-d", "-isig", nullptr);
    el_set(line, EL_ADDFN, "trl-drop", "Drop the line", &Editor::drop);
    el_set(line, EL_BIND, "^C", "trl-drop", nullptr);
    // A Ctrl-D that was pressed before a prompt arrives as this key, which libedit may have bound to
    // quoted-insert.
    el_set(line, EL_BIND, "^@", "em-set-mark", nullptr);
    el_source(line, nullptr);  // ~/.editrc
  }
  ~Editor() {
    if (past != nullptr) history_end(past);
    if (line != nullptr) el_end(line);
    std::setlocale(LC_CTYPE, "C");
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;
  static const char* shown(EditLine* line) {
    Editor* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return self->prompt;
  }
  static unsigned char drop(EditLine* line, int) {
    Editor* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    self->dropped = true;
    return CC_EOF;
  }

  const char* prompt;
  bool dropped = false;  // the line being typed was dropped
  EditLine* line = nullptr;
  History* past = nullptr;
};

LineReader::LineReader(const char* prompt) {
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) editor_ = std::make_unique<Editor>(prompt);
}

LineReader::~LineReader() = default;

LineReader::End LineReader::read(std::string& line) {
  if (editor_ == nullptr) return std::getline(std::cin, line) ? End::line : End::input;
  int size = 0;
  editor_->dropped = false;
  // Takes the keys before the prompt is shown: libedit shows it first, and the terminal would still act on
  // Ctrl-C and Ctrl-D.
  el_set(editor_->line, EL_PREP_TERM, 1);
  const char* const typed = el_gets(editor_->line, &size);
  if (editor_->dropped) {
    el_reset(editor_->line);
    return End::dropped;
  }
  if (typed == nullptr || size <= 0) return End::input;
  line.assign(typed, static_cast<size_t>(size));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  HistEvent event{};
  if (!line.empty()) history(editor_->past, &event, H_ENTER, line.c_str());
  return End::line;
}

std::string generation_value(const Config& config, const char* key, const char* other_name) {
  const auto entries = nlohmann::json::parse(get(config, "generate.generation_kwargs"), nullptr, false);
  for (const char* name : {key, other_name}) {
    if (name == nullptr || !entries.is_object() || !entries.contains(name) || entries[name].is_null())
      continue;
    return entries[name].is_string() ? entries[name].get<std::string>() : entries[name].dump();
  }
  return get(config, fmt::format("generate.{}", key).c_str());
}

size_t completions_of_each(const Config& config) {
  const std::string count = generation_value(config, "num_return_sequences", "n");
  size_t completions = 1;  // also of a text that the library refuses
  std::from_chars(count.data(), count.data() + count.size(), completions);
  return completions;
}

std::string standard_input() {
  std::string text = all_of(std::cin);
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

std::vector<Prompt> read_prompts(const std::vector<std::string>& given,
                                 const std::optional<std::string>& file, bool& chat) {
  if (!given.empty() && file) throw Failure(kUsage, "give either --prompt or --prompts, not both");
  std::vector<Prompt> prompts;
  if (file) {
    const std::string name = *file == "-" ? "stdin" : *file;
    prompts = prompts_in(*file == "-" ? all_of(std::cin) : file_text(*file), name);
    settle_chat(prompts, name, chat);
    return prompts;
  }
  for (const std::string& text : given)
    prompts.push_back({text == "-" ? standard_input() : text, fmt::format("prompt {}", prompts.size() + 1)});
  if (prompts.empty() && isatty(STDIN_FILENO) == 0) {
    prompts.push_back({standard_input(), "prompt 1"});
    if (prompts.front().text.empty()) prompts.clear();
  }
  if (prompts.empty())
    throw Failure(kUsage,
                  "--prompt is needed: the text to complete; or give --prompts FILE, or the text on stdin");
  for (size_t i = 0; i < prompts.size(); ++i)
    if (prompts[i].text.empty())
      throw Failure(kUsage, fmt::format("--prompt: prompt {} of {} is empty", i + 1, prompts.size()));
  return prompts;
}

}  // namespace trl::cli
