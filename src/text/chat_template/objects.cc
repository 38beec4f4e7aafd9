// Namespaces, macro fields and the loop variable.
#include "text/chat_template/objects.h"

#include <algorithm>

namespace trl::text::jinja {

Value Namespace::attribute(Run& run, std::string_view name) {
  for (const auto& [field, value] : fields_) {
    if (field == name) return value;
  }
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

Value Blocks::attribute(Run& run, std::string_view name) {
  const auto found = program_.blocks.find(std::string(name));
  if (found == program_.blocks.end()) return Object::attribute(run, name);
  return Value::object(run.make<Function>([this, block = found->second](Run& r, Arguments arguments) {
    Parameters(r, "the block", std::move(arguments), {});
    return interpreter_.render_block(*block);
  }));
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
      last_changed_ && std::equal(now.begin(), now.end(), last_changed_->begin(), last_changed_->end(),
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

}  // namespace trl::text::jinja
