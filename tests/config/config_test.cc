// Setting and reading single values.
#include <gtest/gtest.h>

#include "base/error.h"
#include "config/config.h"
#include "config/sizes_and_paths.h"
#include "config/table/option_value.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

// The message of the error that setting the value gives, which names the key and leaves the configuration
// alone.
std::string refusal(std::string_view key, std::string_view value) {
  Config config;
  config.set("seed", "7");
  try {
    config.set(key, value);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_config) << key;
    EXPECT_EQ(error.key().empty(), key.empty()) << key;
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << key;
    EXPECT_EQ(config.to_json(), "{\"seed\":7}") << key;
    return error.message();
  }
  ADD_FAILURE() << key << " took " << value;
  return {};
}

std::string taken(std::string_view key, std::string_view value) {
  Config config;
  config.set(key, value);
  EXPECT_TRUE(config.warnings().empty()) << config.warnings().front();
  return config.get(key);
}

std::string warning(std::string_view key, std::string_view value) {
  Config config;
  config.set(key, value);
  EXPECT_EQ(config.warnings().size(), 1u) << key;
  return config.warnings().empty() ? "" : config.warnings().front();
}

TEST(Config, ReadsNumbers) {
  EXPECT_EQ(taken("learning_rate", "2e-4"), "2e-04");
  EXPECT_EQ(taken("learning_rate", "1.0e-05"), "1e-05");
  EXPECT_EQ(taken("learning_rate", "0.0002"), "2e-04");
  EXPECT_EQ(taken("learning_rate", "-0.0"), "0");
  EXPECT_EQ(taken("num_train_epochs", "1"), "1");
  EXPECT_EQ(taken("max_steps", "1_000"), "1000");
  EXPECT_EQ(taken("max_steps", "10.0"), "10");
  EXPECT_EQ(taken("max_steps", "1e3"), "1000");
  EXPECT_EQ(taken("seed", "4294967295"), "4294967295");
  EXPECT_EQ(taken("data_seed", "9223372036854775807"), "9223372036854775807");
  EXPECT_EQ(taken("data_seed", "1e17"), "100000000000000000");
  EXPECT_EQ(taken("data_seed", "9007199254740993.0"), "9007199254740993");
  EXPECT_EQ(taken("data_seed", "922337203685477580.7e1"), "9223372036854775807");
  EXPECT_EQ(taken("save_total_limit", "-9.223372036854775808e18"), "-9223372036854775808");
  EXPECT_EQ(taken("pad_to_multiple_of", "8"), "8");
  EXPECT_EQ(taken("pad_to_multiple_of", "auto"), "auto");
  Config config;
  config.set("learning_rate", "3e-5");
  EXPECT_DOUBLE_EQ(config.get_double("learning_rate"), 3e-5);
  EXPECT_EQ(config.get_int("per_device_train_batch_size"), 8);
  EXPECT_EQ(config.get_optional_int("max_length"), 1024);
}

TEST(Config, RefusesWhatIsNoNumberOrOutOfRange) {
  EXPECT_EQ(refusal("learning_rate", "fast"), "learning_rate: 'fast' is not accepted; give a number >= 0");
  EXPECT_EQ(refusal("learning_rate", "-1"), "learning_rate: '-1' is not accepted; give a number >= 0");
  for (const std::string_view bad : {"nan", "inf", "1e999", "0x10", "1,5", "1 ", "true", "1__0", "_1"}) {
    refusal("learning_rate", bad);
  }
  EXPECT_EQ(refusal("max_steps", "2.5"),
            "max_steps: '2.5' is not accepted; give an integer in [-1, 9000000000]");
  EXPECT_EQ(refusal("max_steps", "-2"),
            "max_steps: '-2' is not accepted; give an integer in [-1, 9000000000]");
  for (const std::string_view bad : {"9223372036854775808", "9.3e18", "9007199254740993.5", "1e-1"})
    EXPECT_EQ(refusal("data_seed", bad),
              fmt::format("data_seed: '{}' is not accepted; give an integer >= 0, or null", bad));
  EXPECT_EQ(refusal("max_steps", "1e300"),
            "max_steps: '1e300' is not accepted; give an integer in [-1, 9000000000]");
  EXPECT_EQ(refusal("per_device_train_batch_size", "0"),
            "per_device_train_batch_size: '0' is not accepted; give an integer in [1, 1000000000]");
  EXPECT_EQ(refusal("adam_beta2", "1"), "adam_beta2: '1' is not accepted; give a number in [0, 1)");
  EXPECT_EQ(refusal("generate.top_p", "0"), "generate.top_p: '0' is not accepted; give a number in (0, 1]");
  EXPECT_EQ(refusal("seed", "4294967296"),
            "seed: '4294967296' is not accepted; give an integer in [0, 4294967295]");
  EXPECT_EQ(refusal("max_length", "0"), "max_length: '0' is not accepted; give an integer > 0, or null");
  EXPECT_EQ(refusal("learning_rate", "null"), "learning_rate: 'null' is not accepted; give a number >= 0");
  EXPECT_EQ(refusal("pad_to_multiple_of", "some"),
            "pad_to_multiple_of: 'some' is not accepted; give auto or an integer in [1, 1048576], "
            "or null");
}

