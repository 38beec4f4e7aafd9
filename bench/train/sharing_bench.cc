// usage: sharing_bench --model DIR|random [--layers N] [--tokenizer DIR] [--case NAME ...] [--steps N]
// Steps over rows that begin alike, each row by itself and with share_prefix, A B B A in one process. A JSON
// line for each case: fastest seconds of a step, how many times faster the shared one is, how many times
// fewer operations it has, and the share of the latter that the former is.
#include "base/json/json.h"
#include "config/lora_config.h"
#include "support/command.h"
#include "support/random_model.h"
#include "support/repeat.h"
#include "support/runs.h"
#include "support/scratch.h"
#include "tensor/threads/parallel.h"
#include "train/one_batch.h"
#include "train/trainer/trainer.h"

namespace {

using namespace trl::bench;

struct Settings : PeerSettings {
  std::string model, tokenizer;
  std::vector<std::string> cases;
  int64_t layers = 24;
  int steps = 3;
};

struct Case {
  const char* name;
  int64_t rows, prefix, own;
  bool pairs, all_tokens, adapter;
};

constexpr Case kCases[] = {{"pairs 1024/128, adapter", 4, 1024, 128, true, false, true},
                           {"pairs 1024/128", 4, 1024, 128, true, false, false},
                           {"8 rows of 1024 + 200, completions", 8, 1024, 200, false, false, false},
                           {"8 rows of 1024 + 200, all tokens", 8, 1024, 200, false, true, false},
                           {"8 rows of 1224 with nothing in common", 8, 0, 1224, false, true, false}};

// The second half of pairs is rejected, and each pair has a prompt of its own.
OneBatch rows_of(const Case& c) {
  OneBatch batch;
  for (int64_t row = 0; row < c.rows; ++row) {
    std::vector<int32_t> ids, labels;
    for (int64_t i = 0; i < c.prefix + c.own; ++i) {
      const bool own = i >= c.prefix;
      const int64_t from = own ? 1 + row : c.pairs ? row % (c.rows / 2) : 0;
      ids.push_back(static_cast<int32_t>((from * 7919 + i * 104729 + (own ? 13 : 0)) % 250));
      labels.push_back(own || c.all_tokens ? ids.back() : -100);
    }
    batch.add_row(ids, labels);
  }
  return batch;
}

// Operations forward and backward, of rows that are computed `times` times: 2 and 4 a weight and token (2 of
// a frozen weight), 4 and 10 an element of the heads and pair of tokens, 2 and 4 a weight of the head and
// target.
double operations(const trl::model::ModelConfig& m, const Case& c, bool shared) {
  const auto p = static_cast<double>(c.prefix), own = static_cast<double>(c.own),
             rows = static_cast<double>(c.rows), hidden = static_cast<double>(m.hidden_size);
  const double groups =
      shared && c.prefix > 0 ? (c.pairs ? rows / 2 : 1) : rows;  // prefixes that are computed
  const auto width = static_cast<double>(m.num_attention_heads * m.head_dim),
             kv = static_cast<double>(m.num_key_value_heads * m.head_dim);
  const double weights =
      2 * hidden * width + 2 * hidden * kv + 3 * hidden * static_cast<double>(m.intermediate_size);
  const double tokens = groups * p + rows * own,
               pairs = groups * p * p / 2 + rows * (p * own + own * own / 2);
  const double asked = c.all_tokens ? tokens : rows * own;
  // a reference goes forward as well, and a preference's head twice
  const double again = c.pairs ? 2 : 0, linear = c.adapter ? 4 : 6;
  return static_cast<double>(m.num_hidden_layers) *
             (tokens * weights * (linear + again) + pairs * width * (14 + 2 * again)) +
         asked * hidden * static_cast<double>(m.vocab_size) * (c.adapter ? 4 + 2 * again : 6 + 2 * again);
}

struct Run {
  double seconds = 1e30, shared = 0;
};

void run(const Settings& s, const Case& c, const char* share, Run& best) {
  trl::config::Config config;
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"method", c.pairs ? "dpo" : "sft"},
           {"share_prefix", share},
           {"dtype", "float32"},
           {"bf16", "false"},
           {"optim", "sgd"},
           {"gradient_checkpointing", "false"},
           {"save_strategy", "no"},
           {"use_peft", c.adapter ? "true" : "false"},
           {"model_name_or_path", s.model},
           {"output_dir", std::filesystem::temp_directory_path().string()},
           {"max_steps", std::to_string(s.steps)}})
    config.set(key, value);
  const auto model = trl::model::Model::open(s.model, "float32");
  if (c.adapter) {
    const auto lora = trl::config::read_lora_config(
        trl::base::parse_json(R"({"r": 16, "target_modules": "all-linear"})", "bench"), "bench",
        trl::Status::format);
    trl::model::Adapter& adapter = model->adapters().add("default", lora, at::kFloat);
    adapter.start(1);
    model->train_only(adapter);
  }
  OneBatch rows = rows_of(c);
  trl::train::Setup setup;
  setup.arguments = trl::config::training_arguments(config);
  setup.model = model.get();
  setup.source = s.model;
  setup.train = &rows;
  trl::train::Trainer trainer(setup);
  for (int step = 0; step < s.steps; ++step) {
    const double begin = now();
    trainer.step();
    if (step > 0) best.seconds = std::min(best.seconds, now() - begin);
  }
  for (const trl::telemetry::Entry& entry : trainer.metrics().entries())
    if (entry.name == "shared_tokens") best.shared = entry.value;
}

void measure(const Settings& s, const Case& c) {
  Run alone, shared;
  interleave(2, s.rounds, [&](size_t i) { i == 0 ? run(s, c, "false", alone) : run(s, c, "auto", shared); });
  const auto config = trl::model::Model::outline(s.model, "float32").config;
  const double faster = alone.seconds / shared.seconds,
               fewer = operations(config, c, false) / operations(config, c, true);
  print({{"case", c.name},
         {"tokens", c.rows * (c.prefix + c.own)},
         {"shared_tokens", shared.shared},
         {"seconds_alone", alone.seconds},
         {"seconds_shared", shared.seconds},
         {"times_faster", faster},
         {"times_fewer_operations", fewer},
         {"share", faster / fewer}});
}

int run(int argc, char** argv) {
  Settings s;
  CLI::App app("Steps over rows that begin alike, apart and shared");
  app.add_option("--model", s.model, "directory, or random: the shape of Qwen2.5-0.5B")->required();
  app.add_option("--layers", s.layers, "of a random model")->check(CLI::Range(1, 1000));
  app.add_option("--tokenizer", s.tokenizer, "model directory, for a random model");
  app.add_option("--case", s.cases, "only these");
  app.add_option("--steps", s.steps, "of a run, the first of which does not count")
      ->check(CLI::Range(2, 1000));
  s.add_to(app);
  CLI11_PARSE(app, argc, argv);
  trl::tensor::set_threads(s.threads);
  const Scratch scratch(s.scratch);
  if (s.model == "random") {
    ModelShape shape = kQwen2_5_0_5B;
    shape.num_hidden_layers = s.layers;
    s.model = scratch.file("model");
    write_random_model(shape, s.tokenizer, s.model);
  }
  for (const Case& c : kCases)
    if (s.cases.empty() || std::count(s.cases.begin(), s.cases.end(), c.name) > 0) measure(s, c);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_bench("sharing_bench", [&] { return run(argc, argv); });
}
