// The screens of --help, by command, and the lines that several of them have.
#pragma once
#include <map>
#include <string>

#include "cli/arguments.h"

namespace trl::cli {

inline const ScreenLine kModel{"model_name_or_path", "PATH",
                               "the model: a directory, a GGUF file or a name of the hub"};
inline const ScreenLine kTokenizer{"model_name_or_path", "PATH", "the model, for its tokenizer"};
inline const ScreenLine kRows{"dataset_name", "PATH", "the rows: a file, folder, glob or name of the hub"};
inline const ScreenLine kColumns{"dataset_columns", "MAP", "renames columns: '{question: prompt}'"};
inline const ScreenLine kQuiet{"quiet", "", "only warnings and errors"};
inline const ScreenLine kConfig{"config", "FILE", "a YAML or JSON file with these keys"};
inline const ScreenLine kLength{"max_length", "N", "tokens of a row that are kept"};

using Screens = std::map<std::string, Screen>;  // by the command's name

void add_run_screens(Screens& screens);    // the trainers, validate, estimate
void add_model_screens(Screens& screens);  // generate, chat, vllm-serve, eval, convert
void add_row_screens(Screens& screens);    // rows, profile, tokenize, template
void add_other_screens(Screens& screens);  // of commands that open neither a model nor rows

}  // namespace trl::cli