TEST(Config, ReadsBooleansAsYaml11) {
  for (const std::string_view yes : {"true", "True", "yes", "on", "ON", "1", "y"}) {
    EXPECT_EQ(taken("logging_first_step", yes), "true") << yes;
  }
  for (const std::string_view no : {"false", "FALSE", "no", "off", "0", "n"}) {
    EXPECT_EQ(taken("logging_first_step", no), "false") << no;
  }
  EXPECT_EQ(refusal("logging_first_step", "flase"),
            "logging_first_step: 'flase' is not accepted; give true or false");
  EXPECT_EQ(taken("bf16", "none"), "null");
  EXPECT_EQ(refusal("logging_first_step", "null"),
            "logging_first_step: 'null' is not accepted; give true or false");
}

TEST(Config, ReadsChoices) {
  for (const std::string_view no : {"no", "No", "off", "false"}) {
    EXPECT_EQ(taken("eval_strategy", no), "no") << no;
    EXPECT_EQ(taken("save_strategy", no), "no") << no;
    EXPECT_EQ(taken("logging_strategy", no), "no") << no;
  }
  EXPECT_EQ(taken("fused_kernels", "on"), "on");
  EXPECT_EQ(taken("fused_kernels", "true"), "on");
  EXPECT_EQ(refusal("eval_strategy", "true"),
            "eval_strategy: 'true' is not accepted; give one of no, steps, epoch");
  EXPECT_EQ(refusal("truncation_mode", "bogus"),
            "truncation_mode: 'bogus' is not accepted; give one of keep_end, keep_start");
}

// To all other keys it is Python's None.
TEST(Config, NoneIsAValueOfTheKeysThatListIt) {
  std::vector<std::string_view> listing;
  for (const Option& option : options()) {
    if (!option.nullable) continue;
    const std::vector<std::string_view> words = split_words(option.accepted, '|');
    if (std::find(words.begin(), words.end(), "none") != words.end()) {
      listing.push_back(option.name);
      continue;
    }
    for (const std::string_view none : {"none", "None", "NONE"})
      EXPECT_EQ(canonical_value(option, option.name, none), "null") << option.name;
  }
  EXPECT_EQ(listing, (std::vector<std::string_view>{"report_to", "generate.adapter"}));
  EXPECT_EQ(taken("generate.adapter", "none"), "none");
  EXPECT_EQ(taken("generate.adapter", "None"), "null");
  EXPECT_EQ(taken("generate.adapter", ""), "null");
  EXPECT_EQ(taken("generate.adapter", "mine"), "mine");
}

TEST(Config, AnEmptyOutputDirIsRefused) {
  EXPECT_EQ(refusal("output_dir", ""),
            "output_dir: it is empty; give a directory, or null for trainer_output");
  EXPECT_EQ(taken("output_dir", "null"), "null");
  EXPECT_EQ(taken("dataset_cache_dir", ""), "null");
}

