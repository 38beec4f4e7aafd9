#include "cli/arguments.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "cli/keys.h"

namespace trl::cli {

namespace {

bool is_flag(const std::string& word) {  // -5 is a number
  return word.size() > 1 && word[0] == '-' &&
         (word[1] == '-' || std::isalpha(static_cast<unsigned char>(word[1])) != 0);
}

std::string name_of(const std::string& flag) {
  std::string name = flag.substr(0, flag.find('='));
  name.erase(0, name.find_first_not_of('-'));
  std::ranges::replace(name, '-', '_');
  return name;
}

// Returns the flag that a word was meant to be: the nearest, else the longest one that the word begins with,
// or the only one that begins with it; empty: there is none.
std::string meant_flag(const std::string& word, const std::vector<std::string>& flags) {
  if (std::string near = nearest_flag(word, flags); !near.empty()) return near;
  std::string longest, longer;
  int begun = 0;
  for (const std::string& flag : flags) {
    if (word.starts_with(flag + "_") && flag.size() > longest.size()) longest = flag;
    if (flag.starts_with(word + "_")) longer = flag, ++begun;
  }
  return !longest.empty() || begun != 1 ? longest : longer;
}

std::string not_an_option(const CommandLine& line, const std::string& word,
                          const std::vector<std::string>& flags) {
  const std::string key = name_of(word);
  const std::string what =
      fmt::format("{}{}: not an option of trl {}", word.starts_with("--") ? "--" : "-", key, line.name);
  for (const trl_option* o : keys_of(line)) {
    const std::string_view name = trl_option_name(o);
    if (contains(trl_option_other_names(o), key) || name == key || name.ends_with("." + key))
      return fmt::format("{}; the flag for it is --{}", what, flag_name(std::string(name), line.name));
  }
  if (const trl_option* o = find_key(key)) {
    if (!line.trainer.empty() && !contains(trl_option_trainers(o), line.trainer))
      return fmt::format("{}; it is one of {}", what, trl_option_trainers(o));
    return what;
  }
  if (flags.empty()) return what + ", which has none";
  const std::string near = meant_flag(key, flags);
  if (!near.empty()) return fmt::format("{}; did you mean --{}?", what, near);
  if (!line.takes_flags) return what;  // nor --help-all
  return fmt::format("{}; trl {} --help-all lists them", what, line.name);
}

bool ends_in(std::string_view word, std::initializer_list<const char*> endings) {
  return std::ranges::any_of(endings, [&](const char* end) { return word.ends_with(end); });
}

bool is_number(const std::string& word) {
  char* end = nullptr;
  std::strtod(word.c_str(), &end);
  return !word.empty() && *end == '\0';
}

// Returns flags that a word could belong to, the likeliest first.
std::vector<std::string> likely_flags(const std::string& word, const CommandLine& line) {
  if (is_number(word)) return {};
  if (ends_in(word, {".yaml", ".yml"})) return {"config"};
  if (ends_in(word, {".jsonl", ".json", ".ndjson", ".csv", ".tsv", ".txt", ".parquet", ".gz", ".zst"}))
    return {"dataset_name", "prompts"};
  if (word.find(' ') != std::string::npos) return {"prompt", "text", "system"};
  std::vector<std::string> flags;
  for (const ScreenLine& required : screen_of(line.name).required) flags.emplace_back(required.flag);
  flags.insert(flags.end(), {"prompt", "text", "output_dir"});
  return flags;
}

std::string quoted(const std::string& word) {
  return word.find(' ') == std::string::npos ? word : "\"" + word + "\"";
}

// Returns the words with their flags: "--model_name_or_path out --prompt "Who?""; empty: one has none.
std::string with_flags(const LeftWords& left) {
  std::vector<std::string> taken = left.given;
  std::string text;
  for (const std::string& word : left.words) {
    const std::vector<std::string> likely = likely_flags(word, left.line);
    const auto free = std::ranges::find_if(likely, [&](const std::string& flag) {
      return has(left.flags, flag) && !has(taken, flag) && (flag != "output_dir" || !text.empty());
    });
    if (free == likely.end()) return "";
    text += fmt::format("{}--{} {}", text.empty() ? "" : " ", *free, quoted(word));
    taken.push_back(*free);
  }
  return text;
}

}  // namespace

void refuse(const LeftWords& left) {
  std::vector<std::string> refusals;
  for (const std::string& word : left.words)
    if (is_flag(word)) refusals.push_back(not_an_option(left.line, word, left.flags));
  if (refusals.empty()) {
    const std::string meant = with_flags(left);
    throw Failure(
        kUsage,
        fmt::format("unexpected argument '{}'; {}", left.words.front(),
                    meant.empty() ? "a value follows its flag, and a text with spaces stands in quotes"
                                  : "write " + meant));
  }
  for (size_t i = 0; i + 1 < refusals.size(); ++i) spdlog::error("{}", refusals[i]);
  throw Failure(kUsage, refusals.back());
}

void refuse_flags(const char* command, const Words& words, const std::vector<std::string>& flags) {
  CommandLine line;
  line.name = command;
  line.takes_flags = false;
  for (const std::string& word : words)
    if (is_flag(word) && !has(flags, name_of(word))) throw Failure(kUsage, not_an_option(line, word, flags));
}

}  // namespace trl::cli
