// Walks the parsed template. Scopes follow Jinja: for, macro, call, with, filter, set blocks and generation
// have their own, if has none, and a set never changes a scope outside its own.
#pragma once
#include <memory>
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

  // escaped: autoescape is on at the macro's definition
  Value call_macro(const MacroDefinition& macro, const ScopePtr& scope, bool escaped, Arguments arguments);
  Value render_block(const Statement& block);  // self.name()
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
  Flow autoescape_block(const Statement& statement, const ScopePtr& scope, Writer& out);
  void print(Writer& out, const Value& value);  // escaped if autoescape is on
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
  ScopePtr context_, top_;  // variables given, and those set outside all scopes
  Writer* output_ = nullptr;
  std::vector<std::pair<size_t, size_t>> generation_;
  int depth_ = 0;
};

}  // namespace trl::text::jinja
