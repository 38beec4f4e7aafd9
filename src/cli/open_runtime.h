// Opens the objects that commands need first.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/handles.h"

namespace trl::cli {

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

}  // namespace trl::cli
