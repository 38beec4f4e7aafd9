// The trl command: picks the command; everything below goes through include/trl.h.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>

#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/output.h"
#include "cli/progress.h"

namespace trl::cli {
namespace {

struct Command {
  int (*run)(const Words&);
  const char* summary;
  const char* usage = nullptr;  // of one that takes no flags; the others have a help of their own
};

const std::map<std::string, Command>& commands() {
  static const std::map<std::string, Command> kCommands = {
      {"sft", {sft, "fine-tune a model on demonstrations (supervised fine-tuning)"}},
      {"dpo", {dpo, "train a model on preferences (direct preference optimisation)"}},
      {"kto", {kto, "train a model on answers that are good or bad (Kahneman-Tversky optimisation)"}},
      {"reward", {reward, "train a model to score answers, on preferences"}},
      {"estimate", {estimate, "tell what a run would take: memory, time, disk"}},
      {"generate", {generate, "complete a prompt with a model"}},
      {"convert", {convert, "turn a model directory into a GGUF file, or a GGUF file into a directory"}},
      {"download", {download, "bring a model or a dataset of the hub into the local cache"}},
      {"profile", {profile, "tell how long the rows of a dataset are, and what max_length costs"}},
      {"tokenize", {tokenize, "print the tokens of a text"}},
      {"template", {template_command, "print a row of a dataset as training sees it, token by token"}},
      {"options", {options, "list the keys that --config and the flags take", "trl options [trainer]"}},
      {"env", {env, "print versions and what this machine offers", "trl env"}},
  };
  return kCommands;
}

std::string overview() {
  std::string text = "usage: trl COMMAND [--help] ...\n\n";
  for (const auto& [name, command] : commands()) text += fmt::format("  {:<10} {}\n", name, command.summary);
  return text + "\n  trl --version  print the version\n";
}

int run(const Words& words) {
  if (words.empty() || words[0] == "--help" || words[0] == "-h") {
    print(overview());
    return 0;
  }
  if (words[0] == "--version") {
    if (words.size() > 1) throw Failure(kUsage, "usage: trl --version");
    print(fmt::format("trl {}\n", trl_version_string()));
    return 0;
  }
  const auto found = commands().find(words[0]);
  if (found == commands().end()) throw Failure(kUsage, "unknown command '" + words[0] + "'\n" + overview());
  const Command& command = found->second;
  if (command.usage != nullptr && words.size() == 2 && (words[1] == "--help" || words[1] == "-h")) {
    print(fmt::format("usage: {}\n\n{}\n", command.usage, command.summary));
    return 0;
  }
  return command.run(Words(words.begin() + 1, words.end()));
}

}  // namespace
}  // namespace trl::cli

int main(int argc, char** argv) {
  // libgomp reads it when the engine opens: its threads then sleep while they wait, and other programs have
  // the processors.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "100", 0);
  std::signal(SIGPIPE,
              SIG_IGN);  // a closed stdout is an error of the write (cli/output.h), not the end of a run
  spdlog::set_default_logger(spdlog::stderr_color_mt("trl"));
  spdlog::set_pattern("%n: %^%l%$: %v");
  int code = trl::cli::kFailed;
  try {
    code = trl::cli::run(trl::cli::Words(argv + 1, argv + argc));
  } catch (const trl::cli::Failure& failure) {
    trl::cli::Progress::clear_line();
    spdlog::error("{}", failure.what());
    code = failure.code;
  } catch (const std::exception& error) {
    spdlog::error("{}", error.what());
  }
  // Every handle is destroyed by now. The engine brings some three hundred libraries whose own destructors
  // need not run.
  code = trl::cli::with_output(code);
  std::fflush(stderr);
  _exit(code);
}
