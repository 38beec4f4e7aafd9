// The frame of a bench program's command: options that several have, and errors as one line on stderr.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

namespace trl::bench {

// A program runs itself with this flag in the processes that measure.
inline constexpr const char* kChildFlag = "--child";

struct CommonSettings {
  int threads = 2;
  std::string scratch, child;

  void add_to(CLI::App& app) {
    app.add_option("--threads", threads, "to compute with, on all sides")->check(CLI::Range(1, 4096));
    app.add_option("--scratch", scratch, "a folder for files, which are removed at the end");
    app.add_option(kChildFlag, child, "")->group("");
  }
};

// Of programs that compare.
struct PeerSettings : CommonSettings {
  int rounds = 1;

  void add_to(CLI::App& app) {
    CommonSettings::add_to(app);
    app.add_option("--rounds", rounds, "times A B B A")->check(CLI::Range(1, 1000));
  }
};

// body(): the exit status; 1, with a line on stderr, when it throws.
template <typename Body>
int run_bench(const char* name, const Body& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace trl::bench
