// The help of a command, trl help [COMMAND] and trl version.
#include "cli/arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "cli/keys.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

// Returns the default, if it adds something to the text.
std::string default_note(const CommandLine& line, const std::vector<const trl_option*>& keys,
                         const ScreenLine& shown) {
  if (shown.text.ends_with(']')) return "";
  for (const trl_option* key : keys) {
    if (flag_name(trl_option_name(key), line.name) != shown.flag) continue;
    const std::string value = default_of(key, line);
    const bool says = !value.empty() && value != "null" && value != "false" && value != "auto" &&
                      value != "[]" && value != "{}";
    return says && value.size() <= 20 ? " [" + value + "]" : "";
  }
  return "";
}

std::string spelled(const ScreenLine& shown) {
  const std::string flag =
      std::string(shown.flag) == "quiet" ? "-q, --quiet" : fmt::format("--{}", shown.flag);
  return *shown.value == '\0' ? flag : fmt::format("{} {}", flag, shown.value);
}

std::string lines(const CommandLine& line, const std::vector<ScreenLine>& shown, int width) {
  int widest = 0;
  for (const ScreenLine& one : shown) widest = std::max(widest, characters(spelled(one)));
  const int column = std::min(widest, 34) + 4;
  const std::vector<const trl_option*> keys = keys_of(line);
  std::string text;
  for (const ScreenLine& one : shown) {
    std::string begin = "  " + spelled(one);
    const int room = column - characters(begin);
    begin += room >= 2 ? std::string(static_cast<size_t>(room), ' ')
                       : "\n" + std::string(static_cast<size_t>(column), ' ');
    text += begin + wrapped(one.text + default_note(line, keys, one), column, width, column) + "\n";
  }
  return text;
}

std::vector<ScreenLine> own_flags(const CommandLine& line) {
  std::vector<ScreenLine> own;
  for (const TextFlag& text : line.texts) own.push_back({text.name, "TEXT", text.help});
  for (const ListFlag& list : line.lists) own.push_back({list.name, "TEXT ...", list.help});
  for (const Switch& one : line.switches) own.push_back({one.name, "", one.help});
  return own;
}

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

std::string entry(const CommandLine& line, const trl_option* key, int width) {
  constexpr int kIndent = 6;
  const int32_t type = type_of(key, line.trainer);
  std::string text =
      fmt::format("  --{} {}", flag_name(trl_option_name(key), line.name), upper(type_name(type)));
  std::string note = fmt::format("[{}]", default_of(key, line));
  if (!mark(key).empty()) note += fmt::format("  ({})", mark(key));
  const bool fits = characters(text) + 2 + characters(note) <= width;
  text += (fits ? "  " + note : "\n" + wrapped(note, kIndent, width)) + "\n" +
          wrapped(doc_of(key, line.trainer), kIndent, width) + "\n";
  const std::string accepted = with_commas(accepted_of(key, line.trainer), '|');
  if (!accepted.empty()) text += wrapped("Values: " + accepted, kIndent, width) + "\n";
  const std::vector<std::string> aliases = aliases_of(key);
  if (!aliases.empty())
    text += wrapped(fmt::format("Also: --{}", fmt::join(aliases, ", --")), kIndent, width) + "\n";
  if (!mark(key).empty()) text += wrapped(state(key), kIndent, width) + "\n";
  return text;
}

std::string overview(int width) {
  std::string text = "usage: trl COMMAND [--KEY VALUE ...]\n\n";
  for (const Command& command : commands())
    text += fmt::format("  {:<14}{}\n", command.name, wrapped(command.summary, 16, width, 16));
  return text + "\n" +
         wrapped("trl COMMAND --help shows what a command needs; -q is quiet, -v the version.", 0, width) +
         "\n";
}

}  // namespace

std::string usage(const CommandLine& line) {
  const Screen& screen = screen_of(line.name);
  const std::string words = !screen.words.empty() ? " " + screen.words
                            : line.takes_flags    ? " [--KEY VALUE ...]"
                                                  : "";
  return "trl " + line.name + words;
}

std::string short_help(const CommandLine& line, int width) {
  const Screen& screen = screen_of(line.name);
  std::string text =
      wrapped("usage: " + usage(line), 4, width, 0) + "\n\n" + wrapped(line.summary, 0, width) + "\n";
  if (!screen.required.empty()) text += "\nRequired:\n" + lines(line, screen.required, width);
  const std::vector<ScreenLine> common = screen.common.empty() ? own_flags(line) : screen.common;
  if (!common.empty()) text += "\nCommon:\n" + lines(line, common, width);
  if (!screen.examples.empty()) text += "\nExamples:\n";
  for (const std::string& example : screen.examples) text += "  " + wrapped(example, 6, width, 2) + "\n";
  if (line.takes_flags) {
    text +=
        "\n" +
        wrapped(fmt::format("trl {} --help-all has every option, trl options KEY one in full.", line.name), 0,
                width) +
        "\n";
  }
  return text;
}

std::string full_help(const CommandLine& line, int width) {
  std::string text = wrapped("usage: " + usage(line), 4, width, 0) + "\n\n" +
                     wrapped(line.summary, 0, width) + "\n\n" +
                     wrapped(
                         "Dashes and underscores are the same in a flag; a boolean is true, --flag false or "
                         "--no_flag; in brackets stands the default. What this build does not do is marked: "
                         "refused, refused in part, ignored.",
                         0, width) +
                     "\n";
  std::vector<ScreenLine> command = {{"help, -h", "", "one screen of help"}, {"help-all", "", "this"}};
  if (line.takes_config) command.push_back({"config", "FILE", config_help(line)});
  command.push_back(
      {"hub", "off", "looks up names of the hub in the local cache alone, without the network"});
  text += "\nThe command\n" + lines(line, command, width);
  text += lines(line, own_flags(line), width);
  std::string topic_before;
  for (const trl_option* key : keys_of(line)) {
    if (topic(key) != topic_before) text += fmt::format("\n{}\n", topic_before = topic(key));
    text += entry(line, key, width);
  }
  return text;
}

int help_command(const Words& words) {
  if (words.empty()) return print(overview(columns(STDOUT_FILENO))), 0;
  refuse_flags("help", words);
  if (words.size() > 1) throw Failure(kUsage, "usage: trl help [COMMAND]");
  const Command& command = command_named(words[0]);
  if (command.takes_flags) return command.run({"--help"});
  CommandLine line;
  line.name = command.name;
  line.summary = std::string(command.summary) + ".";
  line.summary[0] = static_cast<char>(line.summary[0] - 'a' + 'A');
  line.takes_flags = false;
  print(short_help(line, columns(STDOUT_FILENO)));
  return 0;
}

int version(const Words& words) {
  refuse_flags("version", words);
  if (!words.empty()) throw Failure(kUsage, "usage: trl version");
  print(fmt::format("trl {}\n", trl_version_string()));
  return 0;
}

}  // namespace trl::cli
