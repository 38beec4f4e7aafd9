// trl profile: the lengths of a dataset's rows, and the cost of each max_length.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/output.h"
#include "cli/trainers.h"

namespace trl::cli {

namespace {

// Sets the terminal's width; elsewhere the library's own width stays.
void fit_terminal(Config& config) {
  winsize size{};
  if (!get(config, "profile.width").empty() || isatty(STDOUT_FILENO) == 0) return;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return;
  const std::string columns = std::to_string(std::clamp<int>(size.ws_col, 60, 160));
  set(config, "profile.width", columns);
}

}  // namespace

int profile(const Words& words) {
  Config config;
  Error error;
  bool json = false;
  const CommandLine line{
      "profile",
      "Tell how long the rows of a dataset are in tokens, and what each max_length would cost.",
      default_trainer().name,
      {"profile", "runtime"},
      {},
      {},
      {{"json", "Print the numbers as JSON instead of the plot", &json}}};
  if (parse(line, words, config)) return 0;
  need_tokenizer(config);
  fit_terminal(config);
  if (get(config, "profile.peaks").empty()) set(config, "profile.peaks", "true");

  Runtime runtime;
  open_runtime(config, runtime);
  Tokenizer tokenizer;
  open_tokenizer(config, runtime, tokenizer);
  Dataset dataset, eval;
  open_rows(config, runtime, dataset, eval);
  const char* text = nullptr;
  check(trl_dataset_get_profile(dataset.get(), tokenizer.get(), config.get(), json ? &text : nullptr,
                                json ? nullptr : &text, error.out()),
        error);
  print(text);
  if (json) print("\n");
  return 0;
}

}  // namespace trl::cli