TEST(Config, UnsetIsAsIfItHadNeverBeenSet) {
  Config config;
  config.set("max_seq_length", "77");
  config.set("report_to", "wandb");
  EXPECT_EQ(config.warnings().size(), 1u);
  config.unset("max-length");
  config.unset("report_to");
  config.unset("seed");
  EXPECT_EQ(config.get("max_length"), "1024");
  EXPECT_EQ(config.origin("max_length"), "default");
  EXPECT_FALSE(config.is_set("max_length"));
  EXPECT_TRUE(config.warnings().empty());
  EXPECT_EQ(config.to_json(), "{}");
  config.set("max_length", "9");  // no second value of one key
  config.set("method", "dpo");
  config.unset("method");
  EXPECT_STREQ(config.method().name, "sft");
  EXPECT_THROW(config.unset("max_lenth"), Error);
}

TEST(Config, ReadsListsAndMaps) {
  for (const std::string_view text : {"[a, b]", "a,b", "a b", "a, b", "[\"a\", \"b\"]", "['a', b]"}) {
    EXPECT_EQ(taken("dataset_select_columns", text), "[\"a\",\"b\"]") << text;
  }
  EXPECT_EQ(taken("report_to", "none"), "[\"none\"]");
  EXPECT_EQ(taken("report_to", "None"), "null");
  EXPECT_EQ(taken("report_to", "null"), "null");
  EXPECT_EQ(taken("report_to", "[none]"), "[\"none\"]");
  EXPECT_EQ(taken("report_to", "[]"), "[]");
  refusal("dataset_select_columns", "[a");
  refusal("dataset_select_columns", "{a: b}");
  EXPECT_EQ(taken("dataset_columns", "{question: prompt, answer: completion}"),
            "{\"question\":\"prompt\",\"answer\":\"completion\"}");
  EXPECT_EQ(taken("dataset_columns", "{\"z\": \"\\ud83d\\ude00\", \"a\": \"x\"}"),
            "{\"z\":\"\xF0\x9F\x98\x80\",\"a\":\"x\"}");
  EXPECT_EQ(refusal("dataset_columns", "question"),
            "dataset_columns: 'question' is not accepted; give a mapping");
  refusal("dataset_columns", "{a: b, a: c}");
  EXPECT_EQ(refusal("gradient_checkpointing_kwargs", "{use_reentrent: false}").substr(0, 64),
            "gradient_checkpointing_kwargs: unknown entry 'use_reentrent'; gi");
  Config config;
  config.set("dataset_columns", "{b: x, a: y}");
  const std::vector<std::pair<std::string, std::string>> pairs = {{"b", "x"}, {"a", "y"}};
  EXPECT_EQ(config.get_pairs("dataset_columns"), pairs);
  EXPECT_TRUE(config.get_list("label_names").empty());
}

TEST(Config, CanonicalTextReadsBackToItself) {
  Config config, copy;
  config.set("learning_rate", "0.1");
  config.set("dataset_columns", "{a: b}");
  config.set("generate.stop", "[\"a b\", \"x\\n\"]");
  config.set("chat_template", "{% for m in messages %}\n{{ m['content'] }}{% endfor %}");
  config.set("max_length", "none");
  config.set("eos_token", "<|im_end|>");
  for (const auto& [key, value] : config.values()) copy.set(key, value);
  EXPECT_EQ(copy.to_json(), config.to_json());
  EXPECT_EQ(
      config.to_json(),
      "{\"chat_template\":\"{% for m in messages %}\\n{{ m['content'] }}{% endfor %}\","
      "\"dataset_columns\":{\"a\":\"b\"},\"eos_token\":\"<|im_end|>\",\"generate.stop\":[\"a b\",\"x\\n\"],"
      "\"learning_rate\":0.1,\"max_length\":null}");
}

TEST(Config, UnknownKeysNameTheNearest) {
  EXPECT_EQ(refusal("learning_rat", "1"), "'learning_rat': unknown key; the nearest is learning_rate");
  EXPECT_EQ(refusal("max-seq-lenght", "1"), "'max-seq-lenght': unknown key; the nearest is max_seq_length");
  EXPECT_EQ(refusal("per_device_batch_size", "1").substr(0, 56),
            "'per_device_batch_size': unknown key; the nearest is per");
  EXPECT_EQ(refusal("qqqqqqqqqq", "1"), "'qqqqqqqqqq': unknown key");
  refusal("", "1");
  Config config;
  EXPECT_THROW(config.get("learning_rat"), Error);
}

