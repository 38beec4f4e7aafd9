// trl rows: prepared rows as the trainer will see them, in their order of training. trl template: one row as
// training sees it, token by token.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/open_runtime.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

using Json = nlohmann::json;

// Returns the number in text, at least `least`; without a text, otherwise.
int64_t number_of(const std::optional<std::string>& text, int64_t least, int64_t otherwise, const char* flag,
                  const char* expected) {
  if (!text) return otherwise;
  char* end = nullptr;
  const long long number = std::strtoll(text->c_str(), &end, 10);
  if (text->empty() || *end != '\0' || number < least)
    throw Failure(kUsage, fmt::format("--{}: '{}' {}", flag, *text, expected));
  return number;
}

// Sets one prepared row per batch, unless rows exchange their completions within a batch.
void one_row_a_batch(const Config& config, const config::MethodRow& trainer) {
  if (*trainer.exchanging_loss != '\0') return;
  set(config, "per_device_train_batch_size", "1");
}

// Returns trained text in green, or between brackets without colours; a line break is shown and made.
std::string text_of(const Json& sequence, bool colours) {
  const char *const begin = colours ? "\033[32m" : "[", *const end = colours ? "\033[0m" : "]";
  std::string text;
  bool inside = false;
  for (size_t i = 0; i < sequence["input_ids"].size(); ++i) {
    const bool trained = sequence["labels"][i].get<int32_t>() >= 0;
    if (trained != inside) text += trained ? begin : end;
    inside = trained;
    for (const char c : sequence["texts"][i].get_ref<const std::string&>())
      if (c == '\n')
        text += "\\n\n";
      else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        text += fmt::format("\\x{:02x}", c);
      else
        text += c;
  }
  return inside ? text + end : text;
}

void print_row(const Json& batch, const config::MethodRow& trainer, bool colours) {
  std::string rows;
  for (const Json& row : batch["row_ids"]) rows += fmt::format("{}{}", rows.empty() ? "" : ", ", row.dump());
  print(fmt::format("--- batch {}, {} {} of the dataset\n", batch["batch"].dump(),
                    batch["row_ids"].size() == 1 ? "row" : "rows", rows));
  const size_t sequences = batch["sequences"].size(), half = sequences / 2;
  for (size_t i = 0; i < sequences; ++i) {
    const Json& sequence = batch["sequences"][i];
    const auto tokens = static_cast<int64_t>(sequence["input_ids"].size());
    int64_t trained = 0;
    for (const Json& label : sequence["labels"]) trained += label.get<int32_t>() >= 0 ? 1 : 0;
    const char* const name = trainer.sequences == 2 ? (i < half ? "chosen" : "rejected")
                             : sequences > 1        ? "document"
                                                    : "row";
    std::string head =
        fmt::format("{}: {} token{}, {} trained on", name, tokens, tokens == 1 ? "" : "s", trained);
    if (batch["whole_lengths"].is_array() && batch["row_ids"].size() == sequences) {
      const auto whole = batch["whole_lengths"][i].get<int64_t>();
      if (whole > tokens) head += fmt::format(", cut from {}", whole);
    }
    print(head + "\n" + text_of(sequence, colours) + "\n");
  }
}

struct RowPrinter {
  const config::MethodRow& trainer;
  bool json, colours;
};

int32_t show(void* any, const char* json, size_t size) {
  const auto& shown = *static_cast<const RowPrinter*>(any);
  if (!shown.json) {
    print_row(Json::parse(json, json + size), shown.trainer, shown.colours);
    return 0;
  }
  return print(std::string(json, size) + "\n") ? 0 : 1;
}

}  // namespace

int rows(const Words& words) {
  Config config;
  Error error;
  const std::string method = trainer_of(words);
  set(config, "method", method);
  std::optional<std::string> count;
  bool json = false;
  const CommandLine line{
      "rows",
      "Print prepared rows as the trainer will see them, in their order of training: the text, with what is "
      "trained on in green (in brackets where there are no colours), documents of packed rows apart, and "
      "what was cut. --method " +
          other_trainers() + ": the rows of that trainer.",
      method,
      {"runtime"},
      {},
      {{"count", "How many rows (default 3)", &count}},
      {{"json", "Print one JSON object a row, with ids, labels, pieces and texts", &json}}};
  if (parse(line, words, config)) return 0;
  need_tokenizer(config);
  const int64_t wanted =
      number_of(count, 1, 3, "count", "is not a number of rows; an integer from 1 on is accepted");
  const config::MethodRow& trainer = *config::find_method(method);
  one_row_a_batch(config, trainer);
  Interrupt interrupt("stopped");
  const OpenRows opened(config, &interrupt);
  RowPrinter shown{trainer, json, isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr};
  check(trl_dataset_visit_batches(opened.train.get(), opened.tokenizer.get(), config.get(), 0, wanted, show,
                                  &shown, error.out()),
        error);
  return 0;
}

int template_command(const Words& words) {
  Config config;
  Error error;
  std::optional<std::string> row;
  bool json = false;
  const CommandLine line{
      "template",
      "Print a row of a dataset as training sees it, one token a line: its id, whether it is trained on, its "
      "piece as in the vocabulary, and what it adds to the text, both as JSON.",
      "",
      {"ScriptArguments", "DatasetMixtureConfig", "runtime"},
      {"model_name_or_path", "dataset_columns", "dataset_select_columns", "dataset_text_field",
       "dataset_kwargs", "split_special_tokens", "chat_template", "chat_template_path", "eos_token",
       "pad_token", "completion_only_loss", "assistant_only_loss", "max_length", "truncation_mode"},
      {{"row", "Which row, from 0", &row}},
      {{"json", "Print input_ids, labels, pieces and texts as one JSON object", &json}},
      {},
      true,
      Opens::tokenizers};
  if (parse(line, words, config)) return 0;
  need_tokenizer(config);
  const int64_t wanted = number_of(row, 0, 0, "row", "is not the number of a row; rows are counted from 0");
  const Interrupt interrupt("stopped");
  const OpenRows rows(config);
  const char* text = nullptr;
  check(trl_dataset_get_example(rows.train.get(), rows.tokenizer.get(), config.get(), wanted, &text,
                                error.out()),
        error);
  if (json) return print(std::string(text) + "\n"), 0;
  const Json example = Json::parse(text);
  for (size_t i = 0; i < example["input_ids"].size(); ++i)
    print_token({example["input_ids"][i], example["labels"][i].get<int32_t>() >= 0, example["pieces"][i],
                 example["texts"][i]});
  return 0;
}

}  // namespace trl::cli
