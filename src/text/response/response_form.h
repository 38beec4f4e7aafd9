// How models of a chat template write an assistant's message: reasoning, calls of tools and the rest, as
// fields between marks. The forms are TRL's response templates.
#pragma once
#include <span>
#include <string_view>

namespace trl::text {

enum class FieldContent : uint8_t {
  text,
  call,       // a JSON object with name and arguments
  arguments,  // JSON; the opening mark has the name
  tags,       // a tag for each argument; the opening mark has the name
};

// Patterns are regular expressions; the first group of an opening one is the name of a call.
struct ResponseField {
  std::string_view name;
  std::string_view open;  // empty: what is in no other field
  std::string_view close;
  FieldContent content = FieldContent::text;
  std::string_view tag = {};  // its groups are the name of an argument and its value
  // Plain texts that the marks contain and begin with, for reading a text while it is written; empty: the
  // field is known at its end alone.
  std::string_view begin = {}, end = {};
};

struct ResponseForm {
  std::string_view name;
  std::string_view anchor;  // a prompt's end begins the message after the last one
  std::span<const ResponseField> fields;
  std::span<const std::string_view> marks;  // that a template of this form contains, all of them
};

// Returns the form of a chat template, which is known by its marks; null: it is not known.
const ResponseForm* response_form(std::string_view chat_template);

}  // namespace trl::text