TEST(Config, DashesAreUnderscores) { EXPECT_EQ(taken("per-device-train-batch-size", "2"), "2"); }

struct AliasCase {
  std::string_view alias, written, name, value;
};

TEST(Config, AliasesWork) {
  constexpr AliasCase kCases[] = {
      {"max_seq_length", "2048", "max_length", "2048"},
      {"evaluation_strategy", "epoch", "eval_strategy", "epoch"},
      {"torch_dtype", "bfloat16", "dtype", "bfloat16"},
      {"group_by_length", "false", "train_sampling_strategy", "random"},
      {"group_by_length", "no", "train_sampling_strategy", "random"},
      {"use_liger", "yes", "use_liger_kernel", "true"},
      {"per_gpu_train_batch_size", "3", "per_device_train_batch_size", "3"},
      {"per_gpu_eval_batch_size", "3", "per_device_eval_batch_size", "3"},
      {"no_cuda", "true", "use_cpu", "true"},
      {"cpu", "true", "use_cpu", "true"},
      {"preprocessing_num_workers", "12", "dataset_num_proc", "12"},
      {"text_column", "body", "dataset_text_field", "body"},
      {"use_flash_attention_2", "false", "attn_implementation", "null"},
      {"use_flash_attention_2", "true", "attn_implementation", "flash_attention_2"},
      {"attn_implementation", "kernels-community/flash-attn", "attn_implementation",
       "kernels-community/flash-attn2"},
      {"dtype", "null", "dtype", "auto"},
      {"torch_dtype", "none", "dtype", "auto"},
      {"optim", "adamw_hf", "optim", "adamw_torch"},
  };
  for (const AliasCase& c : kCases) {
    Config config;
    config.set(c.alias, c.written);
    EXPECT_EQ(config.get(c.name), c.value) << c.alias;
    EXPECT_TRUE(config.is_set(c.name)) << c.alias;
    EXPECT_EQ(config.values().begin()->first, c.name) << c.alias;
    EXPECT_TRUE(config.warnings().empty()) << c.alias;
  }
  EXPECT_EQ(refusal("group_by_length", "maybe"),
            "group_by_length: 'maybe' is not accepted; give true or false");
  EXPECT_EQ(refusal("train_sampling_strategy", "batch_rebalance"),
            "train_sampling_strategy: 'batch_rebalance' is refused: batches of one process need no balance");
}

TEST(Config, OldPackingStrategies) {
  for (const auto& [written, now] :
       {std::pair{"ffd", "bfd"}, {"bfd-requeue", "bfd_split"}, {"bfd_requeue", "bfd_split"}}) {
    Config config;
    config.set("packing_strategy", written);
    EXPECT_EQ(config.get("packing_strategy"), now);
  }
  EXPECT_EQ(refusal("packing_strategy", "bogus"),
            "packing_strategy: 'bogus' is not accepted; give one of bfd, bfd_split, wrapped");
}

TEST(Config, TwoNamesOfOneKeyMustAgree) {
  Config config;
  config.set("max_seq_length", "512");
  config.set("max_length", "512");
  try {
    config.set("max_seq_length", "256");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(),
              "max_length and max_seq_length are one key with two values, '512' and '256': give one of them");
  }
  EXPECT_EQ(config.get_int("max_length"), 512);
  config.set("max_length", "128");  // the same name again: the last one counts
  EXPECT_EQ(config.get_int("max_length"), 128);
}

// The example of TRL's page for PPO has both.
TEST(Config, TheModelOfPpoIsThatOfItsSftModelPath) {
  const std::pair<const char*, const char*> names[] = {{"model_name_or_path", "base"},
                                                       {"sft_model_path", "tuned"}};
  for (const bool sft_first : {false, true}) {
    Config config;
    config.set("method", "ppo");
    for (const size_t i : {size_t{0}, size_t{1}})
      config.set(names[i ^ size_t{sft_first}].first, names[i ^ size_t{sft_first}].second);
    EXPECT_EQ(config.get("model_name_or_path"), "tuned");
    ASSERT_EQ(config.warnings().size(), 1u);
    EXPECT_EQ(config.warnings()[0],
              "sft_model_path: it names the model, and 'base' is not read: the tokenizer is the model's");
  }
  Config unused;
  unused.set("model_name_or_path", "base");
  unused.set("sft_model_path", "null");
  EXPECT_EQ(unused.get("model_name_or_path"), "base");
}

