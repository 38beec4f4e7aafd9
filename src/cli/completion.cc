// trl completion SHELL: a script with which a shell completes commands, keys and values; made from the
// commands' own outlines, so that it always matches them.
#include <fmt/format.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/keys.h"
#include "cli/output.h"
#include "cli/refused_words.h"
#include "cli/trainers.h"

namespace trl::cli {

namespace {

struct Completed {
  std::string name;   // without dashes
  std::string about;  // a few words
  std::vector<std::string> values;
  bool takes_value;
};

// Returns the first sentence, without characters that a shell would interpret.
std::string first_sentence(std::string text) {
  constexpr size_t kLongest = 70;
  text.resize(std::min(text.find(". "), text.size()));
  text.resize(std::min(text.find(": "), text.size()));
  if (text.size() > kLongest) text.resize(std::min(text.rfind(' ', kLongest), kLongest));
  std::string plain;
  for (const char c : text) {
    if (c != '\'' && c != '"' && c != '`' && c != '$' && c != '\\' && c != '[' && c != ']' && c != '\n')
      plain += c;
  }
  while (plain.ends_with('.') || plain.ends_with(' ') || plain.ends_with(',')) plain.pop_back();
  return plain;
}

std::vector<Completed> flags_of(const Command& command) {
  const CommandLine line = outline_of(command);
  std::vector<Completed> flags = {{"help", "one screen of help", {}, false},
                                  {"help-all", "every option, by topic", {}, false},
                                  {"hub", "off: no network, the local cache alone", {"on", "off"}, true}};
  if (line.takes_config) flags.push_back({"config", "a YAML or JSON file with these keys", {}, true});
  for (const TextFlag& text : line.texts) flags.push_back({text.name, first_sentence(text.help), {}, true});
  for (const ListFlag& list : line.lists) flags.push_back({list.name, first_sentence(list.help), {}, true});
  for (const Switch& one : line.switches) flags.push_back({one.name, first_sentence(one.help), {}, false});
  for (const trl_option* key : keys_of(line)) {
    const std::string note = mark(key).empty() ? "" : " (" + mark(key) + ")";
    flags.push_back({flag_name(trl_option_name(key), line.name),
                     first_sentence(doc_of(key, line.trainer)) + note, words_of(key, line.trainer), true});
  }
  return flags;
}

// Returns words after the name of a command that takes no flags.
std::vector<std::string> words_after(const std::string& command) {
  std::vector<std::string> words;
  if (command == "completion") return {"bash", "zsh", "fish"};
  if (command == "help" || command == "man") {
    for (const Command& one : commands()) words.emplace_back(one.name);
  }
  if (command == "options") {
    for (const config::MethodRow* row : trainers()) words.emplace_back(row->name);
    for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o))
      words.emplace_back(trl_option_name(o));
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string command_names() {
  std::string names;
  for (const Command& command : commands()) names += std::string(names.empty() ? "" : " ") + command.name;
  return names;
}

std::string bash() {
  std::string text =
      "# bash completion for trl: source it, or put it into bash_completion's directory.\n"
      "_trl() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= flag=\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '" +
      command_names() +
      "' -- \"$current\"))\n"
      "    return\n"
      "  fi\n"
      "  case $before in --*) flag=${before#--}; flag=${flag//-/_} ;; esac\n"
      "  case ${COMP_WORDS[1]}:$flag in\n";
  std::string flags;
  for (const Command& command : commands()) {
    if (!command.takes_flags) {
      const std::vector<std::string> words = words_after(command.name);
      if (!words.empty()) text += fmt::format("    {}:*) words='{}' ;;\n", command.name, joined(words));
      continue;
    }
    std::string all;
    for (const Completed& flag : flags_of(command)) {
      all += (all.empty() ? "--" : " --") + flag.name;
      if (!flag.values.empty())
        text += fmt::format("    {}:{}) words='{}' ;;\n", command.name, flag.name, joined(flag.values));
    }
    flags += fmt::format("      {}) words='{}' ;;\n", command.name, all);
  }
  return text +
         "  esac\n"
         "  if [[ $current == -* ]]; then\n"
         "    case ${COMP_WORDS[1]} in\n" +
         flags +
         "    esac\n"
         "  fi\n"
         "  if [ -n \"$words\" ]; then\n"
         "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "  else\n"
         "    compopt -o filenames 2>/dev/null\n"
         "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
         "  fi\n"
         "}\n"
         "complete -F _trl trl\n";
}

std::string zsh() {
  std::string text =
      "#compdef trl\n# zsh completion for trl: put it into a directory of $fpath as _trl.\n_trl() {\n  local "
      "-a list\n"
      "  local flag=${${words[CURRENT-1]#--}//-/_}\n  if (( CURRENT == 2 )); then\n    list=(\n";
  for (const Command& command : commands())
    text += fmt::format("      '{}:{}'\n", command.name, command.summary);
  text += "    )\n    _describe 'command' list\n    return\n  fi\n  case ${words[2]}:$flag in\n";
  std::string flags;
  for (const Command& command : commands()) {
    if (!command.takes_flags) {
      const std::vector<std::string> words = words_after(command.name);
      if (!words.empty())
        text += fmt::format("    {}:*) compadd -- {}; return ;;\n", command.name, joined(words));
      continue;
    }
    flags += fmt::format("      {}) list=(\n", command.name);
    for (const Completed& flag : flags_of(command)) {
      flags += fmt::format("        '--{}:{}'\n", flag.name, flag.about);
      if (!flag.values.empty())
        text += fmt::format("    {}:{}) compadd -- {}; [[ $PREFIX == -* ]] || return ;;\n", command.name,
                            flag.name, joined(flag.values));
    }
    flags += "      ) ;;\n";
  }
  return text + "  esac\n  if [[ $PREFIX == -* ]]; then\n    case ${words[2]} in\n" + flags +
         "    esac\n    _describe 'option' list\n  else\n    _files\n  fi\n}\n_trl \"$@\"\n";
}

std::string fish() {
  std::string text = "# fish completion for trl: put it into ~/.config/fish/completions/trl.fish.\n";
  for (const Command& command : commands())
    text += fmt::format("complete -c trl -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                        command.summary);
  for (const Command& command : commands()) {
    const std::string when = fmt::format("complete -c trl -n '__fish_seen_subcommand_from {}'", command.name);
    if (!command.takes_flags) {
      const std::vector<std::string> words = words_after(command.name);
      if (!words.empty()) text += fmt::format("{} -f -a '{}'\n", when, joined(words));
      continue;
    }
    for (const Completed& flag : flags_of(command)) {
      const std::string value = !flag.values.empty() ? fmt::format(" -x -a '{}'", joined(flag.values))
                                : flag.takes_value   ? " -r"
                                                     : "";
      text += fmt::format("{} -l {}{} -d '{}'\n", when, flag.name, value, flag.about);
    }
  }
  return text;
}

}  // namespace

int completion(const Words& words) {
  refuse_flags("completion", words);
  const std::string shell = words.size() == 1 ? words[0] : "";
  if (shell == "bash") return print(bash()), 0;
  if (shell == "zsh") return print(zsh()), 0;
  if (shell == "fish") return print(fish()), 0;
  throw Failure(kUsage, "usage: trl completion bash | zsh | fish");
}

}  // namespace trl::cli
