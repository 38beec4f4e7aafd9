// Reads what a model wrote as an assistant's message, as parse_response of transformers does for TRL.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "text/response/captures.h"
#include "text/response/response_form.h"

namespace trl::text {

// Immutable: any thread.
class ResponseParser {
 public:
  // form: outlives it.
  explicit ResponseParser(const ResponseForm& form);

  // text, prompt: with special tokens; the prompt may have written the beginning of the message. tools: their
  // JSON schemas, which give the arguments of tags their types; or null. Returns {role, content, ...} with
  // reasoning and `tool_calls` ({type: function, function: {name, arguments}}) where there are any; none: the
  // text is not in the form, such as a call whose JSON is broken. Arguments are as parse_exact_json reads
  // them.
  std::optional<base::Json> parse(std::string_view text, std::string_view prompt,
                                  const base::Json& tools) const;
  // Returns what a prompt has written of the message already.
  std::string_view after_anchor(std::string_view prompt) const;

 private:
  struct Marks {
    std::optional<CapturePattern> open, close, tag;
  };
  struct Reading;
  base::Json value_of(size_t field, std::string_view body, const std::string& name) const;

  const ResponseForm& form_;
  const CapturePattern anchor_;
  std::vector<Marks> marks_;             // by field
  std::optional<size_t> implicit_ = {};  // the field without an opening mark
};

// Gives the text arguments of a call the types that the schema of its tool names, as transformers does: "7"
// becomes 7 for an integer, and what cannot be converted stays text.
void give_types(base::Json& function, const base::Json& tools);

}  // namespace trl::text
