// usage: waiting_bench --model DIR [--loops 0 2]
// Measures a step of training and a short completion, in seconds, beside programs that never wait: in a host
// that sets no variable, and in one with GOMP_SPINCOUNT=100, with which libgomp's threads hardly spin. Prints
// a JSON line for each number of programs.
#include <trl.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "support/abi.h"
#include "support/command.h"
#include "support/runs.h"
#include "support/scratch.h"

namespace {

using trl::bench::Json;
using trl::bench::now;

struct Settings : trl::bench::PeerSettings {
  std::string model;
  int rows = 2, length = 256, steps = 4, completions = 8, tokens = 16;
  std::vector<int> loops = {0, 2};
};

// Programs that never wait, while this lives.
class Loops {
 public:
  explicit Loops(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) asm volatile("");
      }
      children_.push_back(child);
    }
  }
  ~Loops() {
    for (const pid_t child : children_) kill(child, SIGKILL), waitpid(child, nullptr, 0);
  }
  Loops(const Loops&) = delete;
  Loops& operator=(const Loops&) = delete;

 private:
  std::vector<pid_t> children_;
};

trl_trainer* open(const Settings& s, const std::string& output) {
  return trl::bench::open_trainer({{"model_name_or_path", s.model},
                                   {"output_dir", output},
                                   {"save_strategy", "no"},
                                   {"report_to", "none"},
                                   {"runtime.threads", s.threads},
                                   {"max_length", s.length},
                                   {"per_device_train_batch_size", s.rows},
                                   {"max_steps", s.steps + 1}},
                                  s.rows * (s.steps + 1), s.length, false);
}

// The median of `count` calls after one that is not counted.
template <typename Body>
double median_seconds(int count, const Body& body) {
  body();
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    const double begin = now();
    body();
    all.push_back(now() - begin);
  }
  return trl::bench::median(all);
}

int measure(const Settings& s) {
  const trl::bench::Scratch scratch(s.scratch);
  trl_trainer* const trainer = open(s, scratch.file("out"));
  const double step = median_seconds(s.steps, [&] { TRL_CHECK(trl_trainer_step(trainer, nullptr, &error)); });
  trl_generator* const generator = trl::bench::open_generator(trainer);
  trl_config* const options = trl::bench::config_of({{"generate.max_new_tokens", s.tokens}});
  const double completion = median_seconds(s.completions, [&] {
    const char* const prompt = "The tide";
    trl_completions* made = nullptr;
    TRL_CHECK(
        trl_generator_generate(generator, &prompt, nullptr, 1, options, nullptr, nullptr, &made, &error));
    trl_completions_destroy(made);
  });
  trl::bench::print({{"step_s", step}, {"completion_s", completion}});
  return 0;
}

int compare(const Settings& s) {
  std::vector<std::string> own = {"/proc/self/exe", trl::bench::kChildFlag, "1", "--model", s.model};
  for (const auto& [flag, value] :
       std::initializer_list<std::pair<const char*, int>>{{"--rows", s.rows},
                                                          {"--length", s.length},
                                                          {"--steps", s.steps},
                                                          {"--completions", s.completions},
                                                          {"--tokens", s.tokens},
                                                          {"--threads", s.threads}})
    own.insert(own.end(), {flag, std::to_string(value)});
  for (const int count : s.loops) {
    const Loops loops(count);
    std::vector<Json> runs[2];  // without the variable, with it
    trl::bench::interleave(2, s.rounds, [&](size_t with) {
      unsetenv("OMP_WAIT_POLICY");
      with != 0 ? setenv("GOMP_SPINCOUNT", "100", 1) : unsetenv("GOMP_SPINCOUNT");
      runs[with].push_back(trl::bench::run_json(own));
    });
    Json line = {{"bench", "waiting"}, {"model", s.model}, {"threads", s.threads}, {"loops", count}};
    for (const char* what : {"step_s", "completion_s"}) {
      const double without = trl::bench::median_of(runs[0], what),
                   with = trl::bench::median_of(runs[1], what);
      line[what] = {{"no_variable", without}, {"gomp_spincount_100", with}, {"ratio", without / with}};
    }
    trl::bench::print(line);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("What waiting threads cost beside programs that never wait");
  app.add_option("--model", s.model, "model directory or GGUF file")->required();
  app.add_option("--loops", s.loops, "programs that never wait, beside each measurement");
  app.add_option("--rows", s.rows, "of a batch");
  app.add_option("--length", s.length, "tokens of a row");
  app.add_option("--steps", s.steps, "of which the median is taken");
  app.add_option("--completions", s.completions, "of which the median is taken");
  app.add_option("--tokens", s.tokens, "of a completion");
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  return trl::bench::run_bench("waiting_bench", [&] { return s.child.empty() ? compare(s) : measure(s); });
}
