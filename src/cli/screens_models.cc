#include "cli/screens.h"

namespace trl::cli {

namespace {

Screen generate_screen() {
  return {"",
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
}

Screen chat_screen() {
  return {"",
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
}

Screen vllm_serve_screen() {
  return {"",
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
}

Screen eval_screen() {
  std::vector<std::string> with_reference;
  for (const config::MethodRow* row : trainers())
    if (row->reference && row->evaluates) with_reference.emplace_back(row->name);
  return {"",
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
}

Screen convert_screen() {
  return {"",
          {{"model_name_or_path", "PATH", "a model directory, GGUF file or adapter"},
           {"output", "PATH", "the GGUF file, or the directory of a model"}},
          {{"type", "WORD", "f32, f16, bf16, q8_0 or q4_0"},
           {"save.kind", "WORD", "merged: an adapter goes into its model"},
           {"adapter_name_or_path", "DIR", "the adapter to merge"},
           {"base", "PATH", "the model of an adapter"},
           kQuiet},
          {"trl convert --model_name_or_path out --output out.gguf --type q8_0",
           "trl convert --model_name_or_path adapter --save.kind merged --output merged"}};
}

}  // namespace

void add_model_screens(Screens& screens) {
  screens["generate"] = generate_screen();
  screens["chat"] = chat_screen();
  screens["vllm-serve"] = vllm_serve_screen();
  screens["eval"] = eval_screen();
  screens["convert"] = convert_screen();
}

}  // namespace trl::cli
