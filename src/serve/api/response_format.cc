#include "serve/api/response_format.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/unique_json.h"

namespace trl::serve {

namespace {

constexpr const char *kRegexOption = kFormOptions[0], *kChoiceOption = kFormOptions[1],
                     *kSchemaOption = kFormOptions[2];
constexpr std::string_view kAnyObject = R"({"type": "object"})";

std::string field_itself(std::string_view label) { return std::string(label.substr(0, label.find('.'))); }

[[noreturn]] void refuse_form(std::string_view label, std::string_view why) {
  throw Refusal(400, fmt::format("{}: {}", label, why), field_itself(label));
}

// Options take these words for no value at all.
bool reads_as_null(std::string_view text) {
  std::string word(text);
  for (char& c : word)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c | 0x20);
  return word == "null" || word == "none";
}

class FormReader {
 public:
  explicit FormReader(Fields& fields) : fields_(fields) {}

  std::optional<Form> read() {
    if (const base::Json* const all = fields_.find("structured_outputs")) read_structures(*all);
    if (const base::Json* const format = fields_.find("response_format")) read_format(*format);
    for (const char* name : {"structured_outputs_regex", "guided_decoding_regex", "guided_regex"})
      if (const base::Json* const value = fields_.find(name)) take_regex(name, *value);
    if (const base::Json* const value = fields_.find("guided_choice")) take_choice("guided_choice", *value);
    if (const base::Json* const value = fields_.find("guided_json")) take_schema("guided_json", *value);
    for (const char* name : {"guided_grammar", "guided_whitespace_pattern"})
      fields_.refuse(name, nullptr, "give structured_outputs with regex, choice or json");
    fields_.ignore({"guided_decoding_backend"});  // which of vLLM's libraries does it
    return std::move(form_);
  }

 private:
  void read_structures(const base::Json& all) {
    const std::string name = "structured_outputs";
    constexpr std::string_view kAccepted = "one of regex, choice, json, json_object";
    if (!all.is_object()) refuse_form(name, fmt::format("give an object with {}", kAccepted));
    for (const auto& [member, value] : all.items()) {
      if (value.is_null()) continue;
      const std::string label = name + "." + member;
      if (member == "regex")
        take_regex(label, value);
      else if (member == "choice")
        take_choice(label, value);
      else if (member == "json")
        take_schema(label, value);
      else if (member == "json_object" && value == true)
        set(label, kSchemaOption, std::string(kAnyObject));
      else if (!says_nothing(member, value))
        refuse_form(label, fmt::format("this value of it is not supported here; give {}", kAccepted));
    }
    if (!form_) refuse_form(name, fmt::format("it is empty; give {}", kAccepted));
  }

  // Members of vLLM's that are so anyway with these values.
  static bool says_nothing(std::string_view member, const base::Json& value) {
    if (member == "disable_fallback") return value.is_boolean();
    return (member == "json_object" || member == "disable_any_whitespace" ||
            member == "disable_additional_properties") &&
           value == false;
  }

  void read_format(const base::Json& format) {
    const std::string name = "response_format";
    constexpr std::string_view kAccepted = "text, json_object or json_schema";
    if (!format.is_object()) refuse_form(name, fmt::format("give an object with the type {}", kAccepted));
    const base::Json type = format.value("type", base::Json());
    const bool by_schema = is_text(type, "json_schema"), by_type = is_text(type, "json_object");
    if (!by_schema && !by_type && !is_text(type, "text"))
      refuse_form(name + ".type", fmt::format("give {}", kAccepted));
    if (by_schema)
      check_members(format, name, {"type", "json_schema"});
    else
      check_members(format, name, {"type"});
    if (by_type) set(name, kSchemaOption, std::string(kAnyObject));
    if (!by_schema) return;
    const std::string label = name + ".json_schema";
    const base::Json schema = format.value("json_schema", base::Json());
    if (!schema.is_object()) refuse_form(label, "give an object with name and schema");
    check_members(schema, label, {"name", "description", "schema", "strict"});
    for (const char* text : {"name", "description"})
      if (const base::Json value = schema.value(text, base::Json()); !value.is_null() && !value.is_string())
        refuse_form(fmt::format("{}.{}", label, text), "give a text");
    if (const base::Json strict = schema.value("strict", base::Json());
        !strict.is_null() && !strict.is_boolean())
      refuse_form(label + ".strict", "give true or false; the schema is kept either way");
    take_schema(label + ".schema", schema.value("schema", base::Json()));
  }

  static void check_members(const base::Json& object, const std::string& name,
                            std::initializer_list<std::string_view> known) {
    for (const auto& [member, value] : object.items())
      if (!value.is_null() && std::ranges::find(known, member) == known.end())
        refuse_form(name + "." + member, fmt::format("it is not known here; known are {}",
                                                     fmt::join(known.begin(), known.end(), ", ")));
  }

  void take_regex(const std::string& label, const base::Json& value) {
    if (!value.is_string() || is_text(value, "")) refuse_form(label, "give a regular expression as a text");
    std::string pattern = value.get<std::string>();
    if (pattern.find('\0') != pattern.npos) refuse_form(label, "it has the character 0; write \\x00");
    set(label, kRegexOption, reads_as_null(pattern) ? "(?:" + pattern + ")" : std::move(pattern));
  }

  void take_choice(const std::string& label, const base::Json& value) {
    const bool texts = value.is_array() && !value.empty() &&
                       std::all_of(value.begin(), value.end(), [](const base::Json& text) {
                         return text.is_string() && !text.get_ref<const std::string&>().empty();
                       });
    if (!texts) refuse_form(label, "give a list of texts, at least one and none empty");
    set(label, kChoiceOption, json_text(value));
  }

  void take_schema(const std::string& label, const base::Json& value) {
    base::Json schema = value;
    if (value.is_string()) {
      try {
        schema = base::parse_unique_json(value.get_ref<const std::string&>(), label);
      } catch (const Error& error) {
        if (error.status() == Status::out_of_memory) throw;
        throw Refusal(400, error.message(), field_itself(label));
      }
    }
    if (!schema.is_object()) refuse_form(label, "give a JSON schema, as an object or as the text of one");
    set(label, kSchemaOption, json_text(schema));
  }

  void set(const std::string& label, const char* option, std::string value) {
    if (form_)
      refuse_form(label, fmt::format("it cannot be kept together with {}; give one of them", form_->field));
    form_ = Form{option, std::move(value), label};
  }

  Fields& fields_;
  std::optional<Form> form_;
};

}  // namespace

std::optional<Form> read_form(Fields& fields) { return FormReader(fields).read(); }

Refusal in_words_of(const Form& form, Refusal refusal) {
  const std::string plain = form.option.substr(form.option.find('.') + 1);
  if (refusal.param != plain) return refusal;
  if (refusal.message.starts_with(plain)) refusal.message.replace(0, plain.size(), form.field);
  refusal.param = field_itself(form.field);
  return refusal;
}

Refusal in_words_of(const std::optional<Form>& form, const Error& error) {
  Refusal refusal = refusal_of(static_cast<trl_status>(error.status()), error.message(), error.key());
  return form ? in_words_of(*form, std::move(refusal)) : refusal;
}

}  // namespace trl::serve
