// Reads the input of a command from a person or another program: typed lines, and prompts.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/handles.h"

namespace trl::cli {

// Reads lines that a person types: with editing and their own history on a terminal (libedit), else unedited.
class LineReader {
 public:
  explicit LineReader(const char* prompt);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class End { line, dropped, input };
  // Reads a line without its end, or returns why there is no line: Ctrl-C, or the end of the input.
  End read(std::string& line);
  bool on_terminal() const { return editor_ != nullptr; }

 private:
  struct Editor;
  std::unique_ptr<Editor> editor_;  // null: not a terminal
};

struct Prompt {
  std::string text;
  std::string where;          // "p.jsonl:3", "prompt 3"
  bool conversation = false;  // its row as JSON, for the chat template
};

// Reads the prompts that trl generate completes: --prompt, --prompts FILE, or standard input.
// Throws Failure if there are no prompts, if a file cannot be read, and for a line that is not a prompt.
// chat: whether texts are a user's messages; true after the call if the prompts are rows with messages, as
// JSON for trl_generator_generate.
std::vector<Prompt> read_prompts(const std::vector<std::string>& given,
                                 const std::optional<std::string>& file, bool& chat);

// Returns what the options of generation say of a key of the group generate: its value, or the entry of
// generation_kwargs under that name or another one, which goes over it.
std::string generation_value(const Config& config, const char* key, const char* other_name = nullptr);

// Returns how many completions of each prompt the options of generation ask for.
size_t completions_of_each(const Config& config);

std::string standard_input();  // all of it, without the line end at its end

}  // namespace trl::cli
