// range, dict, namespace, cycler, joiner, and Hugging Face's raise_exception and strftime_now.
#include <algorithm>

#include "text/chat_template/methods.h"
#include "text/chat_template/objects.h"
#include "text/chat_template/strftime.h"

namespace trl::text::jinja {

namespace {

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
  for (auto& [name, value] : arguments.named) run.set(entries, Value::text(name), std::move(value));
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
  return run.text(format_time(p.text(0, ""), run.now()));
}

Value lipsum(Run& run, Arguments) { run.fail("lipsum() is random text; a chat template cannot use it"); }

}  // namespace

Value global_function(Run& run, std::string_view name) {
  if (name == "dict") return Value::object(run.make<DictFunction>());
  struct Entry {
    std::string_view name;
    Value (*function)(Run&, Arguments);
  };
  constexpr Entry kFunctions[] = {
      {"range", range},        {"namespace", make_namespace},        {"cycler", make_cycler},
      {"joiner", make_joiner}, {"raise_exception", raise_exception}, {"strftime_now", strftime_now},
      {"lipsum", lipsum}};
  for (const Entry& entry : kFunctions) {
    if (entry.name == name) return Value::object(run.make<Function>(entry.function));
  }
  return Value();
}

}  // namespace trl::text::jinja
