// trl options: the option table, one paragraph per key; after it a trainer, whose keys are shown, a key,
// about which it tells everything, or a word, to which keys are related; or the JSON schema of the table.
#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <map>

#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/keys.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

std::string paragraph(const trl_option* o, const std::string& trainer, int width) {
  const std::string accepted = accepted_of(o, trainer);
  std::string text = fmt::format("  {} = {}", trl_option_name(o), default_of(o, trainer));
  const bool fits = characters(text) + characters(accepted) + 4 <= width;
  if (!accepted.empty() && fits) text += "  (" + accepted + ")";
  text += "\n";
  if (!fits) text += wrapped("values: " + with_commas(accepted, '|'), 6, width) + "\n";
  text += wrapped(doc_of(o, trainer), 6, width) + "\n";
  if (*trl_option_aliases(o) != '\0')
    text += wrapped(fmt::format("also: {}", trl_option_aliases(o)), 6, width) + "\n";
  if (!mark(o).empty()) text += wrapped(state(o), 6, width) + "\n";
  return text;
}

std::string list(const std::string& trainer, int width) {
  std::string text, section;
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
    if (!trainer.empty() && !contains(trl_option_trainers(o), trainer)) continue;
    if (section != trl_option_section(o)) {
      section = trl_option_section(o);
      text += fmt::format("{}{}\n", text.empty() ? "" : "\n", section);
    }
    text += paragraph(o, trainer, width);
  }
  return text;
}

// Lists a value by trainer, if some differ from the table: "2e-05; one, another: 1e-06".
std::string by_trainer(const trl_option* o, std::string (*of)(const trl_option*, const std::string&)) {
  const std::string usual = of(o, "");
  std::vector<std::pair<std::string, std::string>> others;  // trainers, value
  for (const config::MethodRow* row : trainers()) {
    const std::string trainer = row->name;
    if (!contains(trl_option_trainers(o), trainer) || of(o, trainer) == usual) continue;
    if (!others.empty() && others.back().second == of(o, trainer))
      others.back().first += ", " + trainer;
    else
      others.emplace_back(trainer, of(o, trainer));
  }
  std::string text = usual;
  for (const auto& [names, value] : others) text += fmt::format("; {}: {}", names, value);
  return text;
}

std::string whole(const trl_option* o, int width) {
  const auto line = [&](const char* name, const std::string& value) {
    return value.empty() ? "" : fmt::format("  {:<10}{}\n", name, wrapped(value, 12, width, 12));
  };
  std::string text = fmt::format("{}\n", trl_option_name(o));
  text +=
      line("type", type_name(trl_option_type(o, nullptr)) + (trl_option_nullable(o) == 1 ? ", or null" : ""));
  text += line("default", by_trainer(o, default_of));
  text += line("values", with_commas(by_trainer(o, accepted_of), '|'));
  text += line("trainers", with_commas(trl_option_trainers(o), ','));
  text += line("topic", fmt::format("{} ({})", topic(o), trl_option_section(o)));
  text += line("also", with_commas(trl_option_aliases(o), ','));
  text += line("elsewhere", with_commas(trl_option_other_names(o), ','));
  text += line("state", mark(o).empty() ? "works" : state(o));
  std::map<std::string, std::string> docs;  // text, names of trainers
  for (const config::MethodRow* row : trainers()) {
    const std::string trainer = row->name;
    if (!contains(trl_option_trainers(o), trainer) || doc_of(o, trainer) == doc_of(o, "")) continue;
    std::string& names = docs[doc_of(o, trainer)];
    names += (names.empty() ? "" : ", ") + trainer;
  }
  text += "\n" + wrapped(doc_of(o, ""), 2, width) + "\n";
  for (const auto& [doc, names] : docs) text += wrapped(names + ": " + doc, 2, width) + "\n";
  return text;
}

// Returns the paragraphs of the keys for which is_meant holds.
std::string those(int width, const std::function<bool(const trl_option*)>& is_meant) {
  std::string text;
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o))
    if (is_meant(o)) text += paragraph(o, "", width);
  return text;
}

// Returns keys with the word in their names, also in their names elsewhere.
std::string named(const std::string& word, int width) {
  const auto has = [&](const char* text) {
    return std::string_view(text).find(word) != std::string_view::npos;
  };
  return those(width, [&](const trl_option* o) {
    return has(trl_option_name(o)) || has(trl_option_aliases(o)) || has(trl_option_other_names(o));
  });
}

// Returns keys with the word in their texts.
std::string described(const std::string& word, int width) {
  return those(width, [&](const trl_option* o) {
    return std::string_view(trl_option_doc(o, nullptr)).find(word) != std::string_view::npos;
  });
}

// Returns the key that the word was meant to be, or a trainer; empty: none is near.
std::string near_name(const std::string& word) {
  std::vector<std::string> names;
  for (const config::MethodRow* row : trainers()) names.emplace_back(row->name);
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
    names.emplace_back(trl_option_name(o));
    for (const std::string& alias : aliases_of(o)) names.push_back(alias);
  }
  return nearest_flag(word, names);
}

// Prints the JSON schema of files for --config.
void print_schema(const Words& words) {
  if (words.size() > 2) throw Failure(kUsage, "usage: trl options --schema [TRAINER]");
  Error error;
  const char* json = nullptr;
  check(trl_config_get_schema(words.size() > 1 ? words[1].c_str() : nullptr, &json, error.out()), error);
  print(std::string(json) + "\n");
}

}  // namespace

int options(const Words& words) {
  if (!words.empty() && words[0] == "--schema") return print_schema(words), 0;
  if (words.size() > 1)
    throw Failure(kUsage, "usage: trl options [TRAINER | KEY | WORD | --schema [TRAINER]]");
  const int width = columns(STDOUT_FILENO);
  std::string word = words.empty() ? "" : words[0];
  if (word.starts_with("--")) word.erase(0, 2);
  if (const config::MethodRow* const trainer = config::find_method(word)) word = trainer->name;
  const std::string of_trainer = list(word, width);
  if (!of_trainer.empty()) return print(of_trainer), 0;
  const trl_option* const key = find_key(word);
  if (key != nullptr) return print(whole(key, width)), 0;
  std::string matches = word.size() > 1 ? named(word, width) : "";
  const std::string near = near_name(word);
  if (!near.empty() && (matches.empty() || near.find(word) != std::string::npos))
    throw Failure(kUsage, fmt::format("'{}' is neither a trainer nor a key; did you mean {}?", word, near));
  if (matches.empty() && word.size() > 1) matches = described(word, width);
  if (matches.empty())
    throw Failure(
        kUsage,
        fmt::format("'{}' is neither a trainer nor a key, and no key has to do with it; try: trl options {}",
                    word, default_trainer().name));
  print(matches);
  return 0;
}

}  // namespace trl::cli
