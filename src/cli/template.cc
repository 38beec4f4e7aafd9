// trl template: one row as training sees it: its tokens, and those that are trained on.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/token_lines.h"

namespace trl::cli {

namespace {

int64_t row_number(const std::optional<std::string>& text) {
  if (!text) return 0;
  char* end = nullptr;
  const long long row = std::strtoll(text->c_str(), &end, 10);
  if (text->empty() || *end != '\0' || row < 0)
    throw Failure(kUsage, "--row: '" + *text + "' is not the number of a row; rows are counted from 0");
  return row;
}

}  // namespace

int template_command(const Words& words) {
  Config config;
  Error error;
  std::optional<std::string> row;
  bool json = false;
  const CommandLine line{
      "template",
      "Print a row of a dataset as training sees it, one token a line: its id, whether it is "
      "trained on, its piece as in the vocabulary, and what it adds to the text, both as JSON.",
      "",
      {"ScriptArguments", "DatasetMixtureConfig", "runtime"},
      {"model_name_or_path", "dataset_columns", "dataset_select_columns", "dataset_text_field",
       "dataset_kwargs", "chat_template", "chat_template_path", "eos_token", "pad_token",
       "completion_only_loss", "assistant_only_loss", "max_length", "truncation_mode"},
      {{"row", "Which row, from 0", &row}},
      {{"json", "Print input_ids, labels, pieces and texts as one JSON object", &json}},
      {},
      true,
      Opens::tokenizers};
  if (parse(line, words, config)) return 0;
  need_tokenizer(config);
  const int64_t wanted = row_number(row);
  const Interrupt interrupt("stopped");
  Runtime runtime;
  open_runtime(config, runtime);
  Tokenizer tokenizer;
  open_tokenizer(config, runtime, tokenizer);
  Dataset dataset, eval;
  open_rows(config, runtime, dataset, eval);
  const char* text = nullptr;
  check(trl_dataset_get_example(dataset.get(), tokenizer.get(), config.get(), wanted, &text, error.out()),
        error);
  if (json) return print(std::string(text) + "\n"), 0;
  const auto example = nlohmann::json::parse(text);
  for (size_t i = 0; i < example["input_ids"].size(); ++i)
    print_token({example["input_ids"][i], example["labels"][i].get<int32_t>() >= 0, example["pieces"][i],
                 example["texts"][i]});
  return 0;
}

}  // namespace trl::cli
