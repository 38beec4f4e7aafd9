#include <filesystem>

#include "generate/local.h"
#include "train/one_batch.h"
#include "train/trainer/trainer.h"

namespace trl::bench {

namespace {

constexpr int64_t kRows = 8;
constexpr int kSteps = 3;  // of a run, the first of which does not count

void run(const GenerateSettings& s, const Form& form, const Workload& rows, const char* exact,
         std::vector<double>& seconds) {
  config::Config config;
  for (const auto& [key, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"method", "sft"},
           {"generation_exact", exact},
           {"dtype", form.dtype},
           {"bf16", form.dtype == "bfloat16" ? "true" : "false"},
           {"optim", "sgd"},
           {"gradient_checkpointing", "false"},
           {"save_strategy", "no"},
           {"model_name_or_path", s.model},
           {"output_dir", std::filesystem::temp_directory_path().string()},
           {"max_steps", std::to_string(kSteps)}})
    config.set(key, value);
  const auto model = model::Model::open(s.model, form.dtype);
  OneBatch batch;
  for (const std::vector<int32_t>& ids : rows.prompts) batch.add_row(ids, ids);
  train::Setup setup;
  setup.arguments = config::training_arguments(config);
  setup.model = model.get();
  setup.source = s.model;
  setup.train = &batch;
  train::Trainer trainer(setup);
  for (int step = 0; step < kSteps; ++step) {
    const double begin = now();
    trainer.step();
    if (step > 0) seconds.push_back(now() - begin);
  }
}

}  // namespace

void measure_exact(const GenerateSettings& s, const Form& form, Prompts& prompts) {
  const Workload rows = equal_texts(prompts, kRows, s.row, 0);
  std::vector<double> plain, exact;
  interleave(2, s.rounds, [&](size_t i) {
    i == 0 ? run(s, form, rows, "false", plain) : run(s, form, rows, "true", exact);
  });
  print({{"bench", "exact"},
         {"weights", form.name},
         {"rows", kRows},
         {"row_tokens", s.row},
         {"plain_seconds", median(plain)},
         {"exact_seconds", median(exact)},
         {"ratio", median(exact) / median(plain)}});
}

}  // namespace trl::bench
