// Items, attributes, slices, iteration, calls.
#include <algorithm>

#include "base/text/utf8.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

class BoundMethod final : public Object {
 public:
  BoundMethod(Value self, const Callable& method) : self_(std::move(self)), method_(method) {}
  std::string type_name() const override { return "builtin_function_or_method"; }
  std::string describe() const override { return "<built-in method>"; }
  bool callable() const override { return true; }
  Value call(Run& run, Arguments arguments) override {
    return invoke(run, method_, self_, std::move(arguments));
  }

 private:
  Value self_;
  const Callable& method_;
};

std::string unsafe(const Value& value, std::string_view name) {
  return fmt::format("access to attribute '{}' of '{}' object is unsafe", name, type_name(value));
}

std::string missing(const Value& value, std::string_view name) {
  if (name.starts_with("__")) return unsafe(value, name);
  const std::string type = value.is_none() ? "None" : fmt::format("'{} object'", type_name(value));
  return fmt::format("{} has no attribute '{}'", type, name);
}

Value missing_item(Run& run, const Value& value, const Value& key) {
  if (key.is_text()) return Value::undefined(missing(value, key.bytes()));
  const std::string type = value.is_none() ? "None" : type_name(value) + " object";
  return Value::undefined(fmt::format("{} has no element {}", type, repr_of(run, key)));
}

// Returns a real attribute (method or field), or nullopt.
std::optional<Value> own_attribute(Run& run, const Value& value, std::string_view name) {
  if (const Callable* method = find_method(value, name))
    return Value::object(run.make<BoundMethod>(value, *method));
  if (is_mutator(value, name)) return Value::undefined(unsafe(value, name));
  if (value.is_sequence(SequenceType::group)) {
    if (name == "grouper") return value.sequence().items[0];
    if (name == "list") return value.sequence().items[1];
  }
  return field_of(run, value, name);
}

Value code_point_at(Run& run, const Text& text, size_t index) {
  const size_t begin = byte_offset(text, index);
  size_t end = begin;
  if (end < text.bytes.size()) base::next_code_point(text.bytes, end);
  run.spend(static_cast<int64_t>(text.ascii() ? 1 : 1 + begin / 64));
  return run.part(std::string_view(text.bytes).substr(begin, end - begin), text.markup);
}

struct Bounds {
  int64_t start, stop, step;
};

// Implements Python's slice.indices().
Bounds slice_bounds(Run& run, int64_t count, const Value& start, const Value& stop, const Value& step) {
  const auto part = [&](const Value& value, int64_t fallback) {
    if (value.is_large()) return value.digits().starts_with('-') ? INT64_MIN : INT64_MAX;
    return value.is_none() ? fallback : value.integer();
  };
  Bounds bounds{0, 0, part(step, 1)};
  if (bounds.step == 0) run.fail("slice step cannot be zero");
  bounds.step = std::clamp<int64_t>(bounds.step, -count - 1, count + 1);
  const int64_t low = bounds.step < 0 ? -1 : 0;
  const int64_t high = bounds.step < 0 ? count - 1 : count;
  const auto place = [&](const Value& value, int64_t fallback) {
    int64_t at = part(value, fallback);
    if (value.is_none()) return at;
    if (at < 0) at = at < -count ? low - 1 : at + count;
    return std::clamp(at, low, high);
  };
  bounds.start = place(start, bounds.step < 0 ? high : low);
  bounds.stop = place(stop, bounds.step < 0 ? low : high);
  return bounds;
}

Range range_of_slice(Run& run, const Range& range, const Bounds& bounds) {
  const auto at = [&](int64_t from, int64_t count) {
    int64_t result = 0;
    if (__builtin_mul_overflow(count, range.step, &result) || __builtin_add_overflow(from, result, &result))
      run.fail("a slice of a range beyond 64 bits");
    return result;
  };
  return {at(range.start, bounds.start), at(range.start, bounds.stop), at(0, bounds.step)};
}

}  // namespace

size_t length(Run& run, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_text()) return value.text().length;
  if (value.is(Kind::mapping)) return value.mapping().entries.size();
  if (value.is(Kind::sequence) && !value.is_sequence(SequenceType::iterator))
    return value.sequence().items.size();
  run.fail("object of type '{}' has no len()", type_name(value));
}

bool iterable(const Value& value) {
  return value.is_undefined() || value.is_text() || value.is(Kind::sequence) || value.is(Kind::mapping);
}

Values items_of(Run& run, const Value& value) {
  Values items;
  switch (value.kind()) {
    case Kind::undefined:
      return items;
    case Kind::text: {
      const Text& text = value.text();
      run.produce(text.length * sizeof(Value) * 3);
      run.spend(static_cast<int64_t>(text.length));
      for (size_t at = 0; at < text.bytes.size();) {
        const size_t begin = at;
        base::next_code_point(text.bytes, at);
        items.push_back(run.part(std::string_view(text.bytes).substr(begin, at - begin)));
      }
      return items;
    }
    case Kind::sequence: {
      const Sequence& sequence = value.sequence();
      run.spend(static_cast<int64_t>(sequence.items.size()));
      run.produce(sequence.items.size() * sizeof(Value));
      items.assign(sequence.items.begin() + static_cast<std::ptrdiff_t>(sequence.walked),
                   sequence.items.end());
      if (sequence.type == SequenceType::iterator) sequence.walked = sequence.items.size();
      return items;
    }
    case Kind::mapping:
      run.spend(static_cast<int64_t>(value.mapping().entries.size()));
      run.produce(value.mapping().entries.size() * sizeof(Value));
      for (const auto& entry : value.mapping().entries) items.push_back(entry.first);
      return items;
    default:
      run.fail("'{}' object is not iterable", type_name(value));
  }
}

