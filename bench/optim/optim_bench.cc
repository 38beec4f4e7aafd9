// usage: optim_bench [--millions N] [--threads N] [--seconds S] [--paged DIRECTORY]
// A step of each optimizer over one matrix, beside the memory bandwidth of the same threads (a copy). A JSON
// line for each optimizer and pair of types of weight and gradient: bytes of state and bytes read and written
// for a weight, seconds for 100 million weights, GB/s, and the share of the bandwidth. With --paged also the
// optimizers whose states lie in a file in that directory.
#include <CLI/CLI.hpp>

#include "config/training/optim_arguments.h"
#include "optim/optim.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace {

using namespace trl::bench;
using trl::tensor::Parameter;

constexpr int64_t kColumns = 1024;

struct Settings {
  int64_t millions = 64;
  int threads = 0;
  double seconds = 2;
  std::string paged;
};

// Of the bytes that are read and of those that are written.
double copy_bandwidth(int64_t bytes, double seconds) {
  const at::Tensor from = at::ones({bytes}, at::kByte), to = at::zeros({bytes}, at::kByte);
  const char* const source = static_cast<const char*>(from.data_ptr());
  char* const target = static_cast<char*>(to.data_ptr());
  const double each = best_seconds(seconds, [&] {
    trl::tensor::parallel_for(bytes, 1 << 20, [&](int64_t begin, int64_t end) {
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    });
  });
  return 2e-9 * static_cast<double>(bytes) / each;
}

void measure(const Settings& s, const char* name, at::ScalarType weight, at::ScalarType gradient,
             double bandwidth) {
  const trl::config::OptimName& optim = trl::config::optim_named("optim", name);
  trl::config::TrainingArguments arguments;
  arguments.optim = optim.optim;
  arguments.optim_states = optim.states;
  if (optim.paged) arguments.optim_directory = s.paged;
  arguments.stochastic_rounding = weight == at::kBFloat16;
  const int64_t count = s.millions * 1'000'000 / kColumns * kColumns;
  Parameter parameter("w", (at::randn({count / kColumns, kColumns}) * 0.02).to(weight));
  parameter.begin_training((at::randn({count / kColumns, kColumns}) * 1e-3).to(gradient));
  const auto optimizer = trl::optim::make_optimizer({&parameter}, arguments);
  int64_t state = 0;
  for (const auto& part : optimizer->state()) state += static_cast<int64_t>(part.value.nbytes());
  const double seconds = best_seconds(s.seconds, [&] { optimizer->step(1e-4, 0.5); });
  const double state_bytes = static_cast<double>(state) / static_cast<double>(count);
  const double bytes = 2 * state_bytes + 2 * static_cast<double>(c10::elementSize(weight)) +
                       static_cast<double>(c10::elementSize(gradient));
  const double rate = 1e-9 * bytes * static_cast<double>(count) / seconds;
  print({{"bench", "optimizer"},
         {"optim", name},
         {"weight", c10::toString(weight)},
         {"gradient", c10::toString(gradient)},
         {"state_bytes", state_bytes},
         {"bytes", bytes},
         {"seconds_100m", seconds / static_cast<double>(count) * 1e8},
         {"gb_s", rate},
         {"of_bandwidth", rate / bandwidth}});
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Steps of optimizers");
  Settings s;
  app.add_option("--millions", s.millions, "of weights");
  app.add_option("--threads", s.threads, "default: all");
  app.add_option("--seconds", s.seconds, "for each number");
  app.add_option("--paged", s.paged, "a directory on a disk: also with states there");
  CLI11_PARSE(app, argc, argv);
  trl::tensor::set_threads(s.threads);
  const double bandwidth = copy_bandwidth(s.millions * 4'000'000, s.seconds);
  print({{"bench", "copy"}, {"threads", trl::tensor::threads()}, {"gb_s", bandwidth}});
  std::vector<const char*> names = {"adamw_torch", "adamw_8bit",    "lion_32bit",  "lion_8bit",
                                    "ademamix",    "ademamix_8bit", "rmsprop_bnb", "rmsprop_bnb_8bit",
                                    "sgd",         "adafactor"};
  if (!s.paged.empty()) names.insert(names.end(), {"paged_adamw_32bit", "paged_adamw_8bit"});
  for (const char* name : names) {
    measure(s, name, at::kFloat, at::kFloat, bandwidth);
    measure(s, name, at::kBFloat16, at::kFloat, bandwidth);
    measure(s, name, at::kBFloat16, at::kBFloat16, bandwidth);
  }
  return 0;
}
