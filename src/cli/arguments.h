// Command lines into a configuration. Every key of the option table is a flag, spelled --a_b or --a-b, as TRL
// has it: --flag, --flag false, --no_flag for booleans, several words for lists, a YAML or JSON text for
// maps.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/handles.h"

namespace trl::cli {

// The parts that a command opens of the models in its configuration: an adapter with its model, or only the
// files.
enum class Opens : uint8_t { models, files, tokenizers };

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
  std::vector<std::pair<std::string, std::string>> defaults{};  // of keys, in place of the library's
};

// Returns the trainer that --method names, whose keys are flags then; without it, the default one.
std::string trainer_of(const Words& words);

// Sets the values of the words in config: first the file of --config, then every flag. Sections: the groups
// of options that are flags here; a key "generate.name" is --name for the command generate. True: --help was
// asked and printed, and the command is done.
bool parse(const CommandLine& line, const Words& words, Config& config);

// Returns the command line that a command passes to parse. The command runs up to that call and ends there.
CommandLine outline_of(const Command& command);

// Describes a run before it is made: its configuration and the origin of each value, its rows, steps, memory,
// time and disk. Nothing is written. Ends as the run would until its first step: normally, or with the
// Failure that it would have. all: show every configuration key, not only those that are set or matter.
void describe_run(const CommandLine& line, const Config& config, bool all);

// Replaces names of the hub in model_name_or_path, dataset_name and the like by paths of the Hugging Face
// cache, into which missing files are downloaded. Local paths stay. hub: the value of --hub, or empty. Throws
// hub::HubError.
void resolve_names(Config& config, const std::string& hub, Opens opens);

// Explains words of a command line that no flag took: the flag that a person meant, as far as it can be told.
struct LeftWords {
  const CommandLine& line;
  Words words;                     // in order
  std::vector<std::string> flags;  // all that the command has, without dashes
  std::vector<std::string> given;  // those that were given
};

// Reports each flag that the command does not have as its own error, with the flag that was meant; words
// without a flag are one error, which says what to write. Throws Failure.
[[noreturn]] void refuse(const LeftWords& left);

// Throws Failure for the first word that is a flag, other than those in flags; for commands that take words.
void refuse_flags(const char* command, const Words& words, const std::vector<std::string>& flags = {});

// The help of a command: one screen with the required and common flags, and every key by topic.
std::string short_help(const CommandLine& line, int width);
std::string full_help(const CommandLine& line, int width);  // --help-all
std::string usage(const CommandLine& line);                 // "trl sft [--KEY VALUE ...]"

// The contents of the one screen of a command's --help.
struct ScreenLine {
  const char* flag;   // without dashes: a key's, or the command's own
  const char* value;  // "DIR"; "" for a switch
  std::string text;   // a few words
};
struct Screen {
  std::string words;  // after the command's name, instead of its flags; "": it takes flags
  std::vector<ScreenLine> required, common;
  std::vector<std::string> examples;
};

const Screen& screen_of(const std::string& command);

}  // namespace trl::cli
