// Walks the parsed template. Scopes follow Jinja: for, macro, call, with, filter, set blocks and generation
// have their own, if has none, and a set never changes a scope outside its own.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/chat_template/ast.h"
#include "text/chat_template/run.h"

namespace trl::text::jinja {

class Scope;
using ScopePtr = std::shared_ptr<Scope>;

class Scope {
 public:
  explicit Scope(ScopePtr parent = nullptr) : parent_(std::move(parent)) {}
  const Value* find(int symbol) const;
  void set(int symbol, Value value);

 private:
  ScopePtr parent_;
  std::vector<std::pair<int, Value>> entries_;
};

class Loop;

class Interpreter final : public Run {
 public:
  Interpreter(const Program& program, int64_t now);
  void define(const std::string& name, Value value);  // a variable of the context
  std::string render();
  const std::vector<std::pair<size_t, size_t>>& generation() const { return generation_; }
  const ByteRanges& given() const { return output_given_; }  // the parts of the output that are given

  Value call_macro(const MacroDefinition& macro, const ScopePtr& scope, Arguments arguments);
  Value repeat_loop(const Statement& loop, const ScopePtr& scope, const Value& items, int64_t depth);

 private:
  enum class Flow : uint8_t { next, break_loop, continue_loop };
  struct Level;

  Flow execute(const Body& body, const ScopePtr& scope, Writer& out);
  Flow execute(const Statement& statement, const ScopePtr& scope, Writer& out);
  Flow conditional(const Statement& statement, const ScopePtr& scope, Writer& out);
  Flow loop(const Statement& statement, const ScopePtr& scope, Writer& out, const Value& items,
            int64_t depth);
  Flow set_block(const Statement& statement, const ScopePtr& scope);
  Flow filter_block(const Statement& statement, const ScopePtr& scope, Writer& out);
  Flow with_block(const Statement& statement, const ScopePtr& scope, Writer& out);
  void call_block(const Statement& statement, const ScopePtr& scope, Writer& out);
  void generation_block(const Statement& statement, const ScopePtr& scope, Writer& out);
  void assign(const Expression& target, Value value, const ScopePtr& scope);

  Value evaluate(const Expression& node, const ScopePtr& scope);
  Value name(const Expression& node, const ScopePtr& scope);
  Value dict(const Expression& node, const ScopePtr& scope);
  Values evaluate_all(const std::vector<ExpressionPtr>& nodes, const ScopePtr& scope);
  Value concatenation(const Expression& node, const ScopePtr& scope);
  Value comparison(const Expression& node, const ScopePtr& scope);
  Value conditional(const Expression& node, const ScopePtr& scope);
  Value slice(const Expression& node, const ScopePtr& scope);
  Value call(const Expression& node, const ScopePtr& scope, Value* caller);
  Value filter(const Expression& node, const ScopePtr& scope, const Value* head);
  bool test(const Expression& node, const ScopePtr& scope);
  Arguments arguments(const CallArguments& nodes, const ScopePtr& scope);

  const Program& program_;
  ScopePtr context_;  // variables given
  Writer* output_ = nullptr;
  std::vector<std::pair<size_t, size_t>> generation_;
  ByteRanges output_given_;
  int depth_ = 0;
};

// One level of the interpreter's recursion: counts a step and the depth, and names the line for errors.
struct Interpreter::Level {
  Level(Interpreter& interpreter, int line) : interpreter_(interpreter), line_(interpreter.line()) {
    interpreter.set_line(line);
    interpreter.spend(1);
    if (interpreter.depth_ >= kMaxDepth) interpreter.fail("a recursion of more than {} levels", kMaxDepth);
    ++interpreter.depth_;
  }
  ~Level() {
    --interpreter_.depth_;
    interpreter_.set_line(line_);
  }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Interpreter& interpreter_;
  int line_;
};

// The objects that templates call or read fields of: functions, namespaces, macros, the loop variable.
class Function final : public Object {
 public:
  using Body = std::function<Value(Run&, Arguments)>;
  explicit Function(Body body) : body_(std::move(body)) {}
  std::string type_name() const override { return "function"; }
  bool callable() const override { return true; }
  Value call(Run& run, Arguments arguments) override { return body_(run, std::move(arguments)); }

 private:
  Body body_;
};

class Namespace final : public Object {
 public:
  std::string type_name() const override { return "Namespace"; }
  Value attribute(Run& run, std::string_view name) override;
  void set(Run& run, const std::string& name, Value value);  // refuses names that begin with an underscore

 private:
  std::vector<std::pair<std::string, Value>> fields_;
};

class Macro final : public Object {
 public:
  Macro(Interpreter& interpreter, const MacroDefinition& definition, ScopePtr scope)
      : interpreter_(interpreter), definition_(definition), scope_(std::move(scope)) {}
  std::string type_name() const override { return "Macro"; }
  std::string describe() const override { return "<Macro '" + definition_.name + "'>"; }
  bool callable() const override { return true; }
  Value call(Run&, Arguments arguments) override {
    return interpreter_.call_macro(definition_, scope_, std::move(arguments));
  }
  Value attribute(Run& run, std::string_view name) override;

 private:
  Interpreter& interpreter_;
  const MacroDefinition& definition_;
  ScopePtr scope_;
};

// Takes items one by one, as Jinja's LoopContext does: the loop's condition is asked no earlier than needed.
class Loop final : public Object {
 public:
  using Accept = std::function<bool(const Value&)>;
  using Repeat = std::function<Value(const Value& items, int64_t depth)>;
  Loop(Values items, Accept accept, Repeat repeat, int64_t depth)
      : items_(std::move(items)), accept_(std::move(accept)), repeat_(std::move(repeat)), depth0_(depth) {}
  std::string type_name() const override { return "LoopContext"; }
  std::string describe() const override {
    return fmt::format("<LoopContext {}/{}>", index0_ + 1, items_.size());
  }
  bool callable() const override { return true; }
  Value call(Run& run, Arguments arguments) override;
  Value attribute(Run& run, std::string_view name) override;

  bool advance();
  const Value& current() const { return *current_; }
  void close();  // the loop is over: its condition must not be asked any more

 private:
  std::optional<Value> pull();
  const Value* peek();
  int64_t length();
  Value cycle(Run& run, const Arguments& arguments) const;
  Value changed(Run& run, Arguments arguments);

  Values items_;
  size_t at_ = 0;
  Accept accept_;
  Repeat repeat_;
  int64_t depth0_;
  int64_t index0_ = -1;
  std::optional<int64_t> length_;
  std::deque<Value> ahead_;
  std::optional<Value> current_, before_;
  std::optional<Values> last_changed_;
};

// Returns one of Jinja's and Hugging Face's global functions; undefined: none has this name.
Value global_function(Run& run, std::string_view name);

}  // namespace trl::text::jinja
