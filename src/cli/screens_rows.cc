#include "cli/screens.h"

namespace trl::cli {

namespace {

Screen rows_screen() {
  return {"",
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
}

Screen profile_screen() {
  return {"",
          {kTokenizer, kRows},
          {{"max_lengths", "N ...", "the values of max_length to compare"},
           {"svg", "FILE", "writes the picture"},
           {"html", "FILE", "writes a page with it"},
           {"json", "", "the numbers as JSON"},
           kColumns,
           kQuiet},
          {"trl profile --model_name_or_path smollm2 --dataset_name rows.jsonl",
           "trl profile --config recipe.yaml --max_lengths 512 1024 --html lengths.html"}};
}

Screen tokenize_screen() {
  return {"",
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
}

Screen template_screen() {
  return {"",
          {kTokenizer, kRows},
          {{"row", "N", "which row, from 0"},
           {"json", "", "ids, labels and texts as JSON"},
           kColumns,
           {"chat_template_path", "FILE", "another chat template"},
           {"assistant_only_loss", "", "train on assistant turns alone"},
           kQuiet},
          {"trl template --model_name_or_path smollm2 --dataset_name rows.jsonl",
           "trl template --config recipe.yaml --row 3"}};
}

}  // namespace

void add_row_screens(Screens& screens) {
  screens["rows"] = rows_screen();
  screens["profile"] = profile_screen();
  screens["tokenize"] = tokenize_screen();
  screens["template"] = template_screen();
}

}  // namespace trl::cli
