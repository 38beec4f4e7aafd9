// Namespaces, macro fields and the loop variable; range, dict, namespace, cycler, joiner, and Hugging Face's
// raise_exception and strftime_now.
#include "text/chat_template/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <clocale>
#include <ctime>

#include "text/chat_template/filters.h"

namespace trl::text::jinja {

Value Namespace::attribute(Run& run, std::string_view name) {
  for (const auto& [field, value] : fields_)
    if (field == name) return value;
  return Object::attribute(run, name);
}

void Namespace::set(Run& run, const std::string& name, Value value) {
  if (name.starts_with('_')) run.fail("a namespace cannot store the underscore-prefixed name '{}'", name);
  for (auto& [field, old] : fields_) {
    if (field == name) {
      old = std::move(value);
      return;
    }
  }
  run.produce(sizeof(Value) * 4);
  run.spend(static_cast<int64_t>(fields_.size()));
  fields_.emplace_back(name, std::move(value));
}

Value Macro::attribute(Run& run, std::string_view name) {
  if (name == "name") return Value::text(definition_.name);
  if (name == "catch_kwargs") return Value::boolean(definition_.uses_kwargs);
  if (name == "catch_varargs") return Value::boolean(definition_.uses_varargs);
  if (name == "caller") return Value::boolean(definition_.uses_caller);
  if (name == "arguments") {
    Values names;
    for (const auto& parameter : definition_.parameters) names.push_back(Value::text(parameter.second));
    return run.tuple(std::move(names));
  }
  return Object::attribute(run, name);
}

std::optional<Value> Loop::pull() {
  while (at_ < items_.size()) {
    Value item = items_[at_++];
    if (!accept_ || accept_(item)) return item;
  }
  return std::nullopt;
}

const Value* Loop::peek() {
  if (ahead_.empty()) {
    auto item = pull();
    if (!item) return nullptr;
    ahead_.push_back(std::move(*item));
  }
  return &ahead_.front();
}

bool Loop::advance() {
  if (!peek()) return false;
  before_ = std::move(current_);
  current_ = std::move(ahead_.front());
  ahead_.pop_front();
  ++index0_;
  return true;
}

void Loop::close() {
  accept_ = nullptr;
  at_ = items_.size();
}

int64_t Loop::length() {
  if (!length_) {
    while (auto item = pull()) ahead_.push_back(std::move(*item));
    length_ = index0_ + 1 + static_cast<int64_t>(ahead_.size());
  }
  return *length_;
}

Value Loop::cycle(Run& run, const Arguments& arguments) const {
  if (arguments.positional.empty()) run.fail("no items for cycling given");
  return arguments.positional[static_cast<size_t>(index0_) % arguments.positional.size()];
}

Value Loop::changed(Run& run, Arguments arguments) {
  const Values& now = arguments.positional;
  const bool same =
      last_changed_ && std::ranges::equal(now, *last_changed_,
                                          [&](const Value& a, const Value& b) { return equal(run, a, b); });
  last_changed_ = std::move(arguments.positional);
  return Value::boolean(!same);
}

Value Loop::call(Run& run, Arguments arguments) {
  const Parameters p(run, "loop", std::move(arguments), {"iterable"}, 1);
  if (!repeat_) run.fail("the loop must have the 'recursive' marker to be called recursively");
  return repeat_(p[0], depth0_ + 1);
}

Value Loop::attribute(Run& run, std::string_view name) {
  if (name == "index") return Value::integer(index0_ + 1);
  if (name == "index0") return Value::integer(index0_);
  if (name == "first") return Value::boolean(index0_ == 0);
  if (name == "last") return Value::boolean(peek() == nullptr);
  if (name == "length") return Value::integer(length());
  if (name == "revindex") return Value::integer(length() - index0_);
  if (name == "revindex0") return Value::integer(length() - index0_ - 1);
  if (name == "depth") return Value::integer(depth0_ + 1);
  if (name == "depth0") return Value::integer(depth0_);
  if (name == "previtem") return before_ ? *before_ : Value::undefined("there is no previous item");
  if (name == "nextitem") {
    const Value* item = peek();
    return item ? *item : Value::undefined("there is no next item");
  }
  if (name == "cycle") {
    return Value::object(
        run.make<Function>([this](Run& r, Arguments arguments) { return cycle(r, arguments); }));
  }
  if (name == "changed") {
    return Value::object(
        run.make<Function>([this](Run& r, Arguments arguments) { return changed(r, std::move(arguments)); }));
  }
  return Object::attribute(run, name);
}

namespace {

// Formats one directive, such as "%d" or "%-d", as glibc's C locale writes it, with its flags "-" (no
// padding), "_" and "0".
std::string directive(const tm& moment, int64_t seconds, const std::string& text) {
  static const locale_t locale = newlocale(LC_ALL_MASK, "C", nullptr);
  const char letter = text.back();
  if (letter == 'f') return "000000";
  if (letter == 's') return fmt::format("{}", seconds);
  if (letter == 'z' || letter == 'Z') return {};  // a datetime without a zone
  if (letter != '%' && !std::isalpha(static_cast<unsigned char>(letter))) return text;
  char out[64];
  return {out, strftime_l(out, sizeof out, text.c_str(), &moment, locale)};
}

// Implements datetime.strftime for a moment in UTC.
std::string format_time(std::string_view format, int64_t unix_seconds) {
  // The proleptic Gregorian years 1 to 9999, as in datetime.
  const time_t kept = std::clamp<int64_t>(unix_seconds, -62135596800, 253402300799);
  tm moment{};
  gmtime_r(&kept, &moment);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 >= format.size()) {
      out += format[i];
      continue;
    }
    const char flag = format[i + 1];
    const bool flagged = (flag == '-' || flag == '_' || flag == '0') && i + 2 < format.size();
    const size_t length = flagged ? 3 : 2;
    out += directive(moment, kept, std::string(format.substr(i, length)));
    i += length - 1;
  }
  return out;
}

