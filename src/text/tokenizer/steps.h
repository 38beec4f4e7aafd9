// Writes steps of a tokenizer.json.
#pragma once
#include <string>

#include "base/json/json.h"
#include "base/text/utf8.h"
#include "text/tokenizer/json_reader.h"

namespace trl::text {

inline constexpr const char* kSpaceMark = "\xE2\x96\x81";  // SentencePiece's mark of a space

// Returns a member of an object; null: it has none of this name, or is not an object.
inline base::Json part_of(const base::Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? base::Json(nullptr) : *found;
}

inline base::Json isolate(const char* regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

inline base::Json byte_level(bool use_regex, bool add_prefix_space = false) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", true},
          {"use_regex", use_regex}};
}

inline base::Json digits() { return {{"type", "Digits"}, {"individual_digits", true}}; }

inline base::Json pre_tokenizers(base::Json steps) {
  return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
}

inline base::Json replace(const char* text, const char* by) {
  return {{"type", "Replace"}, {"pattern", {{"String", text}}}, {"content", by}};
}

inline base::Json metaspace(const char* prepend_scheme, bool split = false) {
  return {{"type", "Metaspace"},
          {"replacement", kSpaceMark},
          {"prepend_scheme", prepend_scheme},
          {"split", split}};
}

// Turns marks into spaces and byte tokens into bytes; strips: removes the space that was put before the text.
inline base::Json mark_decoder(bool strips) {
  base::Json steps = {replace(kSpaceMark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (strips) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

// The settings for SentencePiece's mark of a space, which the pre-tokenizer and the decoder Metaspace share.
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
  if (scheme == "first")
    settings.scheme = PrependScheme::first;
  else if (scheme == "never")
    settings.scheme = PrependScheme::never;
  else if (scheme != "always")
    fail(Status::format, "{}.prepend_scheme: '{}' is not one of always, first, never", field.where(), scheme);
  return settings;
}

}  // namespace trl::text
