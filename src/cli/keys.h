// Keys of the option table as a command shows and accepts them.
#pragma once
#include <trl.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/text/nearest.h"
#include "cli/arguments.h"

namespace trl::cli {

bool contains(std::string_view list, std::string_view name);  // in a list with commas
inline bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Returns the keys that are flags of a command, in the order in which they are shown: by topic.
std::vector<const trl_option*> keys_of(const CommandLine& line);
const trl_option* find_key(std::string_view name);  // also by an older name; null: unknown
bool has_key(std::string_view trainer, std::string_view name);

// Returns the name of a key as a flag, without dashes: "generate.a_b" is "a_b" for the commands generate and
// chat.
std::string flag_name(std::string name, const std::string& command);
// Describes the file of --config: which keys it may have, and by which names.
std::string config_help(const CommandLine& line);
std::string topic(const trl_option* option);                // "Batches and length"
std::string with_commas(std::string text, char separator);  // "a|b" as "a, b"

// Return the values for a trainer; trainer "": the table's.
std::string default_of(const trl_option* option, const std::string& trainer);
std::string default_of(const trl_option* option, const CommandLine& line);  // the command's own first
std::string accepted_of(const trl_option* option, const std::string& trainer);
std::string doc_of(const trl_option* option, const std::string& trainer);
int32_t type_of(const trl_option* option, const std::string& trainer);  // some are a list to one trainer
std::string type_name(int32_t type);                                    // "integer"
// Returns the words of a choice, a list or a boolean, without those that this build refuses.
std::vector<std::string> words_of(const trl_option* option, const std::string& trainer);
std::vector<std::string> aliases_of(const trl_option* option);

// Returns how this build treats a key: "" if it works, "refused", "refused in part" or "ignored".
std::string mark(const trl_option* option);
// Returns whether the value, or a part of it, is accepted with a warning and has no effect.
bool is_ignored(const trl_option* option, const std::string& trainer, const std::string& value);
// Returns the mark as a sentence: the accepted values, and why others are not; "" if the key works.
std::string state(const trl_option* option);

// Returns the nearest of names, the one that a misspelt word was meant to be: at most two letters of the
// word, and fewer than half of them, are missing, added, different or swapped. Empty if no name is so near.
inline std::string nearest_flag(const std::string& word, const std::vector<std::string>& names) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return std::string(base::nearest(word, candidates, std::min<size_t>(3, (word.size() + 1) / 2)));
}

}  // namespace trl::cli
