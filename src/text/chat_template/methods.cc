// Methods of dict, list, tuple and the numbers.
#include "text/chat_template/methods.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "text/chat_template/python.h"

namespace trl::text::jinja {

namespace {

Value keys(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "keys", std::move(arguments), {});
  return run.sequence(SequenceType::keys, items_of(run, self));
}

Value values(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "values", std::move(arguments), {});
  Values items;
  for (const auto& entry : self.mapping().entries) items.push_back(entry.second);
  return run.sequence(SequenceType::values, std::move(items));
}

Value items(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "items", std::move(arguments), {});
  Values pairs;
  for (const auto& [key, value] : self.mapping().entries) pairs.push_back(run.tuple({key, value}));
  return run.sequence(SequenceType::items, std::move(pairs));
}

Value get(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "get", std::move(arguments), {"key", "default"}, 1);
  if (!hashable(p[0])) run.fail("unhashable type: '{}'", type_name(p[0]));
  const Value* found = self.mapping().find(p[0]);
  return found ? *found : p.value(1, Value::none());
}

Value copy(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "copy", std::move(arguments), {});
  return self;  // values never change
}

Value fromkeys(Run& run, const Value&, Arguments arguments) {
  return dict_from_keys(run, std::move(arguments));
}

Value index(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "index", std::move(arguments), {"value", "start", "stop"}, 1);
  const Value part = slice_of(run, self, p.value(1, Value::none()), p.value(2, Value::none()), Value::none());
  const Values& parts = part.sequence().items;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!equal(run, parts[i], p[0])) continue;
    const auto count = static_cast<int64_t>(self.sequence().items.size());
    const int64_t start = p.none(1) ? 0 : p.integer(1, 0);
    return Value::integer(static_cast<int64_t>(i) +
                          (start < 0 ? std::max<int64_t>(0, start + count) : start));
  }
  run.fail("{} is not in the {}", repr_of(run, p[0]), type_name(self));
}

Value count(Run& run, const Value& self, Arguments arguments) {
  const Parameters p(run, "count", std::move(arguments), {"value"}, 1);
  const Values& parts = self.sequence().items;
  return Value::integer(
      std::count_if(parts.begin(), parts.end(), [&](const Value& v) { return equal(run, v, p[0]); }));
}

Value is_whole(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "is_integer", std::move(arguments), {});
  return Value::boolean(self.is_integral() || std::trunc(self.real()) == self.real());
}

Value bit_length(Run& run, const Value& self, Arguments arguments) {
  Parameters(run, "bit_length", std::move(arguments), {});
  const int64_t value = self.integer();
  uint64_t magnitude = value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  int64_t bits = 0;
  for (; magnitude != 0; magnitude >>= 1) ++bits;
  return Value::integer(bits);
}

template <size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

Value dict_from_keys(Run& run, Arguments arguments) {
  const Parameters p(run, "fromkeys", std::move(arguments), {"iterable", "value"}, 1);
  Mapping entries;
  for (const Value& key : items_of(run, p[0])) run.set(entries, key, p.value(1, Value::none()));
  return run.mapping(std::move(entries));
}

Method find_method(const Value& value, std::string_view name) {
  if (value.is_text()) return find_text_method(name);
  if (value.is(Kind::mapping)) {
    if (name == "keys") return keys;
    if (name == "values") return values;
    if (name == "items") return items;
    if (name == "get") return get;
    if (name == "copy") return copy;
    if (name == "fromkeys") return fromkeys;
  }
  if (value.is(Kind::sequence) && value.sequence().type <= SequenceType::range) {
    if (name == "index") return index;
    if (name == "count") return count;
    if (name == "copy" && value.is_sequence(SequenceType::list)) return copy;
  }
  if (value.is_number()) {
    if (name == "is_integer" && value.is(Kind::real)) return is_whole;
    if (name == "bit_length" && value.is_integral()) return bit_length;
  }
  return nullptr;
}

bool is_mutator(const Value& value, std::string_view name) {
  constexpr std::array<std::string_view, 5> kMapping = {"clear", "pop", "popitem", "setdefault", "update"};
  constexpr std::array<std::string_view, 8> kList = {"append", "clear", "pop",    "reverse",
                                                     "insert", "sort",  "extend", "remove"};
  if (value.is(Kind::mapping)) return among(kMapping, name);
  return value.is_sequence(SequenceType::list) && among(kList, name);
}

}  // namespace trl::text::jinja
