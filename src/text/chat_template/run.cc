// Limits, factories and argument binding.
#include "text/chat_template/run.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/chat_template/parser.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

Run::~Run() = default;

void Run::fail_text(const std::string& message) const {
  fail_at(line_, base::replace_invalid_utf8(message));  // it may quote one byte of a longer character
}

void Run::produce(size_t bytes) {
  if (bytes > static_cast<size_t>(kMaxProduced - produced_))
    fail("more than {} MiB of intermediate text and lists", kMaxProduced >> 20);
  produced_ += static_cast<int64_t>(bytes);
}

Value Run::text(std::string bytes, bool markup) {
  if (bytes.size() > kMaxText) fail("a text of more than {} MiB", kMaxText >> 20);
  produce(bytes.size());
  return Value::text(std::move(bytes), markup);
}

Value Run::part(std::string_view bytes, bool markup) {
  ByteRanges given;
  find_given(bytes, 0, given);
  Value copy = text(std::string(bytes), markup);
  give(copy, std::move(given));
  return copy;
}

Value Run::mapped(const Value& from, std::string bytes) {
  ByteRanges given;
  find_given(from.bytes(), 0, given);
  const bool same_places = bytes.size() == from.bytes().size() && from.text().ascii();
  if (!given.empty() && !same_places) given = {{0, bytes.size()}};
  Value value = text(std::move(bytes), from.text().markup);
  give(value, std::move(given));
  return value;
}

void Run::give(const Value& text, ByteRanges ranges) {
  if (ranges.empty() || text.bytes().empty()) return;
  produce(sizeof(Given) + 64);
  given_.insert_or_assign(text.bytes().data(), Given{text, std::move(ranges)});
}

void Run::find_given(std::string_view bytes, size_t place, ByteRanges& out) {
  if (given_.empty() || bytes.empty()) return;
  auto found = given_.upper_bound(bytes.data());
  if (found == given_.begin()) return;
  const auto& [data, given] = *--found;
  const size_t size = given.text.bytes().size();
  if (!std::less<>()(bytes.data(), data + size)) return;
  const size_t before = out.size();
  const auto from = static_cast<size_t>(bytes.data() - data), to = std::min(from + bytes.size(), size);
  for (auto range = range_at(given.ranges, from); range != given.ranges.end() && range->first < to; ++range)
    add_range(out, place + std::max(range->first, from) - from, place + std::min(range->second, to) - from);
  produce((out.size() - before) * 4 * sizeof(ByteRanges::value_type));  // as a list that grows
}

Value Run::sequence(SequenceType type, Values items) {
  produce(items.size() * sizeof(Value));
  spend(static_cast<int64_t>(items.size()));
  int depth = 0;
  for (const Value& item : items) depth = std::max(depth, item.depth());
  if (depth >= kMaxNesting) fail("lists and dicts nested more than {} levels deep", kMaxNesting);
  return Value::sequence(std::make_shared<const Sequence>(Sequence{type, std::move(items), depth + 1}));
}

Value Run::range(const Range& bounds, Values items) {
  produce(items.size() * sizeof(Value));
  spend(static_cast<int64_t>(items.size()));
  return Value::sequence(
      std::make_shared<const Sequence>(Sequence{SequenceType::range, std::move(items), 1, bounds}));
}

Value Run::mapping(Mapping entries) {
  produce(entries.entries.size() * 2 * sizeof(Value));
  spend(static_cast<int64_t>(entries.entries.size()));
  if (entries.depth > kMaxNesting) fail("lists and dicts nested more than {} levels deep", kMaxNesting);
  return Value::mapping(std::make_shared<const Mapping>(std::move(entries)));
}

void Run::set(Mapping& mapping, Value key, Value value) {
  if (!hashable(key)) fail("unhashable type: '{}'", type_name(key));
  spend(1);
  mapping.set(std::move(key), std::move(value));
}