bool contains(Run& run, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::text:
      if (!item.is_text()) run.fail("'in <string>' requires string as left operand, not {}", type_name(item));
      return find_text(run, container.bytes(), item.bytes()) != std::string::npos;
    case Kind::mapping:
      run.spend(1);
      if (!hashable(item)) run.fail("unhashable type: '{}'", type_name(item));
      return container.mapping().find(item) != nullptr;
    case Kind::undefined:
      return false;
    case Kind::sequence: {
      const Values& items = container.sequence().items;
      return std::ranges::any_of(items, [&](const Value& other) { return equal(run, other, item); });
    }
    default:
      run.fail("argument of type '{}' is not iterable", type_name(container));
  }
}

// Implements Jinja's getattr: the attribute first, then the item of that name.
Value attribute_of(Run& run, const Value& value, std::string_view name) {
  if (value.is_undefined()) run.fail_undefined(value);
  if (value.is(Kind::object)) return value.object()->attribute(run, name);
  if (auto own = own_attribute(run, value, name)) return *own;
  if (value.is(Kind::mapping)) {
    if (const Value* item = value.mapping().find(name)) return *item;
  }
  return Value::undefined(missing(value, name));
}

Value own_attribute_of(Run& run, const Value& value, std::string_view name) {
  if (value.is(Kind::object)) return value.object()->attribute(run, name);
  if (auto own = own_attribute(run, value, name)) return *own;
  return Value::undefined(missing(value, name));
}

// Implements Jinja's getitem: the item first, then the attribute of that name.
Value item_of(Run& run, const Value& value, const Value& key) {
  if (value.is_undefined()) run.fail_undefined(value);
  if (value.is(Kind::mapping)) {
    if (const Value* item = hashable(key) ? value.mapping().find(key) : nullptr) return *item;
  } else if (key.is_integral() && (value.is_text() || value.is(Kind::sequence))) {
    const bool indexed = value.is_text() || value.sequence().type <= SequenceType::range;
    const auto count = static_cast<int64_t>(indexed ? length(run, value) : 0);
    const int64_t index = key.integer() < 0 ? key.integer() + count : key.integer();
    if (index >= 0 && index < count) {
      const auto at = static_cast<size_t>(index);
      return value.is_text() ? code_point_at(run, value.text(), at) : value.sequence().items[at];
    }
  }
  if (key.is_text()) {
    if (value.is(Kind::object)) return value.object()->attribute(run, key.bytes());
    if (auto own = own_attribute(run, value, key.bytes())) return *own;
  }
  return missing_item(run, value, key);
}

std::string slice_refusal(const Value& value, const Value& start, const Value& stop, const Value& step) {
  const bool sliced = value.is(Kind::sequence) && value.sequence().type <= SequenceType::range;
  if (value.is(Kind::mapping)) return "unhashable type: 'slice'";
  if (!value.is_text() && !sliced) return fmt::format("'{}' object is not subscriptable", type_name(value));
  for (const Value* part : {&start, &stop, &step})
    if (!part->is_none() && !part->is_integral() && !part->is_large())
      return fmt::format("slice indices must be integers or None, not {}", type_name(*part));
  return {};
}

Value slice_of(Run& run, const Value& value, const Value& start, const Value& stop, const Value& step) {
  if (value.is_undefined()) run.fail_undefined(value);
  if (const std::string refusal = slice_refusal(value, start, stop, step); !refusal.empty())
    run.fail_text(refusal);
  const auto count = static_cast<int64_t>(length(run, value));
  const Bounds bounds = slice_bounds(run, count, start, stop, step);
  const auto more = [&](int64_t at) { return bounds.step > 0 ? at < bounds.stop : at > bounds.stop; };
  if (value.is_text()) {
    const Text& text = value.text();
    if (bounds.step == 1) {
      const size_t begin = byte_offset(text, static_cast<size_t>(bounds.start));
      const size_t end = byte_offset(text, static_cast<size_t>(std::max(bounds.start, bounds.stop)));
      run.spend(static_cast<int64_t>(end / 64));
      return run.part(std::string_view(text.bytes).substr(begin, end - begin), text.markup);
    }
    Writer out(run);
    const Values points = items_of(run, value);
    for (int64_t at = bounds.start; more(at); at += bounds.step)
      out.append(points[static_cast<size_t>(at)].bytes());
    return out.value(text.markup);
  }
  Values items;
  for (int64_t at = bounds.start; more(at); at += bounds.step)
    items.push_back(value.sequence().items[static_cast<size_t>(at)]);
  if (value.is_sequence(SequenceType::range))
    return run.range(range_of_slice(run, value.sequence().range, bounds), std::move(items));
  return run.sequence(value.sequence().type, std::move(items));
}

Value call(Run& run, const Value& callee, Arguments arguments) {
  if (callee.is_undefined()) run.fail_undefined(callee);
  if (!callee.is(Kind::object) || !callee.object()->callable())
    run.fail("'{}' object is not callable", type_name(callee));
  run.spend(1);
  return callee.object()->call(run, std::move(arguments));
}

}  // namespace trl::text::jinja