TEST(Config, AFormerNameWithNullIsNotUsed) {
  Config config;
  config.set("max_length", "512");
  config.set("max_seq_length", "null");
  EXPECT_EQ(config.get_int("max_length"), 512);
  Config other;
  other.set("max_seq_length", "null");
  other.set("max_length", "512");
  EXPECT_EQ(other.get_int("max_length"), 512);
  Config alone;
  alone.set("max_seq_length", "null");
  EXPECT_EQ(alone.get_optional_int("max_length"), std::nullopt);
}

TEST(Config, RefusesWhatThisBuildDoesNotHave) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"fp16", "true"},
      {"dtype", "float16"},
      {"optim", "adamw_torch_8bit"},
      {"optim", "lomo"},
      {"lr_scheduler_type", "greedy"},
      {"auto_find_batch_size", "true"},
      {"bf16_full_eval", "true"},
      {"fp16_full_eval", "true"},
      {"train_sampling_strategy", "batch_rebalance"},
      {"fsdp", "full_shard auto_wrap"},
      {"fsdp", "[full_shard]"},
      {"deepspeed", "ds.json"},
      {"deepspeed", "{zero_optimization: {stage: 3}}"},
      {"parallelism_config", "{tp_size: 2}"},
      {"accelerator_config", "{split_batches: true}"},
      {"accelerator_config", "{use_seedable_sampler: false}"},
      {"num_processes", "8"},
      {"num_machines", "2"},
      {"mixed_precision", "fp8"},
      {"distributed_type", "MULTI_GPU"},
      {"multi_gpu", "true"},
      {"accelerate_config", "zero3"},
      {"deepspeed_config", "{zero_stage: 3}"},
      {"local_rank", "1"},
      {"vllm_tensor_parallel_size", "2"},
      {"log_completions_hub_repo", "me/completions"},
      {"ref_adapter_name", "other"},
      {"teacher_model_init_kwargs", "{quantization_config: {load_in_4bit: true}}"},
      {"model_init_kwargs", "{rope_scaling: {factor: 2}}"},
      {"system_prompt", "Be brief."},
      {"truncation_side", "left"},
      {"save_safetensors", "false"},
      {"runtime.device_memory_limit", "5"},
      {"optim_target_modules", "all-linear"},
  };
  for (const auto& [key, value] : kCases) {
    const std::string message = refusal(key, value);
    EXPECT_NE(message.find(" is refused: "), std::string::npos) << message;
    EXPECT_TRUE(message.starts_with(key)) << message;
  }
  EXPECT_EQ(refusal("lr_scheduler_kwargs", "{cycles: 1}").substr(0, 82),
            "lr_scheduler_kwargs: unknown entry 'cycles'; give a mapping with the keys num_cycl");
  EXPECT_EQ(refusal("fp16", "yes").substr(0, 24), "fp16: 'true' is refused:");
}

