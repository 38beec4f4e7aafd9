// The objects that templates call or read fields of: functions, namespaces, macros, the loop variable.
#pragma once
#include <deque>
#include <functional>
#include <optional>

#include "text/chat_template/interpreter.h"

namespace trl::text::jinja {

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
  Macro(Interpreter& interpreter, const MacroDefinition& definition, ScopePtr scope, bool escaped)
      : interpreter_(interpreter), definition_(definition), scope_(std::move(scope)), escaped_(escaped) {}
  std::string type_name() const override { return "Macro"; }
  std::string describe() const override { return "<Macro '" + definition_.name + "'>"; }
  bool callable() const override { return true; }
  Value call(Run&, Arguments arguments) override {
    return interpreter_.call_macro(definition_, scope_, escaped_, std::move(arguments));
  }
  Value attribute(Run& run, std::string_view name) override;

 private:
  Interpreter& interpreter_;
  const MacroDefinition& definition_;
  ScopePtr scope_;
  bool escaped_;
};

// self: the template's blocks by name.
class Blocks final : public Object {
 public:
  Blocks(Interpreter& interpreter, const Program& program) : interpreter_(interpreter), program_(program) {}
  std::string type_name() const override { return "TemplateReference"; }
  std::string describe() const override { return "<TemplateReference None>"; }
  Value attribute(Run& run, std::string_view name) override;

 private:
  Interpreter& interpreter_;
  const Program& program_;
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
