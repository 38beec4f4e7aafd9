// Tokens, assignment targets and statements.
#include <algorithm>

#include "text/chat_template/parser.h"

namespace trl::text::jinja {

Program parse(std::string_view source) { return Parser(source).run(); }

Program Parser::run() {
  program_.loop = symbol_of("loop");
  program_.caller = symbol_of("caller");
  program_.varargs = symbol_of("varargs");
  program_.kwargs = symbol_of("kwargs");
  program_.body = statements({});
  if (!unknown_.empty()) fail_at(unknown_.front().line, unknown_.front().message);
  return std::move(program_);
}

Parser::Nesting::Nesting(Parser& parser) : parser_(parser) {
  if (parser_.depth_ >= kMaxParseDepth)
    fail_at(parser_.line(),
            fmt::format("expressions or blocks nested more than {} levels deep", kMaxParseDepth));
  ++parser_.depth_;
}

bool Parser::skip_symbol(std::string_view symbol) {
  const bool found = is_symbol(symbol);
  if (found) next();
  return found;
}

bool Parser::skip_name(std::string_view name) {
  const bool found = is_name(name);
  if (found) next();
  return found;
}

void Parser::fail_expected(std::string_view what) {
  fail_at(line(), fmt::format("expected {}, got '{}'", what, describe(peek())));
}

void Parser::expect_symbol(std::string_view symbol) {
  if (!skip_symbol(symbol)) fail_expected(fmt::format("'{}'", symbol));
}

void Parser::expect_name(std::string_view name) {
  if (!skip_name(name)) fail_expected(fmt::format("'{}'", name));
}

void Parser::expect(TokenType type, std::string_view what) {
  if (peek().type != type) fail_expected(fmt::format("'{}'", what));
  next();
}

std::string Parser::take_name(std::string_view what) {
  if (peek().type != TokenType::name) fail_expected(what);
  return next().value;
}

int Parser::symbol_of(const std::string& name) {
  const auto [it, added] = program_.symbols.emplace(name, static_cast<int>(program_.names.size()));
  if (added) program_.names.push_back(name);
  return it->second;
}

int Parser::target_symbol(const std::string& name, int line) {
  constexpr std::string_view kConstants[] = {"true", "false", "none", "True", "False", "None"};
  if (std::find(std::begin(kConstants), std::end(kConstants), name) != std::end(kConstants))
    fail_at(line, "can't assign to '" + name + "'");
  if (name == "loop" && !loops_.empty())
    fail_at(line, "can't assign to the special name 'loop' inside a for loop");
  return symbol_of(name);
}

ExpressionPtr Parser::single_target(bool with_namespace) {
  const Nesting nesting(*this);
  if (skip_symbol("(")) {
    ExpressionPtr node = target(with_namespace, false);
    expect_symbol(")");
    return node;
  }
  const Token token = peek();
  if (token.type != TokenType::name) fail_expected("a name to assign to");
  next();
  auto node = make(ExpressionKind::name, token.line);
  if (with_namespace && skip_symbol(".")) {
    node->kind = ExpressionKind::namespace_field;
    node->symbol = symbol_of(token.value);
    node->text = take_name("a name after '.'");
  } else {
    node->symbol = target_symbol(token.value, token.line);
  }
  return node;
}

ExpressionPtr Parser::target(bool with_namespace, bool until_in) {
  auto node = make(ExpressionKind::tuple, line());
  bool comma = false;
  const auto ended = [&] { return at_tuple_end(until_in ? TupleEnd::in : TupleEnd::tag) || is_symbol("="); };
  do {
    if (comma && ended()) break;
    node->items.push_back(single_target(with_namespace));
  } while (skip_symbol(",") && (comma = true));
  if (!comma) return std::move(node->items.front());
  return finish(std::move(node));
}

Body Parser::statements(std::initializer_list<std::string_view> ends) {
  const Nesting nesting(*this);
  Body body;
  while (peek().type != TokenType::end) {
    const Token& token = next();
    if (token.type == TokenType::data) {
      auto text = std::make_unique<Statement>();
      text->kind = StatementKind::text;
      text->line = token.line;
      text->text = token.value;
      body.push_back(std::move(text));
    } else if (token.type == TokenType::variable_begin) {
      auto print = std::make_unique<Statement>();
      print->kind = StatementKind::print;
      print->line = token.line;
      print->expressions.push_back(tuple(TupleEnd::tag, true));
      expect(TokenType::variable_end, "}}");
      body.push_back(std::move(print));
    } else {  // block_begin
      if (peek().type == TokenType::name && std::ranges::find(ends, peek().value) != ends.end()) return body;
      statement(body);
      expect(TokenType::block_end, "%}");
    }
  }
  if (ends.size() > 0) {
    const auto closing = std::ranges::find_if(ends, [](auto name) { return name.starts_with("end"); });
    fail_at(line(),
            fmt::format("unexpected end of template inside '{}': '{}' is missing", open_.back(), *closing));
  }
  return body;
}

Body Parser::block(std::initializer_list<std::string_view> ends) {
  skip_symbol(":");
  expect(TokenType::block_end, "%}");
  return statements(ends);
}

void Parser::close_block() {
  next();
  open_.pop_back();
}

std::unique_ptr<Statement> Parser::make_statement(StatementKind kind) {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = line();
  open_.push_back(next().value);
  return statement;
}

void Parser::statement(Body& body) {
  if (peek().type != TokenType::name) fail_expected("a tag name");
  const std::string& tag = peek().value;
  struct Entry {
    std::string_view tag;
    void (Parser::*parse)(Body&);
  };
  constexpr Entry kTags[] = {{"if", &Parser::parse_if},
                             {"for", &Parser::parse_for},
                             {"set", &Parser::parse_set},
                             {"macro", &Parser::parse_macro},
                             {"call", &Parser::parse_call},
                             {"filter", &Parser::parse_filter},
                             {"with", &Parser::parse_with},
                             {"print", &Parser::parse_print},
                             {"break", &Parser::parse_jump},
                             {"continue", &Parser::parse_jump},
                             {"generation", &Parser::parse_generation}};
  for (const Entry& entry : kTags)
    if (entry.tag == tag) return (this->*entry.parse)(body);
  constexpr std::string_view kOther[] = {"include", "import", "from", "extends"};
  if (std::find(std::begin(kOther), std::end(kOther), tag) != std::end(kOther))
    fail_at(line(),
            fmt::format("'{}' is not supported: a chat template cannot refer to other templates", tag));
  if (tag == "block" || tag == "autoescape")
    fail_at(line(), fmt::format("'{}' is not supported: no published chat template uses it", tag));
  const std::string inside =
      open_.empty() ? "" : fmt::format("; the innermost open block is '{}'", open_.back());
  fail_at(line(), fmt::format("unknown tag '{}'{}", tag, inside));
}

void Parser::parse_if(Body& body) {
  auto node = make_statement(StatementKind::conditional);
  const size_t known = unknown_.size();
  while (true) {
    ExpressionPtr test = tuple(TupleEnd::tag, false);
    node->branches.emplace_back(std::move(test), block({"elif", "else", "endif"}));
    if (!skip_name("elif")) break;
  }
  if (skip_name("else")) node->otherwise = block({"endif"});
  unknown_.resize(known, {});  // an unknown filter in a branch is only an error when it is reached
  close_block();
  body.push_back(std::move(node));
}

void Parser::parse_for(Body& body) {
  auto node = make_statement(StatementKind::loop);
  loops_.push_back(node.get());
  node->target = target(false, true);
  loops_.pop_back();
  expect_name("in");
  node->expression = tuple(TupleEnd::recursive, false);
  if (skip_name("if")) node->condition = expression();
  node->recursive = skip_name("recursive");
  loops_.push_back(node.get());
  ++breakable_;
  node->body = block({"endfor", "else"});
  --breakable_;
  if (skip_name("else")) node->otherwise = block({"endfor"});
  loops_.pop_back();
  close_block();
  body.push_back(std::move(node));
}

void Parser::parse_set(Body& body) {
  auto node = make_statement(StatementKind::set);
  node->target = target(true, false);
  if (skip_symbol("=")) {
    node->expression = tuple(TupleEnd::tag, true);
    open_.pop_back();
  } else {
    node->kind = StatementKind::set_block;
    node->expression = filter_chain(nullptr);
    node->body = block({"endset"});
    close_block();
  }
  body.push_back(std::move(node));
}

void Parser::signature(MacroDefinition& macro) {
  expect_symbol("(");
  while (!is_symbol(")")) {
    if (!macro.parameters.empty()) expect_symbol(",");
    const int begin = line();
    const std::string name = take_name("a parameter's name");
    macro.parameters.emplace_back(target_symbol(name, begin), name);
    if (skip_symbol("="))
      macro.defaults.push_back(expression());
    else if (!macro.defaults.empty())
      fail_at(begin, "a parameter without a default follows one with a default");
  }
  expect_symbol(")");
}

void Parser::macro_body(MacroDefinition& macro, std::string_view end) {
  const int saved = std::exchange(breakable_, 0);
  macros_.push_back(&macro);
  macro.body = block({end});
  macros_.pop_back();
  breakable_ = saved;
  const size_t required = macro.parameters.size() - macro.defaults.size();
  for (size_t i = 0; i < required && macro.uses_caller; ++i)
    if (macro.parameters[i].second == "caller")
      fail_at(line(), "the special parameter 'caller' needs a default");
  close_block();
}

void Parser::parse_macro(Body& body) {
  auto node = make_statement(StatementKind::macro);
  node->macro = std::make_unique<MacroDefinition>();
  const int begin = line();
  node->macro->name = take_name("the macro's name");
  node->symbol = target_symbol(node->macro->name, begin);
  signature(*node->macro);
  macro_body(*node->macro, "endmacro");
  body.push_back(std::move(node));
}

void Parser::parse_call(Body& body) {
  auto node = make_statement(StatementKind::call);
  node->macro = std::make_unique<MacroDefinition>();
  node->macro->name = "caller";
  if (is_symbol("(")) signature(*node->macro);
  node->expression = expression();
  if (node->expression->kind != ExpressionKind::call) fail_at(node->line, "the call tag needs a call");
  macro_body(*node->macro, "endcall");
  body.push_back(std::move(node));
}

void Parser::parse_filter(Body& body) {
  auto node = make_statement(StatementKind::filter);
  node->expression = filter_chain(filter(nullptr));
  node->body = block({"endfilter"});
  close_block();
  body.push_back(std::move(node));
}

void Parser::parse_with(Body& body) {
  auto node = make_statement(StatementKind::with);
  while (peek().type != TokenType::block_end) {
    if (!node->targets.empty()) expect_symbol(",");
    node->targets.push_back(target(false, false));
    expect_symbol("=");
    node->expressions.push_back(expression());
  }
  node->body = block({"endwith"});
  close_block();
  body.push_back(std::move(node));
}

void Parser::parse_print(Body& body) {
  auto node = make_statement(StatementKind::print);
  while (peek().type != TokenType::block_end) {
    if (!node->expressions.empty()) expect_symbol(",");
    node->expressions.push_back(expression());
  }
  open_.pop_back();
  body.push_back(std::move(node));
}

void Parser::parse_generation(Body& body) {
  auto node = make_statement(StatementKind::generation);
  program_.has_generation = true;
  const int saved = std::exchange(breakable_, 0);
  node->body = block({"endgeneration"});
  breakable_ = saved;
  close_block();
  body.push_back(std::move(node));
}

void Parser::parse_jump(Body& body) {
  const bool leaves = is_name("break");
  auto node = make_statement(leaves ? StatementKind::break_loop : StatementKind::continue_loop);
  open_.pop_back();
  if (breakable_ == 0)
    fail_at(node->line, fmt::format("'{}' outside a for loop", leaves ? "break" : "continue"));
  body.push_back(std::move(node));
}

}  // namespace trl::text::jinja
