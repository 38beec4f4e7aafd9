// Attributes of values that are not methods: fields of numbers and ranges, and those that only Python has.
#include <algorithm>
#include <initializer_list>

#include "text/chat_template/methods.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

namespace {

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::optional<Value> number_field(const Value& number, std::string_view name) {
  const bool real = number.is(Kind::real);
  const Value value = number.is(Kind::boolean) ? Value::integer(number.integer()) : number;
  if (name == "real" || (name == "numerator" && !real)) return value;
  if (name == "imag") return real ? Value::real(0) : Value::integer(0);
  if (name == "denominator" && !real) return Value::integer(1);
  return std::nullopt;
}

std::optional<Value> range_field(const Range& range, std::string_view name) {
  if (name == "start") return Value::integer(range.start);
  if (name == "stop") return Value::integer(range.stop);
  if (name == "step") return Value::integer(range.step);
  return std::nullopt;
}

// Returns whether Python 3.10 has the attribute although find_method() and is_mutator() lack it.
bool in_python_alone(const Value& value, std::string_view name) {
  switch (value.kind()) {
    case Kind::boolean:
    case Kind::integer:
    case Kind::large:
      return is_one_of(
          name, {"as_integer_ratio", "bit_count", "bit_length", "conjugate", "from_bytes", "to_bytes"});
    case Kind::real:
      return is_one_of(name, {"as_integer_ratio", "conjugate", "fromhex", "hex"});
    case Kind::text:
      return is_refused_text_method(name) ||
             (value.text().markup && is_one_of(name, {"escape", "striptags", "unescape"}));
    case Kind::sequence:
      break;
    default:
      return false;
  }
  switch (value.sequence().type) {
    case SequenceType::keys:
    case SequenceType::items:
      return name == "isdisjoint" || name == "mapping";
    case SequenceType::values:
      return name == "mapping";
    case SequenceType::iterator:
      return is_one_of(name, {"close", "send", "throw"});
    default:
      return false;
  }
}

}  // namespace

std::optional<Value> field_of(Run& run, const Value& value, std::string_view name) {
  std::optional<Value> field;
  if (value.is_number() || value.is_large()) field = number_field(value, name);
  if (value.is_sequence(SequenceType::range)) field = range_field(value.sequence().range, name);
  if (!field && in_python_alone(value, name))
    run.fail("the attribute '{}' of a value of the type {} is not supported", name, type_name(value));
  return field;
}

}  // namespace trl::text::jinja
