// Evaluation of expressions.
#include <algorithm>

#include "text/chat_template/filters.h"
#include "text/chat_template/interpreter.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

const Value* Scope::find(int symbol) const {
  for (const Scope* scope = this; scope; scope = scope->parent_.get()) {
    for (const auto& [name, value] : scope->entries_)
      if (name == symbol) return &value;
  }
  return nullptr;
}

void Scope::set(int symbol, Value value) {
  for (auto& [name, old] : entries_) {
    if (name == symbol) {
      old = std::move(value);
      return;
    }
  }
  entries_.emplace_back(symbol, std::move(value));
}

Value Interpreter::evaluate(const Expression& node, const ScopePtr& scope) {
  const Level level(*this, node.line);
  switch (node.kind) {
    case ExpressionKind::literal:
      return node.value;
    case ExpressionKind::name:
      return name(node, scope);
    case ExpressionKind::list:
      return list(evaluate_all(node.items, scope));
    case ExpressionKind::tuple:
      return tuple(evaluate_all(node.items, scope));
    case ExpressionKind::dict:
      return dict(node, scope);
    case ExpressionKind::logical_not:
      return Value::boolean(!truth(evaluate(*node.a, scope)));
    case ExpressionKind::negative:
      return negate(*this, evaluate(*node.a, scope));
    case ExpressionKind::positive:
      return plus(*this, evaluate(*node.a, scope));
    case ExpressionKind::logical_and: {
      Value left = evaluate(*node.a, scope);
      return truth(left) ? evaluate(*node.b, scope) : left;
    }
    case ExpressionKind::logical_or: {
      Value left = evaluate(*node.a, scope);
      return truth(left) ? left : evaluate(*node.b, scope);
    }
    case ExpressionKind::arithmetic: {
      const Value left = evaluate(*node.a, scope);
      return arithmetic(*this, node.op, left, evaluate(*node.b, scope));
    }
    case ExpressionKind::concatenation:
      return concatenation(node, scope);
    case ExpressionKind::comparison:
      return comparison(node, scope);
    case ExpressionKind::conditional:
      return conditional(node, scope);
    case ExpressionKind::attribute:
      return attribute_of(*this, evaluate(*node.a, scope), node.text);
    case ExpressionKind::item: {
      const Value value = evaluate(*node.a, scope);
      return item_of(*this, value, evaluate(*node.b, scope));
    }
    case ExpressionKind::slice:
      return slice(node, scope);
    case ExpressionKind::call:
      return call(node, scope, nullptr);
    case ExpressionKind::filter:
      return filter(node, scope, nullptr);
    case ExpressionKind::test:
      return Value::boolean(test(node, scope));
    case ExpressionKind::namespace_field:
      break;
  }
  fail("an assignment target is not a value");
}

Value Interpreter::name(const Expression& node, const ScopePtr& scope) {
  if (const Value* found = scope->find(node.symbol)) return *found;
  return Value::undefined(fmt::format("'{}' is undefined", program_.names[static_cast<size_t>(node.symbol)]));
}

Values Interpreter::evaluate_all(const std::vector<ExpressionPtr>& nodes, const ScopePtr& scope) {
  Values values;
  values.reserve(nodes.size());
  for (const auto& node : nodes) values.push_back(evaluate(*node, scope));
  return values;
}

Value Interpreter::dict(const Expression& node, const ScopePtr& scope) {
  Mapping entries;
  for (size_t i = 0; i + 1 < node.items.size(); i += 2) {
    Value key = evaluate(*node.items[i], scope);
    set(entries, std::move(key), evaluate(*node.items[i + 1], scope));
  }
  return mapping(std::move(entries));
}

Value Interpreter::concatenation(const Expression& node, const ScopePtr& scope) {
  const Values values = evaluate_all(node.items, scope);
  Writer out(*this);
  for (const Value& value : values) write_str(out, *this, value);
  return out.value();
}

namespace {
bool holds(Run& run, Comparison comparison, const Value& left, const Value& right) {
  if (comparison == Comparison::equal || comparison == Comparison::unequal)
    return equal(run, left, right) == (comparison == Comparison::equal);
  if (comparison == Comparison::in || comparison == Comparison::not_in)
    return contains(run, right, left) == (comparison == Comparison::in);
  return ordered(run, static_cast<Order>(comparison), left, right);
}

bool is_constant(const Expression& node) {
  const bool leaf = node.kind == ExpressionKind::name || node.kind == ExpressionKind::call ||
                    node.kind == ExpressionKind::namespace_field;
  const auto given = [](const ExpressionPtr& part) { return !part || is_constant(*part); };
  return !leaf && given(node.a) && given(node.b) && given(node.c) && given(node.d) &&
         std::ranges::all_of(node.items, given) && std::ranges::all_of(node.arguments.positional, given);
}
}  // namespace

