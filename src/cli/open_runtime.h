// What commands open first.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "cli/handles.h"

namespace trl::cli {

// From here on stderr has what log_level and quiet let through.
void set_log_level(const Config& config);
void warn_once(std::string_view text);  // each warning of a process is written once
// A runtime whose log lines go to stderr, those that log_level and quiet let through, and on a terminal its
// progress.
void open_runtime(const Config& config, Runtime& runtime);
// Keys that say which model a command generates with, and how it is opened.
std::vector<std::string> model_keys();
// Throws Failure(kUsage) where model_name_or_path, whose tokenizer is used, is missing.
void need_tokenizer(const Config& config);
void open_tokenizer(const Config& config, const Runtime& runtime, Tokenizer& tokenizer);
// The rows that the configuration names, and those to evaluate on.
void open_rows(const Config& config, const Runtime& runtime, Dataset& train, Dataset& evaluation);

}  // namespace trl::cli
