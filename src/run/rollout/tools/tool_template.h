// The chat template of a run whose completions call tools: prompts with their schemas, calls that a
// completion has, and the tokens of the answers.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "config/online/online_arguments.h"
#include "data/row/row_text.h"
#include "text/chat_template/chat_template.h"
#include "text/response/response_parser.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::run {

// any thread.
class ToolTemplate {
 public:
  // arguments: with tools. Throws Error(invalid_config) that names the key for a chat template that leaves
  // out calls or answers, that writes a call otherwise when its answer follows, and whose form of calls is
  // not known. tokenizer: outlives it.
  ToolTemplate(const config::OnlineArguments& arguments, const text::Tokenizer& tokenizer);
  ToolTemplate(const ToolTemplate&) = delete;
  ToolTemplate& operator=(const ToolTemplate&) = delete;

  const data::PromptTools& prompts() const { return prompts_; }
  // Renders a row whose prompt an environment has changed, as data's RowReader does. where: the row, for
  // messages.
  std::vector<int32_t> prompt_ids(const base::Json& row, const Place& where) const;
  // Return the environment of a row (empty: there are none), and the schemas of its tools.
  const std::string& environment_of(const base::Json& row) const;
  const base::Json& schemas_of(const base::Json& row) const {
    return prompts_.schemas.at(environment_of(row));
  }

  bool host_parses() const { return !parser_; }
  // Reads a turn as a message. before: all tokens up to it. row: its tools. Not if the host parses.
  base::Json message_of(std::span<const int32_t> turn, const std::vector<int32_t>& before,
                        const base::Json& row) const;
  std::string text_of(std::span<const int32_t> turn) const;  // with special tokens

  // Returns the tokens from the end of a turn with calls to the beginning of the next one: of the answers
  // to those calls, messages of the role tool. Throws Error(format).
  std::vector<int32_t> answer_ids(const base::Json& answers) const;

 private:
  std::vector<int32_t> ids_of(const base::Json& messages, bool add_generation_prompt) const;
  text::Rendered render(const base::Json& messages, bool add_generation_prompt) const;
  bool renders_whole() const;  // all of a call and its answer
  bool keeps_beginnings() const;
  void choose_template();

  const text::Tokenizer& tokenizer_;
  data::PromptTools prompts_;
  base::Json variables_;
  std::optional<text::ChatTemplate> template_;
  std::optional<data::Renderer> renderer_;      // of prompts that environments change
  std::optional<text::ResponseParser> parser_;  // none: the host parses
};

}  // namespace trl::run
