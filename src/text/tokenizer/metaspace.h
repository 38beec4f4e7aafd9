// The settings for SentencePiece's mark of a space, which the pre-tokenizer and the decoder Metaspace share.
#pragma once
#include <string>

#include "base/text/utf8.h"
#include "text/tokenizer/field.h"

namespace trl::text {

// The parts that get a mark before their text: each part between added tokens, only the first, or none.
enum class PrependScheme { always, first, never };

struct MetaspaceSettings {
  std::string replacement;  // one character
  PrependScheme scheme = PrependScheme::always;
};

// Older files have add_prefix_space as well; the two must agree, as in `tokenizers`.
inline MetaspaceSettings read_metaspace(const Field& field) {
  MetaspaceSettings settings{field.at("replacement").text()};
  if (base::count_code_points(settings.replacement) != 1)
    fail(Status::format, "{}.replacement: '{}' instead of one character", field.where(),
         settings.replacement);
  const std::string scheme = field.text_or("prepend_scheme", "always");
  if (!field.boolean_or("add_prefix_space", true) && scheme != "never")
    fail(Status::format, "{}: 'add_prefix_space' is false where 'prepend_scheme' is '{}'", field.where(),
         scheme);
  if (scheme == "first") {
    settings.scheme = PrependScheme::first;
  } else if (scheme == "never") {
    settings.scheme = PrependScheme::never;
  } else if (scheme != "always") {
    fail(Status::format, "{}.prepend_scheme: '{}' is not one of always, first, never", field.where(), scheme);
  }
  return settings;
}

}  // namespace trl::text
