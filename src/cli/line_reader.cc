#include "cli/line_reader.h"

#include <histedit.h>
#include <unistd.h>

#include <clocale>
#include <cstdio>
#include <iostream>

#include "cli/handles.h"

namespace trl::cli {

struct LineReader::Editor {
  explicit Editor(const char* text) : prompt(text) {
    std::setlocale(LC_CTYPE, "");  // so that libedit knows which bytes make a character
    line = el_init("trl", stdin, stdout, stderr);
    past = history_init();
    if (line == nullptr || past == nullptr) throw Failure(kFailed, "the terminal cannot be read");
    HistEvent event{};
    history(past, &event, H_SETSIZE, 1000);
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, &Editor::shown);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_HIST, history, past);
    // Makes Ctrl-C a key here: after a signal libedit would continue to read.
    el_set(line, EL_SETTY, "-d", "-isig", nullptr);
    el_set(line, EL_ADDFN, "trl-drop", "Drop the line", &Editor::drop);
    el_set(line, EL_BIND, "^C", "trl-drop", nullptr);
    // A Ctrl-D that was pressed before a prompt arrives as this key, which libedit may have bound to
    // quoted-insert.
    el_set(line, EL_BIND, "^@", "em-set-mark", nullptr);
    el_source(line, nullptr);  // ~/.editrc
  }
  ~Editor() {
    if (past != nullptr) history_end(past);
    if (line != nullptr) el_end(line);
    std::setlocale(LC_CTYPE, "C");
  }
  Editor(const Editor&) = delete;
  Editor& operator=(const Editor&) = delete;
  static const char* shown(EditLine* line) {
    Editor* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    return self->prompt;
  }
  static unsigned char drop(EditLine* line, int) {
    Editor* self = nullptr;
    el_get(line, EL_CLIENTDATA, &self);
    self->dropped = true;
    return CC_EOF;
  }

  const char* prompt;
  bool dropped = false;  // the line being typed was dropped
  EditLine* line = nullptr;
  History* past = nullptr;
};

LineReader::LineReader(const char* prompt) {
  if (isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0) editor_ = std::make_unique<Editor>(prompt);
}

LineReader::~LineReader() = default;

LineReader::End LineReader::read(std::string& line) {
  if (editor_ == nullptr) return std::getline(std::cin, line) ? End::line : End::input;
  int size = 0;
  editor_->dropped = false;
  // Takes the keys before the prompt is shown: libedit shows it first, and the terminal would still act on
  // Ctrl-C and Ctrl-D.
  el_set(editor_->line, EL_PREP_TERM, 1);
  const char* const typed = el_gets(editor_->line, &size);
  if (editor_->dropped) {
    el_reset(editor_->line);
    return End::dropped;
  }
  if (typed == nullptr || size <= 0) return End::input;
  line.assign(typed, static_cast<size_t>(size));
  while (!line.empty() && (line.back() == '\n' || line.back() == '\r')) line.pop_back();
  HistEvent event{};
  if (!line.empty()) history(editor_->past, &event, H_ENTER, line.c_str());
  return End::line;
}

}  // namespace trl::cli
