// Writes steps of a tokenizer.json.
#pragma once
#include <string>

#include "base/json/json.h"

namespace trl::text {

inline constexpr const char* kSpaceMark = "\xE2\x96\x81";  // SentencePiece's mark of a space

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

}  // namespace trl::text
