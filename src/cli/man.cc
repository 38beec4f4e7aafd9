// trl man [COMMAND]: the manual page of trl or of one command, from the same outlines as its help.
#include <fmt/format.h>

#include <fstream>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/help.h"
#include "cli/keys.h"
#include "cli/output.h"
#include "cli/refused_words.h"
#include "cli/screens.h"

namespace trl::cli {

namespace {

// Escapes text for roff: no line of it is a request, and hyphens remain hyphens.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if (c == '\'') {
      out += "\\(aq";
    } else {
      out += c;
    }
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
  std::string accepted = accepted_of(key, line.trainer);
  for (size_t i = 0; (i = accepted.find('|', i)) != std::string::npos; i += 2) accepted.replace(i, 1, ", ");
  if (!accepted.empty()) text += " Values: " + accepted + ".";
  text += " Default: " + default_of(key, line.trainer) + ".";
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
    text += line.takes_config
                ? ".PP\nEvery key is a flag and a line of the file that \\-\\-config names. Dashes and "
                  "underscores are the same.\n"
                : ".PP\nDashes and underscores are the same.\n";
    text += ".SH OPTIONS\n" + entry("--help, -h", "", "One screen of help.") +
            entry("--help-all", "", "Every option, by topic.");
    if (line.takes_config)
      text += entry("--config", "FILE", "A YAML or JSON file with any of these keys; flags win over it.");
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

}  // namespace

namespace {

void write_page(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << text).flush()) throw Failure(kFailed, path + ": cannot be written");
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

}  // namespace trl::cli
