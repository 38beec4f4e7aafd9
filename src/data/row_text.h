// What the rows of every method share on their way to token ids: EOS, messages rendered with what their row
// adds to the chat template, and where two tokenisations part.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "base/json.h"
#include "data/row.h"
#include "text/chat_template/chat_template.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// The text, ended with the tokenizer's EOS unless it ends with it: judged on the text, never on ids.
std::string with_eos(const text::Tokenizer& tokenizer, const std::string& text);

// How many ids both begin with.
size_t common_prefix_length(std::span<const int32_t> a, std::span<const int32_t> b);

// Messages -> text by the tokenizer's chat template. Concurrent on const.
class Renderer {
 public:
  // where: the row that needs a template, for the error that there is none.
  Renderer(const text::Tokenizer& tokenizer, const std::string& where);
  const text::ChatTemplate& chat_template() const { return template_; }
  void set_chat_template(const std::string& source) { template_ = text::ChatTemplate(source); }
  // With `tools` and `chat_template_kwargs` of the row.
  text::Rendered render(const Row& row, const base::Json& messages, bool add_generation_prompt) const;

 private:
  text::ChatTemplate template_;
  base::Json variables_ = base::Json::object();  // special tokens by name
};

}  // namespace trl::data
