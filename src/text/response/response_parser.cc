#include "text/response/response_parser.h"

#include <tuple>

#include "base/error.h"
#include "text/chat_template/unicode.h"

namespace trl::text {

namespace {

std::string trimmed_text(std::string_view text) { return std::string(jinja::strip(text, jinja::Side::both)); }

bool is_empty(const base::Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_structured() && value.empty());
}

// Checks a call that was read, and gives one without arguments none. false: it cannot be one.
bool complete_call(base::Json& function) {
  if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) return false;
  if (!function.contains("arguments") || function["arguments"].is_null())
    function["arguments"] = base::Json::object();
  return true;
}

}  // namespace

ResponseParser::ResponseParser(const ResponseForm& form) : form_(form), anchor_(form.anchor) {
  for (size_t i = 0; i < form.fields.size(); ++i) {
    const ResponseField& field = form.fields[i];
    Marks& marks = marks_.emplace_back();
    if (field.open.empty())
      implicit_ = i;
    else
      marks.open.emplace(field.open);
    marks.close.emplace(field.close);
    if (!field.tag.empty()) marks.tag.emplace(field.tag);
  }
}

std::string_view ResponseParser::after_anchor(std::string_view prompt) const {
  size_t end = 0;
  while (const auto found = anchor_.find(prompt, end)) end = found->end;
  return prompt.substr(end);
}

base::Json ResponseParser::value_of(size_t number, std::string_view body, const std::string& name) const {
  const ResponseField& field = form_.fields[number];
  if (field.content == FieldContent::text) return trimmed_text(body);
  base::Json function = {{"name", name}};
  switch (field.content) {
    case FieldContent::call:
      function = base::parse_exact_json(body, "a call");
      break;
    case FieldContent::arguments:
      function["arguments"] = base::parse_exact_json(body, "arguments");
      break;
    default:
      function["arguments"] = base::Json::object();
      for (auto found = marks_[number].tag->find(body, 0); found;
           found = marks_[number].tag->find(body, found->end))
        function["arguments"][std::string(found->first)] = trimmed_text(found->second);
  }
  return {{"type", "function"}, {"function", function}};
}

// A pass through a text: the field that it is in, and what was read.
struct ResponseParser::Reading {
  const ResponseParser& parser;
  const std::string text;
  const base::Json& tools;
  base::Json message = {{"role", "assistant"}};
  std::optional<size_t> field = parser.implicit_;  // none: what follows is in no field
  bool begun = false;                              // the field has begun
  size_t place = 0;
  std::string body = {}, name = {};

  struct Mark {
    CapturePattern::Match match;
    size_t field;
    bool opens;
  };

  // Finds the next mark that counts here: the end of the field, or any beginning outside of one. Of several
  // at a place the longest comes first.
  std::optional<Mark> next() const {
    std::optional<Mark> best;
    const auto key = [&](const Mark& mark) {
      return std::tuple(mark.match.begin, mark.match.begin - mark.match.end, !mark.opens,
                        parser.form_.fields[mark.field].name);
    };
    const auto look = [&](const CapturePattern& pattern, size_t of, bool opens) {
      const auto found = pattern.find(text, place);
      if (!found) return;
      const Mark mark{*found, of, opens};
      if (!best || key(mark) < key(*best)) best = mark;
    };
    const bool outside = !field || field == parser.implicit_;
    for (size_t i = 0; outside && i < parser.marks_.size(); ++i)
      if (parser.marks_[i].open) look(*parser.marks_[i].open, i, true);
    if (field) look(*parser.marks_[*field].close, *field, false);
    return best;
  }

  void take(std::string_view more) {
    if (more.empty() || !field) return;
    body += more;
    begun = true;
  }

  void close() {
    if (field && begun) {
      base::Json value = parser.value_of(*field, body, name);
      const std::string key(parser.form_.fields[*field].name);
      if (parser.form_.fields[*field].content == FieldContent::text) {
        message[key] = std::move(value);
      } else {
        give_types(value["function"], tools);
        message[key].push_back(std::move(value));
      }
    }
    field = parser.implicit_;
    begun = false;
    body.clear();
  }

  void read() {
    while (const auto mark = next()) {
      take(std::string_view(text).substr(place, mark->match.begin - place));
      place = mark->match.end;
      const bool had = begun;
      close();
      if (mark->opens) {
        field = mark->field;
        begun = true;
        name = mark->match.first;
      } else if (!had && mark->match.begin == mark->match.end) {
        return;
      }
    }
    take(std::string_view(text).substr(place));
    close();
  }
};

std::optional<base::Json> ResponseParser::parse(std::string_view text, std::string_view prompt,
                                                const base::Json& tools) const {
  Reading reading{*this, std::string(after_anchor(prompt)) + std::string(text), tools};
  try {
    reading.read();
  } catch (const Error& error) {
    if (error.status() != Status::format) throw;
    return std::nullopt;
  }
  base::Json message = base::Json::object();
  for (const auto& [key, value] : reading.message.items())
    if (!is_empty(value)) message[key] = value;
  if (!message.contains("content")) message["content"] = "";
  if (!message.contains("tool_calls")) return message;
  for (base::Json& call : message["tool_calls"])
    if (!complete_call(call["function"])) return std::nullopt;
  return message;
}

}  // namespace trl::text
