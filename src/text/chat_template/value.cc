// Values and mappings. Key equality and hashes follow Python: numbers by value, tuples by their items.
#include "text/chat_template/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "base/text/number.h"
#include "base/text/utf8.h"

namespace trl::text::jinja {

Value Value::undefined(std::string message) {
  return Value(Data(std::in_place_index<0>, std::make_shared<const std::string>(std::move(message))));
}

Value Value::text(std::string bytes, bool markup) {
  const size_t length = base::count_code_points(bytes);
  return Value(Data(std::make_shared<const Text>(Text{std::move(bytes), length, markup})));
}

Value Value::whole(std::string_view digits) {
  if (const auto value = base::parse_int64(digits)) return integer(*value);
  std::string text(digits.starts_with('-') ? "-" : "");
  text += digits.substr(std::min(digits.find_first_of("123456789"), digits.size()));
  return Value(Data(std::in_place_index<9>, std::make_shared<const std::string>(std::move(text))));
}

bool Value::is_sequence(SequenceType type) const { return is(Kind::sequence) && sequence().type == type; }

const std::string& Value::undefined_message() const {
  static const std::string& plain = *new const std::string("the value is undefined");
  const auto& message = std::get<0>(data_);
  return message ? *message : plain;
}

const void* Value::identity() const {
  if (is(Kind::text)) return &text();
  if (is(Kind::sequence)) return &sequence();
  if (is(Kind::mapping)) return &mapping();
  return is(Kind::object) ? object() : nullptr;
}

int Value::depth() const {
  if (is(Kind::sequence)) return sequence().depth;
  if (is(Kind::mapping)) return mapping().depth;
  return 0;
}

double large_as_real(const Value& large) {
  return base::parse_double(large.digits()).value_or(large.digits().starts_with('-') ? -HUGE_VAL : HUGE_VAL);
}

namespace {
// Returns the digits of a float without a fraction, else empty.
std::string whole_digits(double value) {
  return std::isfinite(value) && std::trunc(value) == value ? fmt::format("{:.0f}", value) : std::string();
}
}  // namespace

bool hashable(const Value& value) {
  if (value.is(Kind::mapping)) return false;
  if (!value.is(Kind::sequence)) return true;
  const Sequence& sequence = value.sequence();
  if (sequence.type == SequenceType::tuple || sequence.type == SequenceType::group)
    return std::ranges::all_of(sequence.items, hashable);
  return false;
}

uint64_t key_hash(const Value& key) {
  switch (key.kind()) {
    case Kind::text:
      return std::hash<std::string>()(key.bytes());
    case Kind::boolean:
    case Kind::integer:
      return static_cast<uint64_t>(key.integer());
    case Kind::real: {
      const double value = key.real();
      const bool whole = std::abs(value) < 9.2e18 && std::floor(value) == value;
      return whole ? static_cast<uint64_t>(static_cast<int64_t>(value)) : std::bit_cast<uint64_t>(value);
    }
    case Kind::sequence: {
      uint64_t hash = 0x9E3779B97F4A7C15;
      for (const Value& item : key.sequence().items) hash = hash * 31 + key_hash(item);
      return hash;
    }
    case Kind::object:
      return reinterpret_cast<uint64_t>(key.object());
    case Kind::large:
      return std::bit_cast<uint64_t>(large_as_real(key));
    default:
      return static_cast<uint64_t>(key.kind());
  }
}

bool same_key(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number())
    return a.is_integral() && b.is_integral() ? a.integer() == b.integer() : a.real() == b.real();
  if (a.is_large() && b.is(Kind::real)) return whole_digits(b.real()) == a.digits();
  if (b.is_large() && a.is(Kind::real)) return same_key(b, a);
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::large:
      return a.digits() == b.digits();
    case Kind::text:
      return a.bytes() == b.bytes();
    case Kind::sequence: {
      const Values& x = a.sequence().items;
      const Values& y = b.sequence().items;
      return std::ranges::equal(x, y, same_key);
    }
    case Kind::object:
      return a.object() == b.object();
    default:
      return true;
  }
}

const Value* Mapping::find(const Value& key) const {
  if (entries.size() <= kLinear) {
    for (const auto& [name, value] : entries)
      if (same_key(name, key)) return &value;
    return nullptr;
  }
  const auto [first, last] = index.equal_range(key_hash(key));
  for (auto it = first; it != last; ++it)
    if (same_key(entries[it->second].first, key)) return &entries[it->second].second;
  return nullptr;
}

const Value* Mapping::find(std::string_view key) const {
  if (entries.size() > kLinear) return find(Value::text(std::string(key)));
  for (const auto& [name, value] : entries)
    if (name.is_text() && name.bytes() == key) return &value;
  return nullptr;
}

void Mapping::set(Value key, Value value) {
  depth = std::max({depth, key.depth() + 1, value.depth() + 1});
  if (const Value* old = find(key)) {
    *const_cast<Value*>(old) = std::move(value);  // entries is ours and not const here
    return;
  }
  entries.emplace_back(std::move(key), std::move(value));
  const auto add = [&](size_t i) { index.emplace(key_hash(entries[i].first), static_cast<uint32_t>(i)); };
  if (entries.size() == kLinear + 1)
    for (size_t i = 0; i < entries.size(); ++i) add(i);
  else if (entries.size() > kLinear)
    add(entries.size() - 1);
}

}  // namespace trl::text::jinja
