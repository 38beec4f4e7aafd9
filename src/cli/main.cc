// The trl command: picks the command; everything below goes through include/trl.h.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "cli/commands.h"
#include "cli/handles.h"
#include "cli/progress.h"
#include "cli/terminal.h"

namespace trl::cli {
namespace {

bool asks_for_help(const Words& words) {
  return words.size() == 1 && (words[0] == "--help" || words[0] == "-h");
}

int run(const Words& words) {
  if (words.empty() || asks_for_help(words)) return help_command({});
  const Words rest(words.begin() + 1, words.end());
  if (words[0] == "--version" || words[0] == "-v") return version(rest);
  const Command& command = command_named(words[0]);
  if (!command.takes_flags && asks_for_help(rest)) return help_command({words[0]});
  return command.run(rest);
}

}  // namespace
}  // namespace trl::cli

int main(int argc, char** argv) {
  // Set for libgomp, which reads it when the engine opens: the threads of libtorch's own operators
  // (fused_kernels: off) then sleep while they wait, and other programs have the processors.
  if (std::getenv("OMP_WAIT_POLICY") == nullptr) setenv("GOMP_SPINCOUNT", "100", 0);
  std::signal(SIGPIPE,
              SIG_IGN);  // a closed stdout is an error of the write (cli/terminal.h), not the end of a run
  spdlog::set_default_logger(spdlog::stderr_color_mt("trl"));
  spdlog::set_pattern("%n: %^%l%$: %v");
  int code = trl::cli::kFailed;
  try {
    code = trl::cli::run(trl::cli::Words(argv + 1, argv + argc));
  } catch (const trl::cli::Failure& failure) {
    trl::cli::clear_line();
    spdlog::error("{}", failure.what());
    code = failure.code;
  } catch (const std::exception& error) {
    trl::cli::clear_line();
    spdlog::error("{}", error.what());
  }
  // Every handle is destroyed by now. The engine brings some three hundred libraries whose own destructors
  // need not run.
  code = trl::cli::with_output(code);
  std::fflush(stderr);
  _exit(code);
}
