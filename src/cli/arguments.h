// Command lines into a configuration. Every key of the option table is a flag, spelled --a_b or --a-b, as TRL
// has it:
// --flag, --flag false, --no_flag for booleans, several words for lists, a YAML or JSON text for maps.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/names.h"

namespace trl::cli {

// Sets the values of the words in config: first the file of --config, then every flag. Sections: the groups
// of options that are flags here; a key "generate.name" is --name for the command generate. True: --help was
// asked and printed, and the command is done.
struct TextFlag {
  const char* name;
  const char* help;
  std::optional<std::string>* value;
};
struct ListFlag {  // adds words each time it is given
  const char* name;
  const char* help;
  std::vector<std::string>* values;
  bool* given = nullptr;  // it may also be given without a word
};
struct Switch {  // a flag without a value
  const char* name;
  const char* help;
  bool* value;
};
struct CommandLine {
  std::string name;                   // of the command
  std::string summary;                // one line
  std::string trainer;                // options that this trainer has; empty: only by section
  std::vector<std::string> sections;  // further sections
  std::vector<std::string> keys;      // further single keys
  std::vector<TextFlag> texts;        // the command's own flags, not keys
  std::vector<Switch> switches{};
  std::vector<ListFlag> lists{};
  bool takes_flags = true;
  Opens opens = Opens::models;  // the parts it opens of the named models
  bool takes_config = true;     // --config
  std::string* word = nullptr;  // receives a word without a flag; null: not accepted
  std::string* hub = nullptr;   // receives the value of --hub
};
// Returns the trainer that --method names, whose keys are flags then; without it, the default one.
std::string trainer_of(const Words& words);

bool parse(const CommandLine& line, const Words& words, Config& config);

// Returns the command line that a command passes to parse. The command runs up to that call and ends there.
CommandLine outline_of(const Command& command);

}  // namespace trl::cli
