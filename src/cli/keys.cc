#include "cli/keys.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

namespace trl::cli {

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    std::string_view word = text.substr(0, end);
    while (word.starts_with(' ')) word.remove_prefix(1);
    while (word.ends_with(' ')) word.remove_suffix(1);
    if (!word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool wanted(const CommandLine& line, const trl_option* option) {
  const char* const section = trl_option_section(option);
  const std::string_view name = trl_option_name(option);
  if (name == "config") return false;  // --config names the file
  if (name == "log_level" || name == "quiet") return true;
  const bool trains =
      !has({"convert", "estimate", "generate", "profile", "save"}, section);  // those belong to other calls
  return (trains && !line.trainer.empty() && contains(trl_option_trainers(option), line.trainer)) ||
         has(line.sections, section) || has(line.keys, trl_option_name(option));
}

constexpr std::string_view kLauncher = "trl and accelerate launch";

bool is_launch(const trl_option* option) {
  return trl_option_section(option) == kLauncher && !mark(option).empty();
}

// Returns a trainer as the functions of options take it; null: the table's values.
const char* name_of(const trl_option* option, const std::string& trainer) {
  return contains(trl_option_trainers(option), trainer) ? trainer.c_str() : nullptr;
}

}  // namespace

bool contains(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

std::vector<const trl_option*> keys_of(const CommandLine& line) {
  struct Placed {
    const trl_option* key;
    size_t section, topic;
  };
  std::vector<Placed> keys;
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
    // Orders the command's own section first, and keys that only a launcher of processes reads last.
    if (wanted(line, o))
      keys.push_back({o, trl_option_section(o) == line.name ? 0u : is_launch(o) ? 2u : 1u, 0});
  }
  std::ranges::stable_sort(keys, [](const Placed& a, const Placed& b) { return a.section < b.section; });
  // A topic may be in several sections: its first position counts.
  std::map<std::string, size_t> topics;
  for (Placed& one : keys) one.topic = topics.emplace(topic(one.key), topics.size()).first->second;
  std::ranges::stable_sort(keys, [](const Placed& a, const Placed& b) { return a.topic < b.topic; });
  std::vector<const trl_option*> ordered;
  for (const Placed& one : keys) ordered.push_back(one.key);
  return ordered;
}

const trl_option* find_key(std::string_view name) {
  std::string plain(name);
  std::ranges::replace(plain, '-', '_');
  const trl_option* by_alias = nullptr;
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
    if (plain == trl_option_name(o)) return o;
    if (has(aliases_of(o), plain)) by_alias = o;
  }
  return by_alias;
}

bool has_key(std::string_view trainer, std::string_view name) {
  const trl_option* const option = find_key(name);
  return option != nullptr && contains(trl_option_trainers(option), trainer);
}

std::string flag_name(std::string name, const std::string& command) {
  const bool generates = command == "chat", serves = command == "vllm-serve";
  const std::string group = (generates ? "generate" : serves ? "serve" : command) + ".";
  if (name.starts_with(group)) name.erase(0, group.size());
  return name;
}

std::string config_help(const CommandLine& line) {
  std::string in_full;
  for (const trl_option* key : keys_of(line)) {
    const std::string name = trl_option_name(key), flag = flag_name(name, line.name);
    if (flag == name) continue;
    in_full = fmt::format(" by their whole names (--{} is {} there)", flag, name);
    break;
  }
  return fmt::format("a YAML or JSON file with any of these keys{}; flags win over it", in_full);
}

std::string with_commas(std::string text, char separator) {
  for (size_t i = 0; (i = text.find(separator, i)) != std::string::npos; i += 2) text.replace(i, 1, ", ");
  return text;
}

std::string topic(const trl_option* option) {
  if (is_launch(option)) return "Launching several processes";
  return std::string_view(trl_option_section(option)) == kLauncher ? "The command" : trl_option_group(option);
}

std::string default_of(const trl_option* option, const std::string& trainer) {
  return trl_option_default(option, name_of(option, trainer));
}

std::string default_of(const trl_option* option, const CommandLine& line) {
  for (const auto& [key, value] : line.defaults)
    if (key == trl_option_name(option)) return value;
  return default_of(option, line.trainer);
}
std::string accepted_of(const trl_option* option, const std::string& trainer) {
  return trl_option_accepted(option, name_of(option, trainer));
}
std::string doc_of(const trl_option* option, const std::string& trainer) {
  return trl_option_doc(option, name_of(option, trainer));
}

int32_t type_of(const trl_option* option, const std::string& trainer) {
  return trl_option_type(option, name_of(option, trainer));
}

std::string type_name(int32_t type) {
  constexpr const char* kNames[] = {"boolean", "integer", "number", "text", "choice", "list", "map"};
  return type < 0 || type > TRL_TYPE_MAP ? "value" : kNames[type];
}

std::vector<std::string> words_of(const trl_option* option, const std::string& trainer) {
  const int32_t type = type_of(option, trainer);
  const std::string accepted = accepted_of(option, trainer);
  std::vector<std::string> words;
  if (type == TRL_TYPE_BOOLEAN) words = {"true", "false"};
  if ((type == TRL_TYPE_CHOICE || type == TRL_TYPE_LIST) && accepted != "path") words = split(accepted, '|');
  if (*trl_option_unsupported_reason(option) == '\0') return words;
  std::vector<std::string> taken = split(trl_option_taken(option), '|');
  taken.push_back(default_of(option, trainer));
  std::erase_if(words, [&](const std::string& word) { return !has(taken, word); });
  return words;
}

std::vector<std::string> aliases_of(const trl_option* option) {
  return split(trl_option_aliases(option), ',');
}

std::string mark(const trl_option* option) {
  if (*trl_option_ignored_reason(option) != '\0') return "ignored";
  if (*trl_option_unsupported_reason(option) == '\0') return "";
  const std::vector<std::string> taken = split(trl_option_taken(option), '|');
  // A value besides the default that only repeats the default's meaning does not make the key work.
  const bool works = std::ranges::any_of(taken, [&](const std::string& value) {
    return trl_option_type(option, nullptr) != TRL_TYPE_MAP && value != "false" && value != "no" &&
           value != "0";
  });
  return works && taken.size() > 1 ? "refused in part" : "refused";
}

bool is_ignored(const trl_option* option, const std::string& trainer, const std::string& value) {
  if (mark(option) != "ignored" || value == "null" || value == default_of(option, trainer)) return false;
  const std::vector<std::string> taken = split(trl_option_taken(option), '|');
  const nlohmann::json parts = type_of(option, trainer) == TRL_TYPE_LIST
                                   ? nlohmann::json::parse(value, nullptr, /*allow_exceptions=*/false)
                                   : nlohmann::json();
  if (!parts.is_array()) return !has(taken, value);
  return !std::ranges::all_of(parts, [&](const nlohmann::json& part) {
    return has(taken, part.is_string() ? part.get<std::string>() : part.dump());
  });
}

std::string state(const trl_option* option) {
  if (mark(option).empty()) return "";
  std::string values = trl_option_default(option, nullptr);
  for (const std::string& value : split(trl_option_taken(option), '|')) values += ", " + value;
  const bool ignored = mark(option) == "ignored";
  return ignored ? fmt::format("Ignored with a warning, except for {}: {}.", values,
                               trl_option_ignored_reason(option))
                 : fmt::format("Refused, except for {}: {}.", values, trl_option_unsupported_reason(option));
}

}  // namespace trl::cli
