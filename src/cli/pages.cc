// Manual pages (trl man [COMMAND]) and completion scripts (trl completion SHELL), both made from the
// commands' own outlines, so that they always match them.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/keys.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

// Escapes text for roff: no line of it is a request, and hyphens remain hyphens.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const char* const escaped = c == '\\' ? "\\e" : c == '-' ? "\\-" : c == '\'' ? "\\(aq" : nullptr;
    escaped != nullptr ? out += escaped : out += c;
  }
  return out.starts_with('.') ? "\\&" + out : out;
}

std::string title(const std::string& name, const std::string& about) {
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return fmt::format(".TH \"{}\" 1 \"\" \"libtrl {}\" \"libtrl\"\n.SH NAME\n{} \\- {}\n", roff(upper),
                     trl_version_string(), roff(name), roff(about));
}

std::string entry(const std::string& flag, const std::string& value, const std::string& text) {
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}\n", roff(flag),
                     value.empty() ? "" : " \\fI" + roff(value) + "\\fR", roff(text));
}

std::string key_entry(const CommandLine& line, const trl_option* key) {
  std::string text = doc_of(key, line.trainer);
  const std::string accepted = with_commas(accepted_of(key, line.trainer), '|');
  if (!accepted.empty()) text += " Values: " + accepted + ".";
  text += " Default: " + default_of(key, line) + ".";
  for (const std::string& alias : aliases_of(key)) text += " Also: --" + alias + ".";
  if (!mark(key).empty()) text += " " + state(key);
  return entry("--" + flag_name(trl_option_name(key), line.name), type_name(type_of(key, line.trainer)),
               text);
}

std::string examples(const std::string& command) {
  std::string text = ".SH EXAMPLES\n";
  for (const std::string& example : screen_of(command).examples)
    text += ".PP\n.RS\n.nf\n" + roff(example) + "\n.fi\n.RE\n";
  return text;
}

std::string tail() {
  return ".SH \"EXIT STATUS\"\n"
         "0: done. 1: it failed. 2: the command line or a configuration is wrong. 128 plus a signal: it was "
         "interrupted.\n"
         ".SH \"SEE ALSO\"\n.BR trl (1)\n";
}

std::string page_of(const Command& command) {
  CommandLine line;
  line.name = command.name;
  line.summary = std::string(command.summary) + ".";
  line.takes_flags = command.takes_flags;
  if (command.takes_flags) line = outline_of(command);
  std::string text = title("trl-" + line.name, command.summary) + ".SH SYNOPSIS\n\\fB" + roff(usage(line)) +
                     "\\fR\n.SH DESCRIPTION\n" + roff(line.summary) + "\n";
  if (line.takes_flags) {
    text += line.takes_config ? ".PP\nEvery key is a flag and a line of the file that \\-\\-config names. "
                                "Dashes and underscores are the same.\n"
                              : ".PP\nDashes and underscores are the same.\n";
    text += ".SH OPTIONS\n" + entry("--help, -h", "", "One screen of help.") +
            entry("--help-all", "", "Every option, by topic.");
    if (line.takes_config) text += entry("--config", "FILE", "Takes " + config_help(line) + ".");
    text += entry("--hub", "off", "Looks up names of the hub in the local cache alone, without the network.");
    for (const TextFlag& own : line.texts) text += entry(fmt::format("--{}", own.name), "text", own.help);
    for (const ListFlag& own : line.lists) text += entry(fmt::format("--{}", own.name), "text ...", own.help);
    for (const Switch& own : line.switches) text += entry(fmt::format("--{}", own.name), "", own.help);
    std::string before;
    for (const trl_option* key : keys_of(line)) {
      if (topic(key) != before) text += fmt::format(".SS \"{}\"\n", roff(before = topic(key)));
      text += key_entry(line, key);
    }
  }
  return text + examples(command.name) + tail();
}

std::string overview() {
  std::string text =
      title("trl", "fine-tune language models") +
      ".SH SYNOPSIS\n\\fBtrl\\fR \\fICOMMAND\\fR [\\fB\\-\\-KEY\\fR \\fIVALUE\\fR ...]\n.SH DESCRIPTION\n"
      "Trains, converts and runs language models with the names, defaults and numbers of Hugging Face "
      "TRL.\n.SH COMMANDS\n";
  for (const Command& command : commands())
    text += entry(fmt::format("trl {}", command.name), "", command.summary);
  text += ".SH ENVIRONMENT\n";
  text +=
      entry("XDG_CACHE_HOME", "", "Prepared rows are kept in its folder trl; without it, in ~/.cache/trl.");
  text += entry("NO_COLOR", "", "No colours.");
  text += tail();
  std::string pages;
  for (const Command& command : commands())
    pages += fmt::format("{}.BR trl\\-{} (1)", pages.empty() ? "" : ",\n", command.name);
  return text.substr(0, text.rfind(".BR trl (1)")) + pages + "\n";
}

void write_page(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << text).flush())
    throw Failure(kFailed, fmt::format("{}: cannot be written: {}", path, std::strerror(errno)));
}

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
  for (const char c : text)
    if (c != '\'' && c != '"' && c != '`' && c != '$' && c != '\\' && c != '[' && c != ']' && c != '\n')
      plain += c;
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
  if (command == "help" || command == "man")
    for (const Command& one : commands()) words.emplace_back(one.name);
  if (command == "options") {
    words.emplace_back("--schema");
    for (const config::MethodRow* row : trainers()) words.emplace_back(row->name);
    for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o))
      words.emplace_back(trl_option_name(o));
  }
  return words;
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, " ")); }

std::string bash() {
  std::string text =
      "# bash completion for trl: source it, or put it into bash_completion's directory.\n"
      "_trl() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words= flag=\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '" +
      joined(words_after("help")) +
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

// Writes all pages into files for an installation (--output DIR).
int man(const Words& words) {
  if (words.size() == 2 && words[0] == "--output") {
    write_page(words[1] + "/trl.1", overview());
    for (const Command& command : commands())
      write_page(fmt::format("{}/trl-{}.1", words[1], command.name), page_of(command));
    return 0;
  }
  refuse_flags("man", words, {"output"});
  if (words.size() > 1) throw Failure(kUsage, "usage: trl man [COMMAND]");
  print(words.empty() ? overview() : page_of(command_named(words[0])));
  return 0;
}

int completion(const Words& words) {
  refuse_flags("completion", words);
  const std::string shell = words.size() == 1 ? words[0] : "";
  if (shell == "bash") return print(bash()), 0;
  if (shell == "zsh") return print(zsh()), 0;
  if (shell == "fish") return print(fish()), 0;
  throw Failure(kUsage, "usage: trl completion bash | zsh | fish");
}

}  // namespace trl::cli
