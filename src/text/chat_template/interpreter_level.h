// One level of the interpreter's recursion: counts a step and the depth, and names the line for errors.
#pragma once
#include "text/chat_template/interpreter.h"

namespace trl::text::jinja {

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