Value Run::from_json(const base::Json& json, bool given, int depth) {
  if (depth > kMaxNesting) fail("the given data is nested more than {} levels deep", kMaxNesting);
  using Type = base::Json::value_t;
  const auto own = [&](const std::string& bytes) {
    Value value = text(bytes);
    if (given) give(value, {{0, bytes.size()}});
    return value;
  };
  switch (json.type()) {
    case Type::boolean:
      return Value::boolean(json.get<bool>());
    case Type::number_integer:
      return Value::integer(json.get<int64_t>());
    case Type::number_unsigned: {
      const uint64_t value = json.get<uint64_t>();
      if (value > static_cast<uint64_t>(INT64_MAX)) return Value::whole(fmt::format("{}", value));
      return Value::integer(static_cast<int64_t>(value));
    }
    case Type::binary:
      produce(json.get_binary().size());
      return Value::whole(base::large_integer(json).value_or("0"));
    case Type::number_float:
      return Value::real(json.get<double>());
    case Type::string:
      return own(json.get_ref<const std::string&>());
    case Type::array: {
      Values items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(item, given, depth + 1));
      return list(std::move(items));
    }
    case Type::object: {
      Mapping entries;
      for (const auto& [name, value] : json.items())
        set(entries, own(name), from_json(value, given, depth + 1));
      return mapping(std::move(entries));
    }
    default:
      return Value::none();
  }
}

void Writer::reserve(size_t more) {
  if (more > kMaxText || text_.size() + more > kMaxText)
    run_.fail("a text of more than {} MiB", kMaxText >> 20);
  run_.spend(1);
  run_.produce(more);
}

Value Writer::value(bool markup) {
  Value text = Value::text(std::move(text_), markup);
  run_.give(text, std::move(given_));
  return text;
}

Value Object::call(Run& run, Arguments) { run.fail("'{}' object is not callable", type_name()); }

Value Object::attribute(Run&, std::string_view name) {
  return Value::undefined(fmt::format("'{} object' has no attribute '{}'", type_name(), name));
}

Parameters::Parameters(Run& run, std::string_view function, Arguments arguments,
                       std::span<const std::string_view> names, size_t required)
    : run_(run),
      function_(function),
      names_(names.begin(), names.end()),
      values_(names.size()),
      given_(names.size()) {
  if (arguments.positional.size() > names_.size()) {
    run.fail("{}() takes {} argument(s), {} were given", function, names_.size(),
             arguments.positional.size());
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) {
    values_[i] = std::move(arguments.positional[i]);
    given_[i] = true;
  }
  for (auto& [name, value] : arguments.named) {
    const auto at = static_cast<size_t>(std::ranges::find(names_, name.bytes()) - names_.begin());
    if (at == names_.size()) run.fail("{}() has no argument '{}'", function, name.bytes());
    if (given_[at]) run.fail("{}() got two values for '{}'", function, name.bytes());
    values_[at] = std::move(value);
    given_[at] = true;
  }
  for (size_t i = 0; i < required; ++i)
    if (!given_[i]) run.fail("{}() is missing its argument '{}'", function, names_[i]);
}

int64_t Parameters::integer(size_t i, int64_t fallback) const {
  if (!given_[i]) return fallback;
  const Value& value = values_[i];
  if (value.is_undefined()) run_.fail_undefined(value);
  if (value.is_large()) run_.fail("{}(): '{}' is beyond 64 bits", function_, names_[i]);
  if (!value.is_integral()) run_.fail("{}(): '{}' is {}, not int", function_, names_[i], type_name(value));
  return value.integer();
}

bool Parameters::truth(size_t i, bool fallback) const {
  return given_[i] ? jinja::truth(values_[i]) : fallback;
}

std::string_view Parameters::text(size_t i, std::string_view fallback) const {
  if (!given_[i]) return fallback;
  const Value& value = values_[i];
  if (value.is_undefined()) run_.fail_undefined(value);
  if (!value.is_text()) run_.fail("{}(): '{}' is {}, not str", function_, names_[i], type_name(value));
  return value.bytes();
}

}  // namespace trl::text::jinja
