// Filters of lists and dicts. A lazy result of Jinja is made at once, as an iterator that is walked once.
#include <algorithm>

#include "base/text/number.h"
#include "text/chat_template/filters.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

Value iterator(Run& run, Values items) { return run.sequence(SequenceType::iterator, std::move(items)); }

Value ignore_case(Run& run, const Value& value, bool case_sensitive) {
  if (case_sensitive || !value.is_text()) return value;
  return run.text(to_lower(value.bytes()));
}

// Looks up "a.b.0" in a value; an undefined result takes the fallback.
class AttributeGetter {
 public:
  AttributeGetter(Run& run, const Value& path, Value fallback = Value())
      : run_(run), fallback_(std::move(fallback)) {
    if (path.is_none()) return;
    if (!path.is_text()) {
      parts_.push_back(path);
      return;
    }
    const std::string_view text = path.bytes();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find('.', begin), text.size());
      const std::string_view part = text.substr(begin, end - begin);
      const bool digits =
          !part.empty() && std::ranges::all_of(part, [](char c) { return c >= '0' && c <= '9'; });
      const auto number = digits ? base::parse_int64(part) : std::nullopt;
      parts_.push_back(number ? Value::integer(*number) : Value::text(std::string(part)));
      begin = end + 1;
    }
  }
  Value operator()(Value item) const {
    for (const Value& part : parts_) {
      item = item_of(run_, item, part);
      if (item.is_undefined() && !fallback_.is_undefined() && !fallback_.is_none()) item = fallback_;
    }
    return item;
  }

 private:
  Run& run_;
  Values parts_;
  Value fallback_;
};

Value first(Run& run, const Value& value, const Parameters&) {
  if (value.is_text() && !value.bytes().empty()) return item_of(run, value, Value::integer(0));
  if (value.is(Kind::sequence) && value.sequence().type <= SequenceType::range &&
      !value.sequence().items.empty())
    return value.sequence().items.front();
  Values items = items_of(run, value);
  return items.empty() ? Value::undefined("No first item, sequence was empty.") : items.front();
}

Value last(Run& run, const Value& value, const Parameters&) {
  if (value.is_sequence(SequenceType::iterator)) run.fail("'generator' object is not reversible");
  if (value.is_text() && !value.bytes().empty()) return item_of(run, value, Value::integer(-1));
  Values items = items_of(run, value);
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value length_(Run& run, const Value& value, const Parameters&) { return Value::size(length(run, value)); }

Value list(Run& run, const Value& value, const Parameters&) { return run.list(items_of(run, value)); }

Value reverse(Run& run, const Value& value, const Parameters&) {
  if (value.is_text()) return slice_of(run, value, Value::none(), Value::none(), Value::integer(-1));
  Values items = items_of(run, value);
  std::ranges::reverse(items);
  return iterator(run, std::move(items));
}

// Sorts keys stably; the items follow.
Values sorted_by(Run& run, const Values& items, const Values& keys, bool reverse) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto before = [&](size_t a, size_t b) { return less(run, keys[a], keys[b]); };
  if (reverse)  // equal items keep their order, as in Python
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return before(b, a); });
  else
    std::ranges::stable_sort(order, before);
  Values out;
  out.reserve(items.size());
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

Value sort(Run& run, const Value& value, const Parameters& p) {
  std::vector<AttributeGetter> getters;
  const Value paths = p.value(2, Value::none());
  if (paths.is_text()) {
    std::string_view text = paths.bytes();
    for (size_t begin = 0; begin <= text.size();) {
      const size_t end = std::min(text.find(',', begin), text.size());
      getters.emplace_back(run, Value::text(std::string(text.substr(begin, end - begin))));
      begin = end + 1;
    }
  } else {
    getters.emplace_back(run, paths);
  }
  const Values items = items_of(run, value);
  Values keys;
  for (const Value& item : items) {
    Values key;
    for (const AttributeGetter& getter : getters)
      key.push_back(ignore_case(run, getter(item), p.truth(1, false)));
    keys.push_back(run.list(std::move(key)));
  }
  return run.list(sorted_by(run, items, keys, p.truth(0, false)));
}