TEST(Config, TakesWhatIsTheSameInThisBuild) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"packing", "false"},
      {"neftune_noise_alpha", "0"},
      {"neftune_noise_alpha", "null"},
      {"optim", "adamw_torch"},
      {"loss_type", "chunked_nll"},
      {"fsdp", ""},
      {"fsdp", "false"},
      {"deepspeed", "null"},
      {"num_processes", "1"},
      {"label_smoothing_factor", "0.0"},
      {"router_aux_loss_coef", "0.0"},
      {"accelerator_config", "{split_batches: false}"},
      {"resume_from_checkpoint", "false"},
      {"save_only_model", "true"},
      {"use_cpu", "true"},
      {"do_train", "true"},
      {"attn_implementation", "eager"},
      {"attn_implementation", "sdpa"},
      {"attn_implementation", "flash_attention_2"},
      {"attn_implementation", "flash_attention_3"},
      {"attn_implementation", "kernels-community/flash-attn2"},
      {"attn_implementation", "kernels-community/flash-attn3"},
      {"attn_implementation", "kernels-community/vllm-flash-attn3"},
      {"attn_implementation", "plugin:kernel.so"},
      {"attn_implementation", "none"},
      {"use_flash_attention_2", "true"},
      {"model_init_kwargs", "{attn_implementation: flash_attention_2}"},
      {"model_init_kwargs", "{dtype: bfloat16}"},
      {"gradient_checkpointing_kwargs", "{use_reentrant: false}"},
      {"gradient_checkpointing_kwargs", "{every_n_layers: 2, offload: true, selective: true}"},
      {"activation_checkpointing_kwargs", "{recompute: products}"},
      {"recompute", "products"},
      {"activation_offloading", "true"},
      {"activation_offloading_min_bytes", "0"},
      {"activation_offloading_zstd", "true"},
      {"offload_dir", "/mnt"},
      {"dataset_kwargs", "{skip_prepare_dataset: true}"},
      {"dataset_config", "default"},
      {"dataset_config", "main"},
      {"debug", ""},
      {"mixed_precision", "bf16"},
      {"distributed_type", "NO"},
      {"accelerate_config", "single_gpu"},
      {"max_grad_norm", "0"},
      {"dataloader_pin_memory", "false"},
      {"average_tokens_across_devices", "false"},
      {"generation_exact", "true"},
      {"profile_parts", "true"},
      {"on_nonfinite", "error"},
      {"on_nonfinite", "skip"},
      {"on_nonfinite", "continue"},
      {"report_to", "tensorboard"},
      {"report_to", "[csv, jsonl, html]"},
      {"report_to", "all"},
      {"logging_dir", "runs"},
      {"include_num_input_tokens_seen", "false"},
      {"include_num_input_tokens_seen", "true"},
      {"include_num_input_tokens_seen", "non_padding"},
      {"lr_scheduler_kwargs", "{}"},
      {"auto_insert_empty_system_msg", "false"},
  };
  for (const auto& [key, value] : kCases) taken(key, value);
}

TEST(Config, WarnsOfWhatReachesOutside) {
  constexpr std::pair<std::string_view, std::string_view> kCases[] = {
      {"push_to_hub", "true"},
      {"hub_model_id", "me/model"},
      {"hub_strategy", "end"},
      {"hub_token", "x"},
      {"hub_private_repo", "true"},
      {"report_to", "wandb"},
      {"report_to", "[wandb, tensorboard]"},
      {"ddp_timeout", "7200"},
      {"trust_remote_code", "true"},
      {"model_revision", "v1"},
      {"run_name", "first"},
      {"torch_compile", "true"},
      {"tf32", "true"},
      {"dataloader_num_workers", "4"},
      {"bnb_4bit_quant_storage", "bfloat16"},
      {"do_eval", "true"},
      {"wandb_project", "p"},
      {"full_determinism", "true"},
      {"dataset_kwargs", "{add_special_tokens: false}"},
      {"vllm_group_port", "51217"},
      {"vllm_max_model_length", "4096"},
      {"cache_implementation", "static"},
      {"transformers_continuous_batching_config", "{max_memory_percent: 0.5}"},
      {"ds3_gather_for_generation", "false"},
      {"vllm_model_impl", "transformers"},
      {"use_transformers_paged", "true"},
      {"use_transformers_continuous_batching", "true"},
      {"log_multimodal", "false"},
      {"zero_stage", "3"},
  };
  for (const auto& [key, value] : kCases) {
    EXPECT_TRUE(warning(key, value).starts_with(std::string(key) + ": ")) << key;
  }
  EXPECT_EQ(warning("push_to_hub", "true"), "push_to_hub: nothing is uploaded: this library uses no network");
  EXPECT_EQ(warning("bnb_4bit_quant_storage", "bfloat16"),
            "bnb_4bit_quant_storage: codes of 4 bits lie two in a byte here, whatever type they are called");
}

TEST(Config, AMethodMayHaveDashes) {
  Config config;
  config.set("method", "online-dpo");
  EXPECT_EQ(config.get("method"), "online_dpo");
  EXPECT_STREQ(config.method().name, "online_dpo");
  EXPECT_EQ(default_of(*find_option("beta"), "online-dpo"), default_of(*find_option("beta"), "online_dpo"));
}