Value Interpreter::comparison(const Expression& node, const ScopePtr& scope) {
  Value left = evaluate(*node.a, scope);
  for (size_t i = 0; i < node.comparisons.size(); ++i) {
    Value right = evaluate(*node.items[i], scope);
    if (!holds(*this, node.comparisons[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::conditional(const Expression& node, const ScopePtr& scope) {
  if (truth(evaluate(*node.b, scope))) return evaluate(*node.a, scope);
  if (node.c) return evaluate(*node.c, scope);
  return Value::undefined("the inline if-expression evaluated to false and no else section was defined.");
}

Value Interpreter::slice(const Expression& node, const ScopePtr& scope) {
  const Value value = evaluate(*node.a, scope);
  const auto part = [&](const ExpressionPtr& index) {
    return index ? evaluate(*index, scope) : Value::none();
  };
  const Value start = part(node.b), stop = part(node.c), step = part(node.d);
  // Follows Jinja, whose compiler looks up items of constants as `value[key]` does.
  if (!value.is_undefined() && is_constant(node)) {
    if (std::string refusal = slice_refusal(value, start, stop, step); !refusal.empty())
      return Value::undefined(std::move(refusal));
  }
  return slice_of(*this, value, start, stop, step);
}

Arguments Interpreter::arguments(const CallArguments& nodes, const ScopePtr& scope) {
  Arguments out;
  out.positional = evaluate_all(nodes.positional, scope);
  const auto add = [&](const Value& name, Value value) {
    const bool twice =
        std::ranges::any_of(out.named, [&](const auto& e) { return e.first.bytes() == name.bytes(); });
    if (twice) fail("two values for the argument '{}'", name.bytes());
    out.named.emplace_back(name, std::move(value));
  };
  for (const auto& [name, value] : nodes.named) add(Value::text(name), evaluate(*value, scope));
  if (nodes.star)
    for (Value& item : items_of(*this, evaluate(*nodes.star, scope)))
      out.positional.push_back(std::move(item));
  if (nodes.double_star) {
    const Value given = evaluate(*nodes.double_star, scope);
    if (!given.is(Kind::mapping)) fail("argument after ** must be a mapping, not {}", type_name(given));
    for (const auto& [key, value] : given.mapping().entries) {
      if (!key.is_text()) fail("keywords must be strings");
      add(key, value);
    }
  }
  return out;
}

Value Interpreter::call(const Expression& node, const ScopePtr& scope, Value* caller) {
  const Expression& callee = *node.a;
  Value function;
  if (callee.kind == ExpressionKind::attribute) {
    const Value self = evaluate(*callee.a, scope);
    if (self.is_undefined()) fail_undefined(self);
    const Callable* method = self.is(Kind::object) ? nullptr : find_method(self, callee.text);
    if (method) {  // without an intermediate bound method
      Arguments given = arguments(node.arguments, scope);
      if (caller) given.named.emplace_back(Value::text("caller"), *caller);
      return invoke(*this, *method, self, std::move(given));
    }
    function = attribute_of(*this, self, callee.text);
  } else {
    function = evaluate(callee, scope);
  }
  Arguments given = arguments(node.arguments, scope);
  if (caller) given.named.emplace_back(Value::text("caller"), *caller);
  return jinja::call(*this, function, std::move(given));
}

// head: the value at the start of a filter block's or set block's chain.
Value Interpreter::filter(const Expression& node, const ScopePtr& scope, const Value* head) {
  const Level level(*this, node.line);
  const Value value = !node.a                                          ? *head
                      : head && node.a->kind == ExpressionKind::filter ? filter(*node.a, scope, head)
                                                                       : evaluate(*node.a, scope);
  if (!node.filter) fail_text(no_filter(node.text));
  return invoke(*this, *node.filter, value, arguments(node.arguments, scope));
}

bool Interpreter::test(const Expression& node, const ScopePtr& scope) {
  const Value value = evaluate(*node.a, scope);
  if (!node.test) fail("No test named '{}'.", node.text);
  return node.test(*this, value, arguments(node.arguments, scope));
}

}  // namespace trl::text::jinja
