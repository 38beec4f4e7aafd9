// One level of the interpreter's recursion: counts a step and the depth, and names the line for errors.
#pragma once
#include "text/chat_template/interpreter.h"

namespace trl::text::jinja {

// Sets escaping as given while this lives.
class Escaping {
 public:
  Escaping(Run& run, bool on) : run_(run), before_(run.autoescape()) { run.set_autoescape(on); }
  ~Escaping() { run_.set_autoescape(before_); }
  Escaping(const Escaping&) = delete;
  Escaping& operator=(const Escaping&) = delete;

 private:
  Run& run_;
  bool before_;
};

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

}  // namespace trl::text::jinja
