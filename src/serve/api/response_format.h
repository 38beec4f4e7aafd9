// The fields that keep the texts of answers to a form: structured_outputs and response_format, and the names
// that vLLM and TRL had for them before.
#pragma once
#include <array>
#include <optional>
#include <string>

#include "base/error.h"
#include "serve/api/fields.h"

namespace trl::serve {

// The options of forms.
inline constexpr std::array kFormOptions = {"generate.regex", "generate.choice", "generate.json_schema"};

struct Form {
  std::string option, value;  // generate.regex, choice or json_schema
  std::string field;          // of the request, as messages name it: "structured_outputs.regex"
};

// Returns what a request asks for. Throws Refusal(400) for two forms, and by name for those that are not
// here.
std::optional<Form> read_form(Fields& fields);

// A refusal of the option by the library, in the words of the request.
Refusal in_words_of(const Form& form, Refusal refusal);
// The same for an error of the library; form: what the request asks for.
Refusal in_words_of(const std::optional<Form>& form, const Error& error);

}  // namespace trl::serve
