// usage: choice_bench [--vocab N] [--seconds S]
// The choice of a token from a row of logits: median microseconds on one thread for each way of choosing,
// over rows like those of a trained model: normal, with a few tokens far above.
#include <CLI/CLI.hpp>
#include <random>

#include "generate/choice.h"
#include "generate/sampling.h"
#include "support/repeat.h"
#include "support/runs.h"

namespace {

using namespace trl::bench;
using trl::engine::Sampling;

constexpr size_t kRows = 8;  // more than a cache of the second level holds

std::vector<std::vector<float>> rows_of(size_t vocab) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 2.2f);
  std::vector<std::vector<float>> rows(kRows, std::vector<float>(vocab));
  for (std::vector<float>& row : rows) {
    for (float& logit : row) logit = normal(random);
    for (int i = 0; i < 20; ++i) row[random() % vocab] = static_cast<float>(12 + i % 7);
  }
  return rows;
}

struct Way {
  const char* name;
  Sampling sampling;
};

std::vector<Way> ways() {
  Sampling greedy, free, nucleus, both, penalised;
  free.temperature = 0.8;
  nucleus = both = free;
  nucleus.top_p = both.top_p = 0.95;
  both.top_k = 50;
  penalised = both;
  penalised.repetition_penalty = 1.1;
  return {{"greedy", greedy},
          {"temperature", free},
          {"top_p", nucleus},
          {"top_k, top_p", both},
          {"repetition_penalty, top_k, top_p", penalised}};
}

double microseconds(const std::vector<std::vector<float>>& rows, const Sampling& sampling, double seconds) {
  std::vector<int32_t> ids(512);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * 7 % rows[0].size());
  uint64_t place = 0;
  std::vector<double> all = repeat(seconds, [&] {
    trl::engine::Token token;
    for (const std::vector<float>& row : rows)
      trl::generate::choose_token(row, ids, 256, sampling, trl::generate::uniform(1, 0, place++), token);
  });
  std::ranges::nth_element(all, all.begin() + std::ssize(all) / 2);
  return all[all.size() / 2] / static_cast<double>(rows.size()) * 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Choices of tokens");
  size_t vocab = 151936;
  double seconds = 0.5;
  app.add_option("--vocab", vocab, "logits of a row")->check(CLI::Range(1, 10'000'000));
  app.add_option("--seconds", seconds, "for each number");
  CLI11_PARSE(app, argc, argv);
  const std::vector<std::vector<float>> rows = rows_of(vocab);
  for (Way& way : ways()) {
    const double without = microseconds(rows, way.sampling, seconds);
    way.sampling.log_probabilities = true;
    print({{"choice", way.name},
           {"microseconds", std::round(without * 10) / 10},
           {"with_log_probabilities", std::round(microseconds(rows, way.sampling, seconds) * 10) / 10}});
  }
  return 0;
}
