#include <map>

#include "cli/arguments.h"
#include "cli/keys.h"

namespace trl::cli {

namespace {

const ScreenLine kModel{"model_name_or_path", "PATH",
                        "the model: a directory, a GGUF file or a name of the hub"};
const ScreenLine kTokenizer{"model_name_or_path", "PATH", "the model, for its tokenizer"};
const ScreenLine kRows{"dataset_name", "PATH", "the rows: a file, folder, glob or name of the hub"};
const ScreenLine kColumns{"dataset_columns", "MAP", "renames columns: '{question: prompt}'"};
const ScreenLine kQuiet{"quiet", "", "only warnings and errors"};
const ScreenLine kConfig{"config", "FILE", "a YAML or JSON file with these keys"};
const ScreenLine kLength{"max_length", "N", "tokens of a row that are kept"};

// Makes a trainer's screen from the lines of all trainers and its own.
Screen trainer(const config::MethodRow& row) {
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

// NOLINTNEXTLINE(readability-function-size): a table of screens
std::map<std::string, Screen> made() {
  std::map<std::string, Screen> screens;
  for (const config::MethodRow* row : trainers()) screens[command_of(*row)] = trainer(*row);
  std::vector<std::string> with_reference;
  for (const config::MethodRow* row : trainers())
    if (row->reference && row->evaluates) with_reference.emplace_back(row->name);
  const ScreenLine of_trainer{"method", "NAME", all_trainers("or") + ": of which trainer"};
  screens["validate"] = {
      "",
      {kModel, kRows},
      {of_trainer, {"all", "", "every key of the configuration"}, kConfig, kQuiet},
      {"trl validate --config recipe.yaml", "trl validate --config recipe.yaml --method dpo"}};
  screens["estimate"] = {"",
                         {kModel},
                         {of_trainer,
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
  screens["generate"] = {"",
                         {kModel},
                         {{"prompt", "TEXT ...", "texts to complete; - or none: stdin"},
                          {"prompts", "FILE", "a file of prompts: JSON Lines, or a text a line"},
                          {"json", "", "a line of JSON for each prompt"},
                          {"chat", "", "put each prompt into the chat template"},
                          {"system", "TEXT", "the system message before each prompt"},
                          {"num_return_sequences", "N", "completions of each prompt"},
                          {"max_new_tokens", "N", "tokens after which a completion ends"},
                          {"temperature", "X", "0: always the likeliest token"},
                          {"top_p", "X", "draw from the likeliest tokens"},
                          {"seed", "N", "seed of the draws"},
                          {"stop", "TEXT ...", "texts at which a completion ends"},
                          {"adapter_name_or_path", "DIR", "an adapter to use"},
                          {"load_in_4bit", "", "quantise the weights while loading"},
                          kQuiet},
                         {"trl generate --model_name_or_path out --chat --prompt \"Who are you?\"",
                          "trl generate --model_name_or_path out --prompts prompts.jsonl --json"}};
  screens["chat"] = {"",
                     {{"model_name_or_path", "PATH", "the model: a directory, an adapter's, or a GGUF file"}},
                     {{"system", "TEXT", "the system message before the conversation"},
                      {"max_new_tokens", "N", "tokens after which an answer ends"},
                      {"temperature", "X", "0: always the likeliest token"},
                      {"top_p", "X", "draw from the likeliest tokens"},
                      {"seed", "N", "seed of the draws"},
                      {"chat_template_path", "FILE", "another chat template"},
                      {"adapter_name_or_path", "DIR", "an adapter to use"},
                      {"load_in_4bit", "", "quantise the weights while loading"},
                      kQuiet},
                     {"trl chat --model_name_or_path out",
                      "trl chat --model_name_or_path out --system \"Be brief.\" --temperature 0.7"}};
  screens["vllm-serve"] = {
      "",
      {{"model_name_or_path", "PATH", "the model: a directory, an adapter's, or a GGUF file"}},
      {{"host", "ADDRESS", "where to listen [127.0.0.1]; 0.0.0.0: everywhere"},
       {"port", "N", "the port [8000]; 0: any"},
       {"api_key", "KEY ...", "keys that requests need"},
       {"model_names", "NAME ...", "names of the model in requests"},
       {"max_model_len", "N", "tokens of a prompt with its completion"},
       {"max_num_seqs", "N", "completions at once"},
       {"dtype", "WORD", "bfloat16, float32 ... [auto]"},
       {"load_in_4bit", "", "quantise the weights while loading"},
       kQuiet},
      {"trl vllm-serve --model out",
       "trl vllm-serve --model out --host 0.0.0.0 --api_key secret --max_num_seqs 16"}};
  screens["eval"] = {
      "",
      {{"model_name_or_path", "PATH", "the model: a directory, an adapter's, or a GGUF file"}, kRows},
      {{"splits", "NAMES", "splits, with commas between [test]"},
       {"method", "NAME", all_trainers("or") + ": whose metrics"},
       {"ref_model_name_or_path", "PATH", "the reference of " + listed(with_reference, "and")},
       {"load_in_4bit", "", "quantise the model while it is opened"},
       {"per_device_eval_batch_size", "N", "rows of a batch"},
       kLength,
       kColumns,
       {"json", "", "JSON on a terminal, too"},
       kConfig,
       kQuiet},
      {"trl eval --model_name_or_path out --dataset_name rows",
       "trl eval --config recipe.yaml --splits train,test"}};
  screens["rows"] = {"",
                     {kTokenizer, kRows},
                     {{"count", "N", "how many rows [3]"},
                      {"method", "NAME", all_trainers("or") + ": rows of which trainer"},
                      {"packing", "", "fill each row with several documents"},
                      kLength,
                      kColumns,
                      {"json", "", "ids, labels and texts as JSON"},
                      kConfig,
                      kQuiet},
                     {"trl rows --model_name_or_path smollm2 --dataset_name rows.jsonl",
                      "trl rows --config recipe.yaml --count 10"}};
  screens["convert"] = {"",
                        {{"model_name_or_path", "PATH", "a model directory, GGUF file or adapter"},
                         {"output", "PATH", "the GGUF file, or the directory of a model"}},
                        {{"type", "WORD", "f32, f16, bf16, q8_0 or q4_0"},
                         {"save.kind", "WORD", "merged: an adapter goes into its model"},
                         {"adapter_name_or_path", "DIR", "the adapter to merge"},
                         {"base", "PATH", "the model of an adapter"},
                         kQuiet},
                        {"trl convert --model_name_or_path out --output out.gguf --type q8_0",
                         "trl convert --model_name_or_path adapter --save.kind merged --output merged"}};
  screens["profile"] = {"",
                        {kTokenizer, kRows},
                        {{"max_lengths", "N ...", "the values of max_length to compare"},
                         {"svg", "FILE", "writes the picture"},
                         {"html", "FILE", "writes a page with it"},
                         {"json", "", "the numbers as JSON"},
                         kColumns,
                         kQuiet},
                        {"trl profile --model_name_or_path smollm2 --dataset_name rows.jsonl",
                         "trl profile --config recipe.yaml --max_lengths 512 1024 --html lengths.html"}};
  screens["tokenize"] = {"",
                         {kTokenizer},
                         {{"text", "TEXT", "the text; without it, stdin"},
                          {"plain", "", "without what the tokenizer adds by itself"},
                          {"split_special_tokens", "", "no special token is found in the text"},
                          {"json", "", "ids, pieces and texts as JSON"},
                          {"decode", "ID ...", "the text of ids; without them, of stdin's"},
                          kQuiet},
                         {"trl tokenize --model_name_or_path smollm2 --text \"some text\"",
                          "trl tokenize --model_name_or_path smollm2 --json <text.txt",
                          "trl tokenize --model_name_or_path smollm2 --decode 504 1451"}};
  screens["template"] = {"",
                         {kTokenizer, kRows},
                         {{"row", "N", "which row, from 0"},
                          {"json", "", "ids, labels and texts as JSON"},
                          kColumns,
                          {"chat_template_path", "FILE", "another chat template"},
                          {"assistant_only_loss", "", "train on assistant turns alone"},
                          kQuiet},
                         {"trl template --model_name_or_path smollm2 --dataset_name rows.jsonl",
                          "trl template --config recipe.yaml --row 3"}};
  screens["download"] = {
      "NAME [--KEY VALUE ...]",
      {},
      {{"revision", "NAME", "a branch, a tag or a commit [main]"},
       {"repo_type", "WORD", "model or dataset [model]"},
       {"hub", "off", "no network: what the cache holds is looked up alone"},
       kQuiet},
      {"trl download Qwen/Qwen2.5-0.5B", "trl download trl-lib/Capybara --repo_type dataset --revision main",
       "trl download https://huggingface.co/owner/name/blob/main/file.gguf"}};
  screens["options"] = {"[TRAINER | KEY | WORD | --schema [TRAINER]]",
                        {},
                        {},
                        {"trl options sft", "trl options learning_rate", "trl options lora",
                         "trl options --schema dpo >dpo.json"}};
  screens["env"] = {"", {}, {}, {"trl env", "trl env >report.json"}};
  screens["completion"] = {
      "bash | zsh | fish",
      {},
      {},
      {"source <(trl completion bash)", "trl completion fish >~/.config/fish/completions/trl.fish"}};
  screens["man"] = {"[COMMAND]", {}, {}, {"trl man sft | man -l -", "trl man >trl.1"}};
  screens["help"] = {"[COMMAND]", {}, {}, {"trl help", "trl help sft"}};
  screens["version"] = {"", {}, {}, {"trl version", "trl --version"}};
  return screens;
}

}  // namespace

const Screen& screen_of(const std::string& command) {
  static const std::map<std::string, Screen> kScreens = made();
  static const Screen kNone;
  const auto found = kScreens.find(command);
  return found == kScreens.end() ? kNone : found->second;
}

}  // namespace trl::cli
