// Configuration files: YAML and JSON, nested datasets, untrusted bytes.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "config/config.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

Config loaded(std::string_view text) {
  Config config;
  config.load_text(text, "x.yaml");
  return config;
}

std::string refusal(std::string_view text, Status status = Status::invalid_config) {
  Config config;
  config.set("seed", "7");
  config.set("run_name", "a");
  try {
    config.load_text(text, "x.yaml");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), status) << error.message();
    EXPECT_EQ(error.message().find('\n'), std::string::npos);
    EXPECT_EQ(config.to_json(), "{\"run_name\":\"a\",\"seed\":7}");
    EXPECT_EQ(config.warnings().size(), 1u);
    return error.message();
  }
  ADD_FAILURE() << "taken: " << text;
  return {};
}

TEST(Load, ReadsYaml) {
  const Config config = loaded(
      "# comment\nlearning_rate: 2.0e-05\nmax_steps: 1_000\neval_strategy: no\nsave_strategy: 'no'\n"
      "logging_first_step: on\nbf16: Yes\nmax_length: ~\neos_token: \"<|im_end|>\"\nreport_to:\n- none\n"
      "lr_scheduler_kwargs:\n  num_cycles: 0.5\nhub_model_id:\n");
  EXPECT_EQ(
      config.to_json(),
      "{\"bf16\":true,\"eos_token\":\"<|im_end|>\",\"eval_strategy\":\"no\",\"hub_model_id\":null,"
      "\"learning_rate\":2e-05,\"logging_first_step\":true,\"lr_scheduler_kwargs\":{\"num_cycles\":0.5},"
      "\"max_length\":null,\"max_steps\":1000,\"report_to\":[\"none\"],\"save_strategy\":\"no\"}");
  EXPECT_TRUE(config.warnings().empty());
}

TEST(Load, ReadsListsOfWords) {
  for (const char* text : {"loss_type: [sigmoid, sft]\nloss_weights: [1.0, 0.5]\nmethod: dpo\n",
                           "method: dpo\nloss_type:\n- sigmoid\n- sft\nloss_weights:\n- 1\n- 0.5\n",
                           "method: dpo\nloss_type: sigmoid,sft\nloss_weights: 1,0.5\n",
                           "method: dpo\nloss_type: 'sigmoid,  sft'\nloss_weights: 1 0.5\n",
                           "method: dpo\nloss_type: sigmoid sft\nloss_weights: '1, 0.5'\n"}) {
    const TrainingArguments arguments = training_arguments(loaded(text));
    EXPECT_EQ(arguments.preference.losses,
              (std::vector<std::pair<std::string, double>>{{"sigmoid", 1}, {"sft", 0.5}}));
  }
  EXPECT_EQ(refusal("optim: [adamw_torch]\n").substr(0, 44),
            "x.yaml:1: optim: '[\"adamw_torch\"]' is not ac");
}

// Null is not the word "null", and not a text of a key that needs one.
TEST(Load, RefusesNullInPlaceOfText) {
  for (const char* text :
       {"dataset_text_field: null\n", "dataset_text_field:\n", "{\"dataset_text_field\": null}"})
    EXPECT_EQ(refusal(text), "x.yaml:1: dataset_text_field: 'null' is not accepted; give text") << text;
  EXPECT_EQ(refusal("lora_target_modules: [q_proj, null]\n").substr(0, 54),
            "x.yaml:1: lora_target_modules: '[\"q_proj\",null]' is no");
  EXPECT_EQ(loaded("dataset_text_field: 'null'\n").get("dataset_text_field"), "null");
  for (const char* key : {"model_revision", "dataset_revision"})  // main, as in transformers
    EXPECT_EQ(loaded(fmt::format("{}: null\n", key)).get(key), "null") << key;
  EXPECT_EQ(loaded("dataset_configs: [null, a]\n").get_list("dataset_configs"),
            (std::vector<std::string>{"null", "a"}));
}

TEST(Load, ReadsNamesOfFilesInPlaceOfMappings) {
  for (const char* text : {"fsdp_config: 1\n", "fsdp_config: '1'\n", "{\"fsdp_config\": \"1\"}"})
    EXPECT_EQ(loaded(text).get("fsdp_config"), "\"1\"") << text;
}

TEST(Load, ReadsJson) {
  const Config config = loaded(
      "\xEF\xBB\xBF{\n\t\"max_steps\": 5,\n\t\"eos_token\": \"\\ud83d\\ude00\", \"bf16\": false,\n"
      "  \"chat_template\": \"a\\\\ud83d\\n{{ b }}\\/\", \"max_length\": null}");
  EXPECT_EQ(config.get("eos_token"), "\xF0\x9F\x98\x80");
  EXPECT_EQ(config.get("chat_template"), "a\\ud83d\n{{ b }}/");
  EXPECT_EQ(config.get_int("max_steps"), 5);
  EXPECT_FALSE(config.get_bool("bf16"));
  EXPECT_FALSE(config.get_optional_int("max_length").has_value());
}

