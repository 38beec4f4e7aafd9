// usage: interrupt_bench --model DIR|random:qwen2.5-0.5b [--tokenizer DIR]
//   [--what step|evaluate|save|generate]
// How soon a call ends after trl_trainer_cancel, which another thread calls at moments spread over the call's
// first SPAN seconds. Prints a JSON line with the percentiles and all single times, in milliseconds. TRL's
// defaults (bf16, gradient checkpointing), batches of 8 rows of 1024 tokens. generate: a generator of the
// trainer completes as many prompts, for longer than the span.
#include <trl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "support/abi.h"
#include "support/child.h"
#include "support/command.h"
#include "support/random_model.h"
#include "support/scratch.h"

namespace {

using trl::bench::now;
using Json = nlohmann::ordered_json;

struct Settings {
  std::string model, tokenizer, what = "step", scratch;
  int rows = 8, length = 1024, requests = 20, threads = 2;
  double span = 12, offset = 0;
};

trl_trainer* open(const Settings& s, const std::string& model, const std::string& output) {
  return trl::bench::open_trainer({{"model_name_or_path", model},
                                   {"output_dir", output},
                                   {"save_strategy", "no"},
                                   {"report_to", "none"},
                                   {"runtime.threads", s.threads},
                                   {"max_length", s.length},
                                   {"per_device_train_batch_size", s.rows},
                                   {"per_device_eval_batch_size", s.rows},
                                   {"max_steps", 1000}},
                                  4 * s.rows, 2 * s.length, true);
}

trl_status generate(const Settings& s, trl_generator* generator, trl_error** error) {
  std::vector<std::string> texts;
  std::vector<const char*> prompts;
  for (int row = 0; row < s.rows; ++row) {
    std::string& text = texts.emplace_back(std::to_string(row));  // no two begin alike
    for (int i = 0; i < s.length; ++i) text += " tide";
  }
  for (const std::string& text : texts) prompts.push_back(text.c_str());
  trl_config* const options =
      trl::bench::config_of({{"generate.max_new_tokens", 1000000}, {"generate.ignore_eos", true}});
  const trl_status status = trl_generator_generate(generator, prompts.data(), nullptr, prompts.size(),
                                                   options, nullptr, nullptr, nullptr, error);
  trl_config_destroy(options);
  return status;
}

// Milliseconds from the request to the end of the call; negative: the call had already ended.
double ends_after(const Settings& s, trl_trainer* trainer, trl_generator* generator,
                  const std::string& target, double seconds) {
  double asked = 0;
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    asked = now();
    trl_trainer_cancel(trainer);
  });
  trl_error* error = nullptr;
  const trl_status status = s.what == "step"       ? trl_trainer_step(trainer, nullptr, &error)
                            : s.what == "evaluate" ? trl_trainer_evaluate(trainer, nullptr, nullptr, &error)
                            : s.what == "generate"
                                ? generate(s, generator, &error)
                                : trl_trainer_save(trainer, target.c_str(), nullptr, &error);
  const double ended = now();
  other.join();
  if (status == TRL_E_CANCELLED) {
    trl_error_destroy(error);
    return 1e3 * (ended - asked);
  }
  trl::bench::check(status, error);
  trl::bench::check(trl_trainer_evaluate(trainer, nullptr, nullptr, &error), error);  // takes the request
  return -1;
}

int run(const Settings& s) {
  const trl::bench::Scratch scratch(s.scratch);
  std::string model = s.model;
  if (model == "random:qwen2.5-0.5b") {
    model = scratch.file("model");
    trl::bench::write_random_model(trl::bench::kQwen2_5_0_5B, s.tokenizer, model);
  }
  trl_trainer* trainer = open(s, model, scratch.file("out"));
  trl_generator* const generator = trl::bench::open_generator(trainer);
  std::vector<double> all;
  for (int i = 0; i < s.requests; ++i) {
    const double place = 0.6180339887 * (i + 1) + s.offset;
    const double ms =
        ends_after(s, trainer, generator, scratch.file("saved"), s.span * (place - static_cast<int>(place)));
    if (ms >= 0) all.push_back(ms);
  }
  trl_generator_destroy(generator);
  trl_trainer_destroy(trainer);
  std::sort(all.begin(), all.end());
  const auto percentile = [&](double share) {
    return all.empty() ? -1 : all[static_cast<size_t>(share * static_cast<double>(all.size() - 1) + 0.5)];
  };
  const Json line = {{"bench", "interrupt"},    {"model", s.model},       {"what", s.what},
                     {"requests", all.size()},  {"p50", percentile(0.5)}, {"p90", percentile(0.9)},
                     {"p99", percentile(0.99)}, {"most", percentile(1)},  {"ms", all}};
  std::printf("%s\n", line.dump().c_str());
  return all.empty() ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings s;
  CLI::App app("How soon a call ends after trl_trainer_cancel");
  app.add_option("--model", s.model, "model directory, GGUF file or random:qwen2.5-0.5b (its shape)")
      ->required();
  app.add_option("--tokenizer", s.tokenizer, "of a random model");
  app.add_option("--what", s.what, "the call")
      ->check(CLI::IsMember({"step", "evaluate", "save", "generate"}));
  app.add_option("--rows", s.rows, "of a batch, or prompts");
  app.add_option("--length", s.length, "tokens of a row or of a prompt");
  app.add_option("--requests", s.requests, "how many");
  app.add_option("--span", s.span, "seconds within which they come");
  app.add_option("--offset", s.offset,
                 "of the first, as a share of the span: another run takes other moments");
  app.add_option("--threads", s.threads, "to compute with");
  app.add_option("--scratch", s.scratch, "a folder for files, which are removed at the end");
  CLI11_PARSE(app, argc, argv);
  return trl::bench::run_bench("interrupt_bench", [&] { return run(s); });
}
