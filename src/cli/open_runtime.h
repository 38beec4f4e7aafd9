// Opens the objects that commands need first, and lets signals stop what they do.
#pragma once
#include <trl.h>

#include <string>
#include <string_view>
#include <vector>

#include "cli/handles.h"

namespace trl::cli {

// Ctrl-C, SIGTERM and SIGHUP: the first signal asks the trainer, or a call that polls, to stop at its next
// safe point; a second one, unless it is SIGHUP, quits at once. If neither is running there is nothing to
// clean up, and the first signal quits.
class Interrupt {
 public:
  // Installs handlers; one object at a time. last_words: printed if the first signal quits.
  explicit Interrupt(const char* last_words);
  ~Interrupt();  // restores the earlier handlers
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  void watch(trl_trainer* trainer);  // must outlive this object
  // stop: safe in a signal handler; null: nothing any more.
  void watch(void (*stop)(void* object), void* object);
  void watch_calls(trl_runtime* runtime);  // cancels calls that make something for it
  static int signal_number();              // the first signal received, or 0
};

// Limits stderr, from now on, to the messages that log_level and quiet allow.
void set_log_level(const Config& config);
void warn_once(std::string_view text);  // each warning of a process is written once
// Opens a runtime that writes to stderr the log lines that log_level and quiet allow, and on a terminal its
// progress.
void open_runtime(const Config& config, Runtime& runtime);
// Returns the keys that name the model that a command generates with, and how it is opened.
std::vector<std::string> model_keys();
// Throws Failure(kUsage) if model_name_or_path, whose tokenizer is used, is missing.
void need_tokenizer(const Config& config);
void open_tokenizer(const Config& config, const Runtime& runtime, Tokenizer& tokenizer);
// Opens the rows that the configuration names, and those to evaluate on.
void open_rows(const Config& config, const Runtime& runtime, Dataset& train, Dataset& evaluation);

// A runtime, with the tokenizer and the rows that the configuration names.
struct OpenRows {
  // interrupt: watches the calls that make something for the runtime; null: none does.
  explicit OpenRows(const Config& config, Interrupt* interrupt = nullptr);

  Runtime runtime;
  Tokenizer tokenizer;
  Dataset train, evaluation;
};

}  // namespace trl::cli
