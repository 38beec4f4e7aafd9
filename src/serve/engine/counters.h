// Counts the work of a model's thread, for /metrics and trl_server_describe.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>

namespace trl::serve {

inline double as_seconds(std::chrono::steady_clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

// Counts of values by upper bounds, and their sum, as in a histogram of Prometheus.
template <size_t kBounds>
struct Histogram {
  std::array<double, kBounds> bounds;
  std::array<int64_t, kBounds + 1> counts{};
  double sum = 0;
  int64_t count = 0;
  void add(double value, int64_t times = 1) {
    size_t place = 0;
    while (place < kBounds && value > bounds[place]) ++place;
    counts[place] += times;
    sum += value * static_cast<double>(times);
    count += times;
  }
};

struct Counters {
  int64_t waiting = 0, running = 0;                          // completions now
  std::set<std::string> waiting_adapters, running_adapters;  // of the requests now
  int64_t requests = 0, prompt_tokens = 0, generation_tokens = 0;
  int64_t prefix_queries = 0, prefix_hits = 0;  // tokens of prompts that were looked for, and found
  int64_t trained_version = -1;                 // the newest that a completion ended with; -1: none
  std::map<std::string, int64_t> ended;         // by the reason
  Histogram<14> first_token{{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1, 2.5, 10}};
  Histogram<14> between_tokens{{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 10}};
  Histogram<14> mean_between_tokens{{.01, .025, .05, .075, .1, .15, .2, .3, .4, .5, .75, 1, 2.5, 10}};
  // Seconds of completions: all, until they began, from then on, and of these until the first token and after
  // it.
  using Seconds = Histogram<12>;
  Seconds whole{kSeconds}, queued{kSeconds}, computed{kSeconds}, prefill{kSeconds}, decode{kSeconds};
  using Sizes = Histogram<12>;
  Sizes prompt_size{kSizes}, generation_size{kSizes}, max_tokens{kSizes};
  Histogram<5> completions{{1, 2, 5, 10, 20}};  // of a prompt
  Histogram<8> step_tokens{{1, 8, 16, 32, 64, 128, 256, 1024}};

 private:
  static constexpr std::array<double, 12> kSeconds{.3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 20, 60, 600};
  static constexpr std::array<double, 12> kSizes{1,    10,   50,   100,   200,   500,
                                                 1000, 2000, 5000, 10000, 50000, 100000};
};

}  // namespace trl::serve