Value range(Run& run, Arguments arguments) {
  const Parameters p(run, "range", std::move(arguments), {"start", "stop", "step"}, 1);
  const int64_t start = p.given(1) ? p.integer(0, 0) : 0;
  const int64_t stop = p.given(1) ? p.integer(1, 0) : p.integer(0, 0);
  const int64_t step = p.integer(2, 1);
  if (step == 0) run.fail("range() arg 3 must not be zero");
  const bool any = step > 0 ? start < stop : start > stop;
  const auto distance = step > 0 ? static_cast<uint64_t>(stop) - static_cast<uint64_t>(start)
                                 : static_cast<uint64_t>(start) - static_cast<uint64_t>(stop);
  const auto stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  const uint64_t count = any ? (distance - 1) / stride + 1 : 0;
  if (count > static_cast<uint64_t>(kMaxRange)) run.fail("range() of more than {} items", kMaxRange);
  Values items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i)
    items.push_back(Value::integer(start + static_cast<int64_t>(i) * step));
  return run.range({start, stop, step}, std::move(items));
}

// dict(mapping or pairs, **named)
Mapping dict_entries(Run& run, std::string_view function, Arguments arguments) {
  if (arguments.positional.size() > 1)
    run.fail("{}() takes at most 1 positional argument, {} were given", function,
             arguments.positional.size());
  Mapping entries;
  if (!arguments.positional.empty()) {
    const Value& source = arguments.positional[0];
    if (source.is(Kind::mapping)) {
      entries = source.mapping();
    } else {
      for (const Value& item : items_of(run, source)) {
        Values pair = items_of(run, item);
        if (pair.size() != 2) run.fail("{}() needs pairs, an item has length {}", function, pair.size());
        run.set(entries, std::move(pair[0]), std::move(pair[1]));
      }
    }
  }
  for (auto& [name, value] : arguments.named) run.set(entries, std::move(name), std::move(value));
  return entries;
}

class DictFunction final : public Object {
 public:
  std::string type_name() const override { return "TemplateDict"; }
  bool callable() const override { return true; }
  Value call(Run& run, Arguments arguments) override {
    return run.mapping(dict_entries(run, "dict", std::move(arguments)));
  }
  Value attribute(Run& run, std::string_view name) override {
    if (name != "fromkeys") return Object::attribute(run, name);
    return Value::object(run.make<Function>(dict_from_keys));
  }
};

Value make_namespace(Run& run, Arguments arguments) {
  auto* result = run.make<Namespace>();
  for (const auto& [name, value] : dict_entries(run, "namespace", std::move(arguments)).entries)
    result->set(run, str_of(run, name), value);
  return Value::object(result);
}

class Cycler final : public Object {
 public:
  explicit Cycler(Values items) : items_(std::move(items)) {}
  std::string type_name() const override { return "Cycler"; }
  Value attribute(Run& run, std::string_view name) override {
    if (name == "current") return items_[at_];
    if (name == "next" || name == "reset") {
      return Value::object(run.make<Function>([this, next = name == "next"](Run&, Arguments) {
        const Value item = next ? items_[at_] : Value::none();
        at_ = next ? (at_ + 1) % items_.size() : 0;
        return item;
      }));
    }
    return Object::attribute(run, name);
  }

 private:
  Values items_;
  size_t at_ = 0;
};

Value make_cycler(Run& run, Arguments arguments) {
  if (arguments.positional.empty()) run.fail("at least one item has to be provided to cycler()");
  return Value::object(run.make<Cycler>(std::move(arguments.positional)));
}

Value make_joiner(Run& run, Arguments arguments) {
  const Parameters p(run, "joiner", std::move(arguments), {"sep"});
  return Value::object(
      run.make<Function>([separator = p.value(0, Value::text(", ")), used = false](Run&, Arguments) mutable {
        return std::exchange(used, true) ? separator : Value::text("");
      }));
}

Value raise_exception(Run& run, Arguments arguments) {
  const Parameters p(run, "raise_exception", std::move(arguments), {"message"}, 1);
  run.fail_text(str_of(run, p[0]));
}

Value strftime_now(Run& run, Arguments arguments) {
  const Parameters p(run, "strftime_now", std::move(arguments), {"format"}, 1);
  return run.text(format_time(p.text(0), run.now()));
}

Value lipsum(Run& run, Arguments) { run.fail("lipsum() is random text; a chat template cannot use it"); }

}  // namespace

Value global_function(Run& run, std::string_view name) {
  if (name == "dict") return Value::object(run.make<DictFunction>());
  struct Row {
    std::string_view name;
    Value (*function)(Run&, Arguments);
  };
  constexpr Row kFunctions[] = {
      {"range", range},        {"namespace", make_namespace},        {"cycler", make_cycler},
      {"joiner", make_joiner}, {"raise_exception", raise_exception}, {"strftime_now", strftime_now},
      {"lipsum", lipsum}};
  const Row* row = find_named(kFunctions, name);
  return row ? Value::object(run.make<Function>(row->function)) : Value();
}

}  // namespace trl::text::jinja
