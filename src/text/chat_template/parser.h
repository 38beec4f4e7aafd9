// Template text -> tokens, with Jinja's white-space rules under trim_blocks and lstrip_blocks; tokens -> the
// parsed template.
#pragma once
#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_template/ast.h"

namespace trl::text::jinja {

enum class TokenType : uint8_t {
  data,
  variable_begin,
  variable_end,
  block_begin,
  block_end,
  name,
  text,
  integer,
  real,
  symbol,
  end
};

struct Token {
  TokenType type;
  int line;
  std::string value;  // data, name, decoded string, number's digits, or the operator
};

// Throws Error(format): "chat template, line 3: ...".
std::vector<Token> tokenize(std::string_view source);
std::string describe(const Token& token);
[[noreturn]] void fail_at(int line, std::string_view message);

// Parses the tokens by recursive descent: expressions in parser_expressions.cc, statements in
// parser_statements.cc.
inline constexpr int kMaxParseDepth = 100;  // nested brackets and blocks
inline constexpr int kMaxExpressionHeight = 300;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokenize(source)) {}
  Program run();

 private:
  // tokens
  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& next() { return tokens_[at_ < tokens_.size() - 1 ? at_++ : at_]; }
  int line() const { return peek().line; }
  bool is_symbol(std::string_view symbol, size_t ahead = 0) const {
    return peek(ahead).type == TokenType::symbol && peek(ahead).value == symbol;
  }
  bool is_name(std::string_view name, size_t ahead = 0) const {
    return peek(ahead).type == TokenType::name && peek(ahead).value == name;
  }
  bool skip_symbol(std::string_view symbol);
  bool skip_name(std::string_view name);
  void expect_symbol(std::string_view symbol);
  void expect_name(std::string_view name);
  void expect(TokenType type, std::string_view what);
  std::string take_name(std::string_view what);
  [[noreturn]] void fail_expected(std::string_view what);
  int symbol_of(const std::string& name);

  // Counts one level of recursion while it lives.
  struct Nesting {
    explicit Nesting(Parser& parser);
    ~Nesting() { --parser_.depth_; }
    Parser& parser_;
  };

  // expressions
  ExpressionPtr make(ExpressionKind kind, int line) const;
  ExpressionPtr finish(ExpressionPtr node) const;  // computes the height, refuses too much of it
  ExpressionPtr binary(ExpressionKind kind, int line, ExpressionPtr a, ExpressionPtr b) const;
  ExpressionPtr expression();  // with inline if
  ExpressionPtr disjunction();
  ExpressionPtr conjunction();
  ExpressionPtr negation();
  ExpressionPtr comparison();
  ExpressionPtr sum();
  ExpressionPtr concatenation();
  ExpressionPtr product();
  ExpressionPtr power();
  ExpressionPtr unary(bool with_filter);
  ExpressionPtr primary();
  ExpressionPtr name_or_constant();
  ExpressionPtr number();
  ExpressionPtr list_or_dict();
  ExpressionPtr postfix(ExpressionPtr node);
  ExpressionPtr subscript(ExpressionPtr node);
  ExpressionPtr filters_and_tests(ExpressionPtr node);
  ExpressionPtr filter_chain(ExpressionPtr node);
  ExpressionPtr filter(ExpressionPtr node);
  ExpressionPtr test(ExpressionPtr node);
  ExpressionPtr call(ExpressionPtr node);
  CallArguments call_arguments();
  enum class TupleEnd : uint8_t { tag, parenthesis, in, recursive };
  ExpressionPtr tuple(TupleEnd end, bool with_conditional);
  bool at_tuple_end(TupleEnd end) const;
  std::string dotted_name();

  // targets of assignments
  ExpressionPtr target(bool with_namespace, bool until_in);
  ExpressionPtr single_target(bool with_namespace);
  int target_symbol(const std::string& name, int line);

  // statements
  Body statements(std::initializer_list<std::string_view> ends);  // up to a tag of these names, which stays
  Body block(std::initializer_list<std::string_view> ends);       // from the end of the opening tag
  void close_block();                                             // takes the end tag's name
  void statement(Body& body);
  std::unique_ptr<Statement> make_statement(StatementKind kind);
  void parse_if(Body& body);
  void parse_for(Body& body);
  void parse_set(Body& body);
  void parse_macro(Body& body);
  void parse_call(Body& body);
  void parse_filter(Body& body);
  void parse_with(Body& body);
  void parse_print(Body& body);
  void parse_generation(Body& body);
  void parse_jump(Body& body);
  void signature(MacroDefinition& macro);
  void macro_body(MacroDefinition& macro, std::string_view end);

  struct Unknown {
    int line;
    std::string message;
  };

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int depth_ = 0;
  Program program_;
  std::vector<Statement*> loops_;         // enclosing for loops
  int breakable_ = 0;                     // for loops that break and continue may leave
  std::vector<MacroDefinition*> macros_;  // enclosing macros and call blocks
  std::vector<std::string> open_;         // names of the blocks that are open
  std::vector<Unknown> unknown_;          // filters and tests that do not exist, outside conditions
};

}  // namespace trl::text::jinja