TEST(Config, KeysOfOneReasonShareALine) {
  Config config;
  for (const char* key : {"run_name", "push_to_hub", "wandb_project"}) config.set(key, "true");
  config.load_text("seed: 1\nseed: 2\n", "a.yaml");
  const std::vector<std::string> lines = by_reason(config.warnings());
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_TRUE(lines[0].starts_with("run_name, wandb_project: nothing is sent to a tracker")) << lines[0];
  EXPECT_EQ(lines[1], "push_to_hub: nothing is uploaded: this library uses no network");
  EXPECT_TRUE(lines[2].starts_with("a.yaml:2: seed: the key is given twice")) << lines[2];
}

TEST(Config, AMisspeltValueIsToldTheNearest) {
  EXPECT_EQ(refusal("lr_scheduler_type", "cosin").substr(0, 91),
            "lr_scheduler_type: 'cosin' is not accepted; did you mean cosine? Accepted: one of linear, c");
  EXPECT_NE(refusal("report_to", "[csv, jsnl]").find("did you mean jsonl?"), std::string::npos);
  EXPECT_EQ(refusal("eval_strategy", "sometimes").find("did you mean"), std::string::npos);
}

TEST(Config, OneWarningForEachKey) {
  Config config;
  config.set("report_to", "wandb");
  config.set("run_name", "a");
  config.set("run_name", "b");
  EXPECT_EQ(config.warnings().size(), 2u);
  config.set("report_to", "none");
  ASSERT_EQ(config.warnings().size(), 1u);
  EXPECT_TRUE(config.warnings().front().starts_with("run_name: "));
  config.set("use_flash_attention_2", "true");
  EXPECT_EQ(config.get("attn_implementation"), "flash_attention_2");
}

TEST(Config, MessagesStayShort) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "xxxxx\n";
  const std::string message = refusal("max_steps", lines);
  EXPECT_LT(message.size(), 200u);
  std::string wide;
  for (int i = 0; i < 100; ++i) wide += "\xC3\xA9";
  EXPECT_NE(refusal("max_steps", "a" + wide).find("\xC3\xA9...'"), std::string::npos);
}

TEST(LocalPath, HubIdsGetAnAnswer) {
  const auto message = [](const std::string& value) -> std::string {
    try {
      check_local_path("model_name_or_path", value);
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::not_found);
      EXPECT_EQ(error.key(), "model_name_or_path");
      return error.message();
    }
    return {};
  };
  EXPECT_EQ(message("Qwen/Qwen2.5-0.5B"),
            "model_name_or_path: 'Qwen/Qwen2.5-0.5B' does not exist, and no model hub is asked for it: give "
            "a local path");
  EXPECT_NE(message("gpt2").find("give a local path"), std::string::npos);
  EXPECT_EQ(
      message("data/none.jsonl"),
      "model_name_or_path: 'data/none.jsonl' does not exist: give the path of an existing file or directory");
  EXPECT_EQ(message("./a/b").find("hub"), std::string::npos);
  EXPECT_EQ(message(TRL_SOURCE_DIR), "");
  EXPECT_EQ(message(TRL_SOURCE_DIR "/LICENSE"), "");
}

// TRL's differ by trainer, and a configuration may name the trainer after other keys.
TEST(Config, TheMethodDecidesDefaultsAndChoices) {
  Config config;
  EXPECT_EQ(config.get("learning_rate"), "2e-05");
  EXPECT_EQ(config.get_list("loss_type"), std::vector<std::string>{"nll"});
  config.check_method();
  config.set("loss_type", "dft");
  config.check_method();
  for (const char* const of_dpo : {"hinge", "nll,dft", "sigmoid sft"}) {
    config.set("loss_type", of_dpo);
    try {
      config.check_method();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.key(), "loss_type");
      EXPECT_NE(error.message().find("is not accepted for sft; give one of nll, dft, chunked_nll"),
                std::string::npos)
          << error.message();
    }
  }
  EXPECT_EQ(config.get_list("loss_type"), (std::vector<std::string>{"sigmoid", "sft"}));
  EXPECT_EQ(config.to_json(), R"({"loss_type":["sigmoid","sft"]})");
}

}  // namespace
}  // namespace trl::config