Value dictsort(Run& run, const Value& value, const Parameters& p) {
  const std::string_view by = p.text(1, "key");
  if (by != "key" && by != "value") run.fail("dictsort(): 'by' is key or value, not '{}'", by);
  if (value.is_undefined()) run.fail_undefined(value);
  if (!value.is(Kind::mapping)) run.fail("dictsort needs a dict, not {}", type_name(value));
  Values items, keys;
  for (const auto& [key, item] : value.mapping().entries) {
    items.push_back(run.tuple({key, item}));
    keys.push_back(ignore_case(run, by == "key" ? key : item, p.truth(0, false)));
  }
  return run.list(sorted_by(run, items, keys, p.truth(2, false)));
}

Value unique(Run& run, const Value& value, const Parameters& p) {
  const AttributeGetter getter(run, p.value(1, Value::none()));
  Mapping seen;
  Values out;
  for (const Value& item : items_of(run, value)) {
    const Value key = ignore_case(run, getter(item), p.truth(0, false));
    if (hashable(key) && seen.find(key)) continue;
    run.set(seen, key, Value::none());
    out.push_back(item);
  }
  return iterator(run, std::move(out));
}

template <bool Greatest>
Value extreme(Run& run, const Value& value, const Parameters& p) {
  const AttributeGetter getter(run, p.value(1, Value::none()));
  const Values items = items_of(run, value);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  size_t best = 0;
  Value best_key = ignore_case(run, getter(items[0]), p.truth(0, false));
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = ignore_case(run, getter(items[i]), p.truth(0, false));
    if (!ordered(run, Greatest ? Order::greater : Order::less, key, best_key)) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

Value sum(Run& run, const Value& value, const Parameters& p) {
  const AttributeGetter getter(run, p.value(0, Value::none()));
  Value total = p.value(1, Value::integer(0));
  if (total.is_text()) run.fail("sum() can't sum strings [use join instead]");
  for (const Value& item : items_of(run, value)) total = arithmetic(run, Operator::add, total, getter(item));
  return total;
}

Value batch(Run& run, const Value& value, const Parameters& p) {
  const auto size = static_cast<size_t>(std::max<int64_t>(0, p.integer(0, 1)));
  Values out, row;
  for (const Value& item : items_of(run, value)) {
    if (row.size() == size) out.push_back(run.list(std::exchange(row, {})));
    row.push_back(item);
  }
  if (!row.empty()) {
    if (!p.none(1) && row.size() < size) {
      run.produce((size - row.size()) * sizeof(Value));
      row.resize(size, p[1]);
    }
    out.push_back(run.list(std::move(row)));
  }
  return iterator(run, std::move(out));
}

Value slice(Run& run, const Value& value, const Parameters& p) {
  const int64_t slices = p.integer(0, 1);
  const Values items = items_of(run, value);
  if (slices == 0) run.fail("division by zero");
  const auto count = static_cast<int64_t>(items.size());
  Values out;
  int64_t begin = 0;
  for (int64_t i = 0; i < slices; ++i) {
    const bool extra = i < count % slices;
    const int64_t end = begin + count / slices + (extra ? 1 : 0);
    Values part(items.begin() + begin, items.begin() + end);
    if (!p.none(1) && !extra) part.push_back(p[1]);
    out.push_back(run.list(std::move(part)));
    run.produce(sizeof(Value) * 4);
    begin = end;
  }
  return iterator(run, std::move(out));
}

Value groupby(Run& run, const Value& value, const Parameters& p) {
  const AttributeGetter getter(run, p[0], p.value(1, Value()));
  const Values items = items_of(run, value);
  Values keys;
  for (const Value& item : items) keys.push_back(ignore_case(run, getter(item), p.truth(2, false)));
  const Values sorted = sorted_by(run, items, keys, false);
  Values groups;
  for (size_t begin = 0; begin < sorted.size();) {
    const Value key = ignore_case(run, getter(sorted[begin]), p.truth(2, false));
    size_t end = begin + 1;
    while (end < sorted.size() && equal(run, ignore_case(run, getter(sorted[end]), p.truth(2, false)), key))
      ++end;
    Values members(sorted.begin() + static_cast<std::ptrdiff_t>(begin),
                   sorted.begin() + static_cast<std::ptrdiff_t>(end));
    groups.push_back(
        run.sequence(SequenceType::group, {getter(sorted[begin]), run.list(std::move(members))}));
    begin = end;
  }
  return run.list(std::move(groups));
}

Value join(Run& run, const Value& value, const Parameters& p) {
  Values items = items_of(run, value);
  if (!p.none(1)) {
    const AttributeGetter getter(run, p[1]);
    for (Value& item : items) item = getter(std::move(item));
  }
  const Value separator = str_value(run, p.value(0, Value::text("")));
  return join_text(run, separator.bytes(), items, false);
}

Value items_filter(Run& run, const Value& value, const Parameters&) {
  if (value.is_undefined()) return iterator(run, {});
  if (!value.is(Kind::mapping)) run.fail("can only get item pairs from a mapping, not {}", type_name(value));
  Values pairs;
  for (const auto& [key, item] : value.mapping().entries) pairs.push_back(run.tuple({key, item}));
  return iterator(run, std::move(pairs));
}

// Takes the name that map, select and their like have as their first argument out of the arguments.
std::string take_name(Run& run, std::string_view filter, Arguments& arguments) {
  const Value name = arguments.positional.front();
  if (!name.is_text()) run.fail("{}: its first argument is a name, not {}", filter, type_name(name));
  arguments.positional.erase(arguments.positional.begin());
  return name.bytes();
}

Value map(Run& run, const Value& value, Arguments arguments) {
  Values out;
  if (!truth(value)) return iterator(run, {});
  if (arguments.positional.empty()) {
    const Parameters p(run, "map", std::move(arguments), {"attribute", "default"}, 1);
    const AttributeGetter getter(run, p[0], p.value(1, Value()));
    for (const Value& item : items_of(run, value)) out.push_back(getter(item));
    return iterator(run, std::move(out));
  }
  const std::string name = take_name(run, "map", arguments);
  const Callable* filter = find_filter(name);
  if (!filter) run.fail_text(no_filter(name));
  for (const Value& item : items_of(run, value)) out.push_back(invoke(run, *filter, item, arguments));
  return iterator(run, std::move(out));
}

template <bool Keep, bool Attribute>
Value select(Run& run, const Value& value, Arguments arguments) {
  if (!truth(value)) return iterator(run, {});
  Value path = Value::none();
  if (Attribute) {
    if (arguments.positional.empty()) run.fail("selectattr, rejectattr: the attribute's name is missing");
    path = arguments.positional.front();
    arguments.positional.erase(arguments.positional.begin());
  }
  const AttributeGetter getter(run, path);
  TestFunction test = nullptr;
  if (!arguments.positional.empty()) {
    const std::string name = take_name(run, "select, reject", arguments);
    test = find_test(name);
    if (!test) run.fail("No test named '{}'.", name);
  }
  Values out;
  for (const Value& item : items_of(run, value)) {
    const Value subject = getter(item);
    if ((test ? test(run, subject, arguments) : truth(subject)) == Keep) out.push_back(item);
  }
  return iterator(run, std::move(out));
}

constexpr Callable kSequenceFilters[] = {
    {"batch", batch, {"linecount", "fill_with"}, 1},
    {"count", length_, {}, 0, "length"},
    {"dictsort", dictsort, {"case_sensitive", "by", "reverse"}},
    {"first", first},
    {"groupby", groupby, {"attribute", "default", "case_sensitive"}, 1},
    {"items", items_filter},
    {"join", join, {"d", "attribute"}},
    {"last", last},
    {"length", length_},
    {"list", list},
    {"map", map},
    {"max", extreme<true>, {"case_sensitive", "attribute"}},
    {"min", extreme<false>, {"case_sensitive", "attribute"}},
    {"reject", select<false, false>},
    {"rejectattr", select<false, true>},
    {"reverse", reverse},
    {"select", select<true, false>},
    {"selectattr", select<true, true>},
    {"slice", slice, {"slices", "fill_with"}, 1},
    {"sort", sort, {"reverse", "case_sensitive", "attribute"}},
    {"sum", sum, {"attribute", "start"}},
    {"unique", unique, {"case_sensitive", "attribute"}},
};

}  // namespace

const Callable* find_sequence_filter(std::string_view name) { return find_named(kSequenceFilters, name); }

}  // namespace trl::text::jinja
