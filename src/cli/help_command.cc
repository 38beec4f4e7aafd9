// trl help [COMMAND]; trl version.
#include <fmt/format.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/help.h"
#include "cli/output.h"
#include "cli/refused_words.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

std::string overview(int width) {
  std::string text = "usage: trl COMMAND [--KEY VALUE ...]\n\n";
  for (const Command& command : commands())
    text += fmt::format("  {:<12}{}\n", command.name, wrapped(command.summary, 14, width, 14));
  return text + "\n" +
         wrapped("trl COMMAND --help shows what a command needs; -q is quiet, -v the version.", 0, width) +
         "\n";
}

}  // namespace

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
