#include "cli/keys.h"
#include "cli/screens.h"

namespace trl::cli {

namespace {

// Makes a trainer's screen from the lines of all trainers and its own.
Screen trainer_screen(const config::MethodRow& row) {
  Screen screen{"", {kModel, kRows}, {}, {}};
  if (*row.columns != '\0') screen.required.back().text = row.columns;
  for (const char* example : row.examples)
    if (example != nullptr) screen.examples.emplace_back(example);
  screen.common = {kConfig,
                   {"output_dir", "DIR", "where the model goes [trainer_output]"},
                   {"learning_rate", "X", "highest learning rate"},
                   {"num_train_epochs", "X", "passes over the rows"},
                   {"max_steps", "N", "steps in all; -1: by epochs"},
                   {"per_device_train_batch_size", "N", "rows of a micro-batch"},
                   {"gradient_accumulation_steps", "N", "micro-batches of a step"}};
  if (has_key(row.name, kLength.flag)) screen.common.push_back(kLength);
  for (const config::MethodFlag& own : row.flags)
    if (own.name != nullptr) screen.common.push_back({own.name, own.value, own.text});
  screen.common.push_back({"use_peft", "", "train a LoRA adapter, not all weights"});
  screen.common.push_back({"load_in_4bit", "", "QLoRA: quantise the frozen weights"});
  if (row.evaluates) {
    screen.common.push_back({"eval_dataset_name", "PATH", "rows to evaluate on"});
    screen.common.push_back({"eval_strategy", "WORD", "when: no, steps or epoch"});
  }
  const std::vector<ScreenLine> rest = {{"logging_steps", "X", "steps between records"},
                                        {"save_steps", "X", "steps between checkpoints"},
                                        {"resume_from_checkpoint", "DIR", "a checkpoint; true: the newest"},
                                        {"report_to", "WORD ...", "tensorboard, csv, jsonl, html"},
                                        {"dry_run", "", "print what the run would be, write nothing"},
                                        {"all", "", "with --dry_run: every key of it"},
                                        kQuiet};
  screen.common.insert(screen.common.end(), rest.begin(), rest.end());
  return screen;
}

ScreenLine trainer_line() { return {"method", "NAME", all_trainers("or") + ": of which trainer"}; }

Screen validate_screen() {
  return {"",
          {kModel, kRows},
          {trainer_line(), {"all", "", "every key of the configuration"}, kConfig, kQuiet},
          {"trl validate --config recipe.yaml", "trl validate --config recipe.yaml --method dpo"}};
}

Screen estimate_screen() {
  return {"",
          {kModel},
          {trainer_line(),
           kRows,
           kLength,
           {"max_steps", "N", "steps of the run"},
           {"report", "FILE", "writes a page with pictures (HTML)"},
           {"compare", "SET ...", "other options to compare, as optim=adamw_8bit"},
           {"json", "", "the numbers as JSON"},
           kConfig,
           kQuiet},
          {"trl estimate --model_name_or_path smollm2 --max_length 1024 --max_steps 1000",
           "trl estimate --config recipe.yaml --method dpo --report plan.html"}};
}

}  // namespace

void add_run_screens(Screens& screens) {
  for (const config::MethodRow* row : trainers()) screens[command_of(*row)] = trainer_screen(*row);
  screens["validate"] = validate_screen();
  screens["estimate"] = estimate_screen();
}

}  // namespace trl::cli