TEST(Load, KeepsTextAsItIsWritten) {
  EXPECT_EQ(loaded("eos_token: 0x10\n").get("eos_token"), "0x10");
  EXPECT_EQ(loaded("run_name: 007\n").get("run_name"), "007");
  EXPECT_EQ(loaded("run_name: yes\n").get("run_name"), "yes");
  EXPECT_EQ(loaded("chat_template: |\n  {% if a %}\n  x\n  {% endif %}\n").get("chat_template"),
            "{% if a %}\nx\n{% endif %}\n");
}

TEST(Load, ACarriageReturnAloneEndsALine) {
  for (const char* text :
       {"seed: 6\rmax_steps: 3\rrun_name: 'a b'\r", "seed: 6\r\nmax_steps: 3\rrun_name: 'a\rb'",
        "seed: 6 # of all\r\rmax_steps: 3\r\nrun_name: \"a\r b\"\r\n"}) {
    const Config config = loaded(text);
    EXPECT_EQ(config.get("seed"), "6");
    EXPECT_EQ(config.get("max_steps"), "3");
    EXPECT_EQ(config.get("run_name"), "a b");
  }
  EXPECT_EQ(loaded("run_name: \"a\\rb\"\r").get("run_name"), "a\rb");
  EXPECT_EQ(refusal("seed: 1\r\nbf16: true\rlearning_rate: fast\r"),
            "x.yaml:3: learning_rate: 'fast' is not accepted; give a number >= 0");
}

// yaml-cpp's nodes must not be moved onto each other: the keys between two of one name keep their values.
TEST(Load, AKeyGivenTwiceLeavesTheOthersAlone) {
  for (const char* text :
       {"seed: 6\nrun_name: a\noutput_dir: y\nlogging_dir: z\nseed: 2\n",
        R"({"seed": 6, "run_name": "a", "output_dir": "y", "logging_dir": "z", "seed": 2})"}) {
    const Config config = loaded(text);
    EXPECT_EQ(config.get("seed"), "2");
    EXPECT_EQ(config.get("run_name"), "a");
    EXPECT_EQ(config.get("output_dir"), "y");
    EXPECT_EQ(config.get("logging_dir"), "z");
  }
}

TEST(Load, ErrorsNameFileLineAndKey) {
  EXPECT_EQ(refusal("seed: 1\nlearning_rate: fast\n"),
            "x.yaml:2: learning_rate: 'fast' is not accepted; give a number >= 0");
  EXPECT_EQ(refusal("seed: 1\n\nlearning_rat: 1\n"),
            "x.yaml:3: 'learning_rat': unknown key; the nearest is learning_rate");
  EXPECT_EQ(refusal("fp16: true\n").substr(0, 34), "x.yaml:1: fp16: 'true' is refused:");
  EXPECT_EQ(refusal("learning_rate: [1]\n"),
            "x.yaml:1: learning_rate: '[1]' is not accepted; give a number >= 0");
  EXPECT_EQ(refusal("eos_token:\n  a: b\n"),
            "x.yaml:1: eos_token: '{\"a\":\"b\"}' is not accepted; give text, or null");
  EXPECT_EQ(
      refusal("report_to: {a: b}\n"),
      "x.yaml:1: report_to: '{\"a\":\"b\"}' is not accepted; give a list of none, all, "
      "tensorboard, csv, jsonl, html, azure_ml, clearml, codecarbon, comet_ml, dagshub, dvclive, flyte, "
      "mlflow, neptune, swanlab, trackio, wandb, or null");
  EXPECT_EQ(
      refusal("max_seq_length: 10\nmax_length: 20\n"),
      "x.yaml:2: max_seq_length and max_length are one key with two values, '10' and '20': give one of them");
  EXPECT_EQ(refusal("max-length: 10\nmax_seq_length: 20\n").substr(0, 40),
            "x.yaml:2: max_length and max_seq_length ");
  EXPECT_EQ(refusal("config: other.yaml\n").substr(0, 47), "x.yaml:1: config: 'other.yaml' is refused: a co");
}

TEST(Load, TheLastOfAKeyGivenTwiceCountsWithAWarning) {
  Config config;
  config.load_text("seed: 1\nmax_steps: 2\nseed: 3\nlr_scheduler_kwargs:\n  num_cycles: 1\n  num_cycles: 2\n",
                   "x.yaml");
  EXPECT_EQ(config.get_int("seed"), 3);
  EXPECT_EQ(config.get_pairs("lr_scheduler_kwargs"),
            (std::vector<std::pair<std::string, std::string>>{{"num_cycles", "2"}}));
  EXPECT_EQ(config.warnings(),
            (std::vector<std::string>{
                "x.yaml:3: seed: the key is given twice, first in line 1; this one counts",
                "x.yaml:6: num_cycles: the key is given twice, first in line 5; this one counts"}));
}

TEST(Load, DashesAndUnderscoresAreOneKey) {
  Config config;
  config.load_text("max-length: 10\nmax_length: 12\n", "x.yaml");
  EXPECT_EQ(config.get_int("max_length"), 12);
  EXPECT_EQ(config.warnings(),
            (std::vector<std::string>{
                "x.yaml:2: max_length: the key is given twice, first in line 1; this one counts"}));
}

