// Execution of statements, assignments and macros.
#include <algorithm>

#include "text/chat_template/interpreter.h"
#include "text/chat_template/python.h"

namespace trl::text::jinja {

Interpreter::Interpreter(const Program& program, int64_t now)
    : Run(now), program_(program), context_(std::make_shared<Scope>()) {
  for (size_t i = 0; i < program.names.size(); ++i) {
    Value function = global_function(*this, program.names[i]);
    if (!function.is_undefined()) context_->set(static_cast<int>(i), std::move(function));
  }
}

void Interpreter::define(const std::string& name, Value value) {
  const auto found = program_.symbols.find(name);
  if (found != program_.symbols.end()) context_->set(found->second, std::move(value));
}

std::string Interpreter::render() {
  Writer out(*this);
  output_ = &out;
  execute(program_.body, std::make_shared<Scope>(context_), out);
  output_given_ = out.given();
  return out.take();
}

Interpreter::Flow Interpreter::execute(const Body& body, const ScopePtr& scope, Writer& out) {
  for (const auto& statement : body) {
    const Flow flow = execute(*statement, scope, out);
    if (flow != Flow::next) return flow;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::execute(const Statement& statement, const ScopePtr& scope, Writer& out) {
  const Level level(*this, statement.line);
  switch (statement.kind) {
    case StatementKind::text:
      out.append(statement.text);
      break;
    case StatementKind::print:
      for (const auto& node : statement.expressions) write_str(out, *this, evaluate(*node, scope));
      break;
    case StatementKind::set:
      assign(*statement.target, evaluate(*statement.expression, scope), scope);
      break;
    case StatementKind::set_block:
      return set_block(statement, scope);
    case StatementKind::conditional:
      return conditional(statement, scope, out);
    case StatementKind::loop: {
      const Value items = evaluate(*statement.expression, scope);
      if (!statement.recursive) return loop(statement, scope, out, items, 0);
      write_str(out, *this, repeat_loop(statement, scope, items, 0));
      break;
    }
    case StatementKind::macro:
      scope->set(statement.symbol, Value::object(make<Macro>(*this, *statement.macro, scope)));
      break;
    case StatementKind::call:
      call_block(statement, scope, out);
      break;
    case StatementKind::filter:
      return filter_block(statement, scope, out);
    case StatementKind::with:
      return with_block(statement, scope, out);
    case StatementKind::generation:
      generation_block(statement, scope, out);
      break;
    case StatementKind::break_loop:
      return Flow::break_loop;
    case StatementKind::continue_loop:
      return Flow::continue_loop;
  }
  return Flow::next;
}

Interpreter::Flow Interpreter::conditional(const Statement& statement, const ScopePtr& scope, Writer& out) {
  for (const auto& [test, body] : statement.branches)
    if (truth(evaluate(*test, scope))) return execute(body, scope, out);
  return execute(statement.otherwise, scope, out);
}

Value Interpreter::repeat_loop(const Statement& statement, const ScopePtr& scope, const Value& items,
                               int64_t depth) {
  const Level level(*this, statement.line);
  Writer out(*this);
  loop(statement, scope, out, items, depth);
  return out.value();
}

Interpreter::Flow Interpreter::loop(const Statement& statement, const ScopePtr& scope, Writer& out,
                                    const Value& items, int64_t depth) {
  Loop::Accept accept;
  if (statement.condition) {
    accept = [&](const Value& item) {
      const auto inner = std::make_shared<Scope>(scope);
      assign(*statement.target, item, inner);
      return truth(evaluate(*statement.condition, inner));
    };
  }
  Loop::Repeat repeat;
  if (statement.recursive) {
    repeat = [this, &statement, scope](const Value& more, int64_t level) {
      return repeat_loop(statement, scope, more, level);
    };
  }
  const bool visible = statement.uses_loop || statement.recursive;
  std::optional<Loop> local;
  Loop* state = visible ? make<Loop>(items_of(*this, items), std::move(accept), std::move(repeat), depth)
                        : &local.emplace(items_of(*this, items), std::move(accept), nullptr, depth);
  bool finished_one = false;
  while (state->advance()) {
    const auto inner = std::make_shared<Scope>(scope);
    assign(*statement.target, state->current(), inner);
    if (visible) inner->set(program_.loop, Value::object(state));
    const Flow flow = execute(statement.body, inner, out);
    if (flow == Flow::break_loop) break;
    finished_one |= flow == Flow::next;  // as in Jinja: a continue leaves the else branch due
  }
  state->close();
  if (finished_one) return Flow::next;
  return execute(statement.otherwise, std::make_shared<Scope>(scope), out);
}

Interpreter::Flow Interpreter::set_block(const Statement& statement, const ScopePtr& scope) {
  Writer out(*this);
  const auto inner = std::make_shared<Scope>(scope);
  const Flow flow = execute(statement.body, inner, out);
  if (flow != Flow::next) return flow;
  Value value = out.value();
  if (statement.expression) value = filter(*statement.expression, inner, &value);
  assign(*statement.target, std::move(value), scope);
  return Flow::next;
}

Interpreter::Flow Interpreter::filter_block(const Statement& statement, const ScopePtr& scope, Writer& out) {
  Writer body(*this);
  const auto inner = std::make_shared<Scope>(scope);
  const Flow flow = execute(statement.body, inner, body);
  if (flow != Flow::next) return flow;
  const Value text = body.value();
  write_str(out, *this, filter(*statement.expression, inner, &text));
  return Flow::next;
}

Interpreter::Flow Interpreter::with_block(const Statement& statement, const ScopePtr& scope, Writer& out) {
  const auto inner = std::make_shared<Scope>(scope);
  for (size_t i = 0; i < statement.targets.size(); ++i)
    assign(*statement.targets[i], evaluate(*statement.expressions[i], scope), inner);
  return execute(statement.body, inner, out);
}

void Interpreter::call_block(const Statement& statement, const ScopePtr& scope, Writer& out) {
  Value caller = Value::object(make<Macro>(*this, *statement.macro, scope));
  write_str(out, *this, call(*statement.expression, scope, &caller));
}

// Begins the span at the end of the finished output, as Hugging Face counts it: text that a surrounding macro
// or set block still holds back is not in it.
void Interpreter::generation_block(const Statement& statement, const ScopePtr& scope, Writer& out) {
  Writer body(*this);
  execute(statement.body, std::make_shared<Scope>(scope), body);
  generation_.emplace_back(output_->size(), output_->size() + body.size());
  out.append(body);
}

void Interpreter::assign(const Expression& target, Value value, const ScopePtr& scope) {
  if (target.kind == ExpressionKind::name) {
    scope->set(target.symbol, std::move(value));
    return;
  }
  if (target.kind == ExpressionKind::namespace_field) {
    const Value* found = scope->find(target.symbol);
    auto* space = found && found->is(Kind::object) ? dynamic_cast<Namespace*>(found->object()) : nullptr;
    if (!space) fail("cannot assign attribute on non-namespace object");
    space->set(*this, target.text, std::move(value));
    return;
  }
  Values items = items_of(*this, value);
  if (items.size() < target.items.size())
    fail("not enough values to unpack (expected {}, got {})", target.items.size(), items.size());
  if (items.size() > target.items.size())
    fail("too many values to unpack (expected {})", target.items.size());
  for (size_t i = 0; i < items.size(); ++i) assign(*target.items[i], std::move(items[i]), scope);
}

Value Interpreter::call_macro(const MacroDefinition& macro, const ScopePtr& outer, Arguments arguments) {
  const Level level(*this, line());
  const size_t count = macro.parameters.size();
  const auto scope = std::make_shared<Scope>(outer);
  std::vector<bool> given(count);
  const auto take = [&](int symbol, const std::string& name) {  // a keyword argument becomes a variable
    const auto found = std::ranges::find_if(
        arguments.named, [&](const auto& argument) { return argument.first.bytes() == name; });
    if (found == arguments.named.end()) return false;
    scope->set(symbol, std::move(found->second));
    arguments.named.erase(found);
    return true;
  };
  bool own_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const auto& [symbol, name] = macro.parameters[i];
    own_caller |= name == "caller";
    given[i] = i < arguments.positional.size() || take(symbol, name);
    if (i < arguments.positional.size()) scope->set(symbol, arguments.positional[i]);
  }
  if (macro.uses_caller && !own_caller && !take(program_.caller, "caller"))
    scope->set(program_.caller, Value::undefined("No caller defined"));
  if (macro.uses_kwargs) {
    Mapping rest;
    for (auto& [name, value] : arguments.named) set(rest, std::move(name), std::move(value));
    scope->set(program_.kwargs, mapping(std::move(rest)));
  } else if (!arguments.named.empty()) {
    fail("macro '{}' takes no keyword argument '{}'", macro.name, arguments.named.front().first.bytes());
  }
  if (macro.uses_varargs) {
    const auto taken = static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
    scope->set(program_.varargs,
               tuple(Values(arguments.positional.begin() + taken, arguments.positional.end())));
  } else if (arguments.positional.size() > count) {
    fail("macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
  const size_t first_default = count - macro.defaults.size();
  for (size_t i = 0; i < count; ++i) {
    const auto& [symbol, name] = macro.parameters[i];
    if (given[i]) continue;
    if (i >= first_default)
      scope->set(symbol, evaluate(*macro.defaults[i - first_default], scope));
    else
      scope->set(symbol, Value::undefined(fmt::format("parameter '{}' was not provided", name)));
  }
  Writer out(*this);
  execute(macro.body, scope, out);
  return out.value();
}

}  // namespace trl::text::jinja
