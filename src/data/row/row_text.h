// The common steps of every method's rows to token ids: EOS, messages rendered with the variables of their
// row, and the place where two tokenisations differ.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "data/row/prompt_tools.h"
#include "data/source/row.h"
#include "text/chat_template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// A text of a row, and the parts of it that are the row's (text::Tokenizer::encode).
struct GivenText {
  std::string text;
  text::ByteRanges given = {};
};

// Returns the text, ended with the tokenizer's EOS unless it ends with it: judged on the text, never on ids.
// With split_special_tokens it never does.
std::string with_eos(const text::Tokenizer& tokenizer, const std::string& text);

// Counts the ids that both begin with.
size_t common_prefix_length(std::span<const int32_t> a, std::span<const int32_t> b);

// Reads chat_template_kwargs of a row into row_variables. Throws Error naming the row for an argument that a
// row cannot set.
void read_template_variables(const Row& row, text::RenderOptions& options);

// The columns `tools` and `chat_template_kwargs` of a row: for the chat template, or for rewards alone.
enum class OwnVariables : uint8_t { rendered, left };

// Whether a row has such a column.
bool has_own_variables(const Row& row);

// The template variables of all rows: special tokens by name, over which go those of the option
// chat_template_kwargs, an object. Throws Error(invalid_config) for one that cannot be set.
base::Json template_variables(const text::Tokenizer& tokenizer, std::string_view given);

// Renders messages as text by the tokenizer's chat template for such a row. Concurrent on const.
class Renderer {
 public:
  // first: a row that needs a template; throws Error(invalid_config) if the tokenizer has no template for it.
  // keys: the options that set a template, which that error names. variables: an object for all rows; a row's
  // own variables take precedence.
  Renderer(const text::Tokenizer& tokenizer, const Row& first, std::span<const std::string_view> keys,
           std::string_view variables = "{}", OwnVariables own = OwnVariables::rendered);
  const text::ChatTemplates& chat_templates() const { return templates_; }
  void set_chat_template(const std::string& source) {
    templates_ = text::ChatTemplates({{"default", source}});
  }
  // Renders with these tools from now on; they outlive it.
  void use_tools(const PromptTools& tools);
  text::Rendered render(const Row& row, const base::Json& messages, bool add_generation_prompt) const;
  // Returns the number, from 1, of the first message that does not appear in the rendered text; 0: no
  // message.
  size_t left_out(const Row& row, const base::Json& messages, const std::string& rendered) const;

 private:
  text::RenderOptions options_of(const Row& row) const;
  const text::ChatTemplate& template_of(const Row& row, const base::Json& tools) const;

  text::ChatTemplates templates_;
  std::vector<std::string_view> keys_;
  OwnVariables own_;
  bool find_given_;
  const PromptTools* tools_ = nullptr;
  base::Json variables_;
};

}  // namespace trl::data