TEST(Load, IntegersOfOtherBasesAreThoseOfPyYaml) {
  const Config config = loaded(
      "max_length: 010\nseed: 0x1F\nmax_steps: 0b1_01\nlogging_steps: 09\nrun_name: 010\n"
      "lr_scheduler_kwargs: {num_cycles: 011, lr_end: '011'}\n");
  EXPECT_EQ(config.get_int("max_length"), 8);
  EXPECT_EQ(config.get_int("seed"), 31);
  EXPECT_EQ(config.get_int("max_steps"), 5);
  EXPECT_EQ(config.get_double("logging_steps"), 9);
  EXPECT_EQ(config.get("run_name"), "010");
  EXPECT_EQ(config.get_pairs("lr_scheduler_kwargs"),
            (std::vector<std::pair<std::string, std::string>>{{"num_cycles", "9"}, {"lr_end", "011"}}));
}

TEST(Load, RefusesWhatIsNoMapping) {
  EXPECT_EQ(refusal("- a\n- b\n"), "x.yaml: a configuration is a mapping (key: value), and this is a list");
  EXPECT_EQ(refusal("text\n"),
            "x.yaml: a configuration is a mapping (key: value), and this is a single value");
  EXPECT_EQ(refusal(""), "x.yaml: a configuration is a mapping (key: value), and this is empty");
  EXPECT_EQ(refusal("# nothing\n"), "x.yaml: a configuration is a mapping (key: value), and this is empty");
  EXPECT_EQ(refusal("seed: 1\n---\nseed: 2\n", Status::format).substr(0, 9), "x.yaml:2:");
  EXPECT_EQ(refusal("? [a]\n: 1\n", Status::format), "x.yaml:1: a key must be a text");
}

TEST(Load, SurvivesHostileBytes) {
  EXPECT_NE(refusal("seed: [1\n", Status::format).find("not valid YAML"), std::string::npos);
  EXPECT_NE(refusal("seed: 'a\n", Status::format).find("not valid YAML"), std::string::npos);
  EXPECT_NE(refusal("run_name: \"a\nmax_steps: 1\n", Status::format).find("not valid YAML"),
            std::string::npos);
  EXPECT_NE(refusal("seed: *a\n", Status::format).find("not valid YAML"), std::string::npos);
  EXPECT_EQ(refusal("a: \xFF\n", Status::format), "x.yaml: byte 3 is not valid UTF-8");
  EXPECT_EQ(refusal(std::string("a: b\0c\n", 7), Status::format), "x.yaml: holds a NUL character");
  EXPECT_EQ(refusal("{seed: }{a: b}\n", Status::format),
            "x.yaml:1: more text after the end of the document; give one mapping");
  refusal("seed: }{a: b}\n", Status::format);
  std::string deep = "env: ";
  for (int i = 0; i < 100000; ++i) deep += '[';
  refusal(deep, Status::format);
  std::string nested = "env: ";
  for (int i = 0; i < 100; ++i) nested += "{a: ";
  for (int i = 0; i < 100; ++i) nested += "}";
  EXPECT_EQ(refusal(nested, Status::format), "x.yaml:1: nested too deeply");
  std::string bomb = "env:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 20; ++i) {
    bomb += fmt::format("  a{}: &a{} [", i, i);
    for (int j = 0; j < 10; ++j) bomb += fmt::format("{}*a{}", j == 0 ? "" : ", ", i - 1);
    bomb += "]\n";
  }
  EXPECT_NE(refusal(bomb, Status::format).find("too many values"), std::string::npos);
  refusal("env: &a\n  b: *a\n", Status::format);
  refusal("env:\n  <<: 1\n", Status::format);
}

TEST(Load, MergesMappings) {
  const Config config = loaded("env: &base {A: x, B: y}\n");
  EXPECT_EQ(config.get("env"), R"({"A":"x","B":"y"})");
  const Config merged = loaded("env:\n  <<: {A: x, B: y}\n  B: z\n");
  EXPECT_EQ(merged.get("env"), R"({"B":"z","A":"x"})");
}

TEST(Load, FileOverridesAndIsOverridden) {
  Config config;
  config.set("max_seq_length", "5");
  config.load_text("max_length: 10\nseed: 3\n", "a.yaml");
  EXPECT_EQ(config.get_int("max_length"), 10);
  config.load_text("max_seq_length: 20\n", "b.yaml");
  EXPECT_EQ(config.get_int("max_length"), 20);
  config.set("max_length", "30");
  EXPECT_EQ(config.get_int("max_length"), 30);
  EXPECT_EQ(config.get_int("seed"), 3);
}

TEST(Load, Files) {
  const std::string path = ::testing::TempDir() + "config_load_test.json";
  base::write_file(path, "{\"max_steps\": 3}");
  Config config;
  config.load_file(path);
  EXPECT_EQ(config.get_int("max_steps"), 3);
  base::remove_tree(path);
  try {
    config.load_file(path);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::not_found);
    EXPECT_NE(error.message().find(path), std::string::npos);
  }
  EXPECT_THROW(config.load_file(::testing::TempDir()), Error);
}

}  // namespace
}  // namespace trl::config
