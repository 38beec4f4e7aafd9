// The typed views and the checks across keys.
#include "config/dataset/data_arguments.h"
#include "config/training_arguments.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "config/settings.h"
#include "support/golden.h"
#include "support/trajectories.h"

namespace trl::config {
namespace {

std::string refusal(const Settings& settings) {
  const Config config = config_with(settings);
  try {
    training_arguments(config);
    data_arguments(config);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_config);
    EXPECT_TRUE(config.is_set(error.key())) << error.key();
    return error.message();
  }
  ADD_FAILURE() << "taken";
  return {};
}

TEST(DataArguments, HasTheKeysThatGiveATemplate) {
  using Keys = std::vector<std::string_view>;
  const auto keys = [](const char* method) {
    return data_arguments(config_with({{"method", method}})).template_keys;
  };
  EXPECT_EQ(keys("sft"), (Keys{"chat_template", "chat_template_path"}));
  EXPECT_EQ(keys("reward"), Keys{"chat_template_path"});
  for (const char* method : {"dpo", "grpo", "rloo", "ppo", "distillation", "online_dpo", "kto"})
    EXPECT_EQ(keys(method), Keys()) << method;
}

TEST(Arguments, DefaultsAreTrls) {
  const TrainingArguments a = training_arguments(Config());
  EXPECT_STREQ(a.method->name, "sft");
  EXPECT_EQ(a.output_dir, "trainer_output");
  EXPECT_EQ(a.per_device_train_batch_size, 8);
  EXPECT_EQ(a.gradient_accumulation_steps, 1);
  EXPECT_EQ(a.num_train_epochs, 3.0);
  EXPECT_EQ(a.max_steps, -1);
  EXPECT_EQ(a.seed, 42);
  EXPECT_FALSE(a.data_seed.has_value());
  EXPECT_TRUE(a.bf16);
  EXPECT_EQ(a.recompute.form, Recomputed::layers);
  EXPECT_EQ(a.learning_rate, 2e-5);
  EXPECT_EQ(a.adam_epsilon, 1e-8);
  EXPECT_EQ(a.max_grad_norm, 1.0);
  EXPECT_EQ(a.lr_scheduler_type, Scheduler::linear);
  EXPECT_EQ(a.warmup_steps, 0.0);
  EXPECT_EQ(a.lr_scheduler_kwargs.num_cycles, 0.5);
  EXPECT_EQ(a.optim, Optim::adamw);
  EXPECT_FALSE(a.stochastic_rounding);
  EXPECT_EQ(a.logging_strategy, Strategy::steps);
  EXPECT_EQ(a.logging_steps, 10.0);
  EXPECT_EQ(a.eval_strategy, Strategy::no);
  EXPECT_FALSE(a.eval_steps.has_value());
  const DataArguments d = data_arguments(Config());
  EXPECT_EQ(d.dataset_text_field, "text");
  EXPECT_EQ(d.max_length, 1024);
  EXPECT_FALSE(d.completion_only_loss.has_value());
  EXPECT_FALSE(d.pad_to_multiple_of.has_value());
  EXPECT_EQ(d.dataset_num_proc, 0);
  EXPECT_EQ(d.sampling, Sampling::random);
}

TEST(Arguments, WhatIsComputedAgain) {
  constexpr const char* kKwargs = "gradient_checkpointing_kwargs";
  const auto of = [](const Settings& settings) {
    return training_arguments(config_with(settings)).recompute;
  };
  EXPECT_EQ(of({{kKwargs, "{selective: true}"}}).form, Recomputed::selective);
  EXPECT_EQ(of({{kKwargs, "{selective: true, recompute: selective}"}}).form, Recomputed::selective);
  EXPECT_EQ(of({{kKwargs, "{recompute: products}"}}).form, Recomputed::products);
  EXPECT_EQ(of({{"recompute", "products"}}).form, Recomputed::products);
  EXPECT_EQ(of({{"recompute", "layers"}, {kKwargs, "{recompute: layers}"}}).form, Recomputed::layers);
  // The newer name replaces all of the older one.
  EXPECT_EQ(
      of({{kKwargs, "{selective: true}"}, {"activation_checkpointing_kwargs", "{early_stop: false}"}}).form,
      Recomputed::layers);
  const Recompute third = of({{kKwargs, "{every_n_layers: 3}"}});
  EXPECT_EQ(third.of_layer(0), Recomputed::layers);
  EXPECT_EQ(third.of_layer(2), Recomputed::nothing);
  EXPECT_EQ(third.of_layer(3), Recomputed::layers);
  EXPECT_EQ(
      of({{"gradient_checkpointing", "false"}, {kKwargs, "{use_reentrant: false, selective: false}"}}).form,
      Recomputed::nothing);
}

TEST(Arguments, WhatContradictsItselfInRecomputing) {
  constexpr const char* kKwargs = "gradient_checkpointing_kwargs";
  constexpr std::string_view kReentrant =
      "gradient_checkpointing_kwargs: {selective: true} keeps a part of each layer, and use_reentrant: true "
      "computes "
      "whole layers again: leave use_reentrant out, or give false";
  EXPECT_EQ(refusal({{kKwargs, "{selective: true, use_reentrant: true}"}}), kReentrant);
  EXPECT_EQ(refusal({{kKwargs, "{selective: true}"}, {"gradient_checkpointing_use_reentrant", "true"}}),
            kReentrant);
  EXPECT_EQ(refusal({{"gradient_checkpointing", "false"}, {kKwargs, "{selective: true}"}}),
            "gradient_checkpointing_kwargs: {selective: true} needs gradient_checkpointing: true, and it is "
            "false: give true, or leave gradient_checkpointing_kwargs out");
  EXPECT_EQ(refusal({{"activation_checkpointing", "false"}, {"recompute", "products"}}),
            "recompute: products needs activation_checkpointing: true, and it is false: give true, or leave "
            "recompute out");
  EXPECT_EQ(refusal({{kKwargs, "{selective: true, recompute: products}"}}).substr(0, 82),
            "recompute: products contradicts gradient_checkpointing_kwargs: {selective: true}, ");
  EXPECT_EQ(refusal({{kKwargs, "{recompute: layers}"}, {"recompute", "products"}}).substr(0, 68),
            "recompute: products contradicts gradient_checkpointing_kwargs: {reco");
  EXPECT_EQ(refusal({{kKwargs, "{every_n_layers: 0}"}}),
            "gradient_checkpointing_kwargs: every_n_layers: '0' is not accepted; give an integer >= 1");
  EXPECT_EQ(
      refusal({{kKwargs, "{recompute: norms}"}}),
      "gradient_checkpointing_kwargs: recompute: 'norms' is not accepted; give one of layers, selective, "
      "products");
  EXPECT_EQ(refusal({{kKwargs, "{context_fn: mine}"}}).substr(0, 53),
            "gradient_checkpointing_kwargs: context_fn is refused,");
}

TEST(Arguments, OneBackwardIsNotCut) {
  EXPECT_EQ(training_arguments(config_with({{"max_tokens_per_pass", "4096"}})).max_tokens_per_pass, 4096);
  EXPECT_FALSE(training_arguments(Config()).max_tokens_per_pass.has_value());
  EXPECT_EQ(training_arguments(config_with({{"report_to", "all"}})).report_to,
            (std::vector<std::string>{"tensorboard", "csv", "jsonl", "html"}));
  EXPECT_EQ(
      refusal({{"optimizer_in_backward", "true"}, {"max_grad_norm", "0"}, {"max_tokens_per_pass", "4096"}}),
      "max_tokens_per_pass: 4096 is refused, because optimizer_in_backward: true updates each weight in "
      "one backward of the whole micro-batch: leave one of them out, or give a smaller "
      "per_device_train_batch_size");
}

TEST(Arguments, SharesPrefixesByItself) {
  EXPECT_EQ(training_arguments(Config()).share_prefix, SharePrefix::automatic);
  EXPECT_EQ(training_arguments(config_with({{"share_prefix", "true"}})).share_prefix, SharePrefix::always);
  EXPECT_EQ(training_arguments(config_with({{"share_prefix", "no"}})).share_prefix, SharePrefix::never);
  EXPECT_THROW(Config().set("share_prefix", "some"), Error);
}

TEST(Arguments, ReadsWhatIsSet) {
  const TrainingArguments a = training_arguments(config_with({{"output_dir", "out"},
                                                              {"per_device_train_batch_size", "2"},
                                                              {"max_steps", "0"},
                                                              {"data_seed", "5"},
                                                              {"bf16", "false"},
                                                              {"activation_checkpointing", "false"},
                                                              {"lr_scheduler_type", "cosine"},
                                                              {"lr_scheduler_kwargs", "{num_cycles: 2}"},
                                                              {"warmup_ratio", "0.1"},
                                                              {"eval_strategy", "epoch"},
                                                              {"eval_steps", "0"},
                                                              {"logging_steps", "0.25"},
                                                              {"max_grad_norm", "0"},
                                                              {"eval_on_start", "yes"}}));
  EXPECT_EQ(a.output_dir, "out");
  EXPECT_EQ(a.per_device_train_batch_size, 2);
  EXPECT_EQ(a.max_steps, -1);
  EXPECT_EQ(a.data_seed, 5);
  EXPECT_FALSE(a.bf16);
  EXPECT_EQ(a.recompute.form, Recomputed::nothing);
  EXPECT_EQ(a.lr_scheduler_type, Scheduler::cosine);
  EXPECT_EQ(a.lr_scheduler_kwargs.num_cycles, 2.0);
  EXPECT_EQ(a.warmup_steps, 0.1);
  EXPECT_EQ(a.eval_strategy, Strategy::epoch);
  EXPECT_FALSE(a.eval_steps.has_value());
  EXPECT_EQ(a.logging_steps, 0.25);
  EXPECT_EQ(a.max_grad_norm, 0.0);
  EXPECT_TRUE(a.eval_on_start);
  EXPECT_TRUE(training_arguments(config_with({{"bf16", "false"}, {"mixed_precision", "bf16"}})).bf16);
  EXPECT_EQ(training_arguments(config_with({{"warmup_ratio", "0.1"}, {"warmup_steps", "7"}})).warmup_steps,
            7.0);
  EXPECT_EQ(
      training_arguments(config_with({{"lr_scheduler_type", "constant_with_warmup"}})).lr_scheduler_type,
      Scheduler::constant_with_warmup);
  const DataArguments d =
      data_arguments(config_with({{"max_length", "null"},
                                  {"truncation_mode", "keep_end"},
                                  {"completion_only_loss", "false"},
                                  {"dataset_columns", "{question: prompt, answer: completion}"},
                                  {"dataset_kwargs", "{skip_prepare_dataset: true}"},
                                  {"train_sampling_strategy", "sequential"},
                                  {"pad_to_multiple_of", "16"},
                                  {"dataset_num_proc", "3"},
                                  {"eos_token", "</s>"},
                                  {"chat_template", "{{ x }}"},
                                  {"dataset_select_columns", "question answer"}}));
  EXPECT_FALSE(d.max_length.has_value());
  EXPECT_TRUE(d.truncation_keep_end);
  EXPECT_EQ(d.completion_only_loss, false);
  const std::vector<std::pair<std::string, std::string>> columns = {{"question", "prompt"},
                                                                    {"answer", "completion"}};
  EXPECT_EQ(d.dataset_columns, columns);
  EXPECT_EQ(d.dataset_select_columns.size(), 2u);
  EXPECT_TRUE(d.skip_prepare_dataset);
  EXPECT_EQ(d.sampling, Sampling::sequential);
  EXPECT_EQ(d.pad_to_multiple_of, 16);
  EXPECT_EQ(d.dataset_num_proc, 3);
  EXPECT_EQ(d.eos_token, "</s>");
  EXPECT_EQ(d.chat_template, "{{ x }}");
}

TEST(Arguments, ChecksAcrossKeys) {
  EXPECT_EQ(refusal({{"logging_steps", "2.5"}}),
            "logging_steps: '2.5' is not accepted; give an integer, or a share of all steps below 1");
  EXPECT_EQ(refusal({{"eval_strategy", "steps"}, {"eval_steps", "1.5"}}),
            "eval_steps: '1.5' is not accepted; give an integer, or a share of all steps below 1");
  EXPECT_NO_THROW(training_arguments(config_with({{"eval_strategy", "epoch"}, {"eval_steps", "1.5"}})));
  EXPECT_NO_THROW(training_arguments(config_with({{"logging_strategy", "epoch"}, {"logging_steps", "1.5"}})));
  EXPECT_EQ(
      refusal({{"lr_scheduler_kwargs", "{num_cycles: 1}"}}),
      "lr_scheduler_kwargs: 'num_cycles' is not an argument of lr_scheduler_type linear; accepted: none");
  EXPECT_EQ(refusal({{"lr_scheduler_type", "cosine"}, {"lr_scheduler_kwargs", "{num_cycles: many}"}}),
            "lr_scheduler_kwargs: num_cycles: 'many' is not accepted; give a number > 0");
  EXPECT_EQ(
      refusal({{"loss_type", "dft"}, {"label_smoothing_factor", "0.1"}}),
      "label_smoothing_factor: 0.1 belongs to loss_type nll: give it with loss_type: nll, or 0 with dft");
  EXPECT_EQ(
      refusal({{"use_liger_kernel", "true"}, {"fused_kernels", "off"}}),
      "use_liger_kernel: true demands fused kernels, and fused_kernels is off: give fused_kernels: auto, "
      "or use_liger_kernel: false");
  EXPECT_EQ(
      refusal({{"profile_parts", "true"}, {"fused_kernels", "off"}}),
      "profile_parts: true contradicts fused_kernels: off, where backward is PyTorch's own and shows no "
      "parts: give fused_kernels: auto, or profile_parts: false");
  EXPECT_EQ(
      refusal({{"generation_exact", "true"}, {"fused_kernels", "off"}}),
      "generation_exact: true contradicts fused_kernels: off, because generation and training then have "
      "other sums: give fused_kernels: auto, or generation_exact: false");
  EXPECT_EQ(refusal({{"generation_exact", "true"}, {"generation_dtype", "int8"}}),
            "generation_exact: true contradicts generation_dtype, because generation and training then have "
            "other sums: give generation_dtype: null, or generation_exact: false");
  EXPECT_EQ(refusal({{"generation_exact", "true"}, {"kv_cache_dtype", "int8"}}),
            "generation_exact: true contradicts kv_cache_dtype: int8, because generation and training then "
            "have other sums: give kv_cache_dtype: auto, or generation_exact: false");
  EXPECT_EQ(refusal({{"frozen_compute", "int8"}}),
            "frozen_compute: int8 is refused, because without use_peft all weights are trained and none is "
            "frozen: give use_peft: true, or auto");
  EXPECT_EQ(
      refusal({{"frozen_compute", "int8"}, {"use_peft", "true"}, {"load_in_4bit", "true"}}),
      "frozen_compute: int8 is refused, because it would hold the quantised weights a second time, in 2 "
      "bytes each: give auto, or neither load_in_4bit nor load_in_8bit");
  EXPECT_EQ(
      refusal({{"frozen_compute", "int8"}, {"use_peft", "true"}, {"fused_kernels", "off"}}),
      "frozen_compute: int8 is refused, because fused_kernels is off, and its products are PyTorch's own: "
      "give fused_kernels: auto, or frozen_compute: auto");
  EXPECT_EQ(refusal({{"save_steps", "1.5"}}),
            "save_steps: '1.5' is not accepted; give an integer, or a share of all steps below 1");
  EXPECT_NO_THROW(training_arguments(config_with({{"save_steps", "1.5"}, {"save_strategy", "no"}})));
  for (const char* lever : {"activation_offloading=true", "optim=paged_adamw_8bit"}) {
    const std::string text = lever;
    const size_t at = text.find('=');
    EXPECT_EQ(refusal({{"offload_dir", "~/out"}, {text.substr(0, at), text.substr(at + 1)}}),
              "offload_dir: '~/out' is not accepted: '~' is not expanded, give the whole path");
  }
  EXPECT_EQ(refusal({{"logging_dir", "~/out"}}),
            "logging_dir: '~/out' is not accepted: '~' is not expanded, give the whole path");
  EXPECT_EQ(refusal({{"output_dir", "~/out"}}),
            "output_dir: '~/out' is not accepted: '~' is not expanded, give the whole path");
  EXPECT_EQ(refusal({{"chat_template", "{{ x }}"}, {"chat_template_path", "a.jinja"}}),
            "chat_template and chat_template_path are both set: give one of them");
  EXPECT_EQ(refusal({{"dataset_columns", "{question:prompt}"}}),
            "dataset_columns: 'question:prompt' has no new name; give {column: new name}, with a space "
            "after each colon");
  EXPECT_EQ(refusal({{"dataset_columns", "{a: text, b: text}"}}),
            "dataset_columns: 'a' and 'b' would both be renamed to 'text'");
  for (const std::string value : {"[\"a\"]", "{\"a\":\"b\"}"}) {
    EXPECT_EQ(refusal({{"dataset_columns", "{\"text\":" + value + "}"}}),
              "dataset_columns: '" + value + "' of 'text' is not a name; give {column: new name}");
  }
  EXPECT_EQ(refusal({{"dataset_kwargs", "{skip_prepare_dataset: maybe}"}}),
            "dataset_kwargs: skip_prepare_dataset: 'maybe' is not accepted; give true or false");
}

TEST(Arguments, FusedKernels) {
  const auto read = [](const Settings& settings) {
    return training_arguments(config_with(settings)).fused_kernels;
  };
  EXPECT_EQ(read({}), FusedKernels::automatic);
  EXPECT_EQ(read({{"fused_kernels", "off"}}), FusedKernels::off);
  EXPECT_EQ(read({{"fused_kernels", "off"}, {"use_liger_kernel", "false"}}), FusedKernels::off);
  EXPECT_EQ(read({{"fused_kernels", "on"}}), FusedKernels::on);
  EXPECT_EQ(read({{"use_liger_kernel", "true"}}), FusedKernels::on);
  EXPECT_EQ(read({{"use_liger_kernel", "true"}, {"fused_kernels", "auto"}}), FusedKernels::on);
  try {
    config_with({{"fused_kernels", "some"}});
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "fused_kernels");
  }
}

TEST(Arguments, FrozenLayersAreKeptOnlyWhereTheyAlwaysMakeTheSame) {
  const Settings kept = {{"cache_frozen_layers", "/tmp/states"}, {"use_peft", "true"}};
  EXPECT_EQ(training_arguments(config_with(kept)).cache_frozen_layers, "/tmp/states");
  EXPECT_EQ(training_arguments(Config()).cache_frozen_layers, "");
  const auto refused = [&](std::string_view key, std::string_view value, const std::string& want) {
    Settings settings = kept;
    settings.emplace_back(key, value);
    const std::string message = refusal(settings);
    EXPECT_NE(message.find(want), std::string::npos) << message;
  };
  refused("use_peft", "false", "give use_peft: true and adapters on the upper layers");
  refused("neftune_noise_alpha", "5", "neftune_noise_alpha: 5");
  refused("fused_kernels", "off", "leave out fused_kernels: off");
  refused("cache_frozen_layers", "~/states", "'~' is not expanded");
  EXPECT_EQ(idle_options(config_with({{"cache_frozen_layers_zstd", "true"}})).front(),
            "cache_frozen_layers_zstd: it has an effect only with cache_frozen_layers");
}

TEST(Arguments, OptionsWithoutAnEffectAreToldOf) {
  using Lines = std::vector<std::string>;
  const auto lines = [](const Settings& settings) { return idle_options(config_with(settings)); };
  EXPECT_EQ(lines({}), Lines{});
  for (const char* key :
       {"lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_target_parameters",
        "lora_modules_to_save", "lora_task_type", "use_rslora", "use_dora", "autocast_adapter_dtype"}) {
    const char* const value = std::string_view(key).find("lora_") == 0 ? "1" : "true";
    const Settings task = {{key, std::string_view(key) == "lora_task_type" ? "CAUSAL_LM" : value}};
    EXPECT_EQ(lines(task), Lines{std::string(key) + ": it has an effect only with use_peft: true"});
    EXPECT_EQ(lines({task.front(), {"use_peft", "true"}}), Lines{}) << key;
  }
  EXPECT_EQ(lines({{"generate.top_k", "5"}}),
            Lines{"generate.top_k: without sample_prompts it has an effect only on generators"});
  EXPECT_EQ(lines({{"generate.top_k", "5"}, {"sample_prompts", "[a]"}}), Lines{});
  EXPECT_EQ(lines({{"generate.chat", "true"}, {"sample_prompts", "[a]"}}),
            Lines{"generate.chat: it has no effect on sample_prompts"});
  EXPECT_EQ(lines({{"generate.max_new_tokens", "5"},
                   {"generate.num_return_sequences", "2"},
                   {"estimate.prompt_tokens", "9"}}),
            Lines{});
  const auto dpo = [&](Settings settings) {
    settings.insert(settings.begin(), {"method", "dpo"});
    return lines(settings);
  };
  const Lines smoothing = {
      "label_smoothing: it has an effect only with loss_type exo_pair, robust, aot or aot_unpaired"};
  EXPECT_EQ(dpo({{"label_smoothing", "0.1"}}), smoothing);
  EXPECT_EQ(dpo({{"label_smoothing", "0.1"}, {"loss_type", "hinge sft"}}), smoothing);
  EXPECT_EQ(dpo({{"label_smoothing", "0.1"}, {"loss_type", "sft,robust"}}), Lines{});
  EXPECT_EQ(dpo({{"label_smoothing", "0.1"}, {"loss_type", "aot"}}), Lines{});
  EXPECT_EQ(dpo({{"label_smoothing", "0"}}), Lines{});
  EXPECT_EQ(dpo({{"discopop_tau", "0.1"}}),
            Lines{"discopop_tau: it has an effect only with loss_type discopop"});
  EXPECT_EQ(dpo({{"f_alpha_divergence_coef", "0.1"}}),
            Lines{"f_alpha_divergence_coef: it has an effect only with f_divergence_type alpha_divergence"});
  EXPECT_EQ(dpo({{"ref_model_sync_steps", "2"}}),
            Lines{"ref_model_sync_steps: it has an effect only with sync_ref_model: true"});
  const Lines weights = {"loss_weights: all of them are 0, so nothing is learned from the preferences"};
  EXPECT_EQ(dpo({{"loss_weights", "[0]"}}), weights);
  EXPECT_EQ(dpo({{"loss_type", "[sigmoid, sft]"}, {"loss_weights", "0.0, 0"}}), weights);
  EXPECT_EQ(dpo({{"loss_type", "[sigmoid, sft]"}, {"loss_weights", "[0, 1]"}}), Lines{});
  EXPECT_EQ(lines({{"method", "kto"}, {"desirable_weight", "0"}, {"undesirable_weight", "0"}}),
            Lines{"desirable_weight: it is 0, and so is undesirable_weight: nothing is learned from the "
                  "completions"});
  EXPECT_EQ(lines({{"method", "kto"}, {"desirable_weight", "0"}}), Lines{});
}

TEST(Arguments, NotesSayThatNoCheckpointsAreWritten) {
  EXPECT_EQ(run_notes(Config()), std::vector<std::string>{});
  EXPECT_EQ(run_notes(config_with({{"save_strategy", "no"}})).front(),
            "save_strategy no: no checkpoints are written, only the final model");
  EXPECT_EQ(run_notes(config_with({{"truncation_mode", "keep_end"}})).size(), 1u);
  EXPECT_EQ(run_notes(config_with({{"dataset_streaming", "true"}, {"shuffle_dataset", "true"}})).front(),
            "dataset_streaming with shuffle_dataset: rows are shuffled within a buffer of 1000, as in TRL");
  EXPECT_EQ(run_notes(config_with({{"dataset_streaming", "true"}, {"dataloader_drop_last", "true"}})).back(),
            "dataset_streaming with dataloader_drop_last: the last batch is trained on even when it is not "
            "full, as in TRL");
  EXPECT_EQ(run_notes(config_with({{"offload_dir", "/disk"}})).front(),
            "offload_dir: nothing leaves memory in this run; it has an effect with a paged_ optimizer, with "
            "activation_offloading: true, or with memory_budget");
  EXPECT_EQ(run_notes(config_with({{"offload_dir", "/disk"}, {"memory_budget", "1GB"}})),
            run_notes(config_with({})));
  EXPECT_EQ(run_notes(config_with({{"offload_dir", "/disk"}, {"optim", "paged_lion_8bit"}})),
            run_notes(config_with({})));
  EXPECT_EQ(run_notes(config_with({{"optim", "sgd"}, {"optim_args", "weight_decay=0.1"}})).front(),
            "optim_args: weight_decay 0.1 has no effect, as in Trainer: the weights decay by the option "
            "weight_decay, which is 0");
}

TEST(Arguments, Checkpoints) {
  const TrainingArguments defaults = training_arguments(Config());
  EXPECT_EQ(defaults.save_strategy, Strategy::steps);
  EXPECT_EQ(defaults.save_steps, 500);
  EXPECT_EQ(defaults.save_total_limit, std::nullopt);
  EXPECT_EQ(defaults.metric_for_best_model, "");
  EXPECT_EQ(defaults.resume_from_checkpoint, std::nullopt);
  EXPECT_EQ(training_arguments(config_with({{"save_total_limit", "0"}})).save_total_limit, std::nullopt);
  EXPECT_EQ(training_arguments(config_with({{"resume_from_checkpoint", "false"}})).resume_from_checkpoint,
            std::nullopt);
  EXPECT_EQ(training_arguments(config_with({{"resume_from_checkpoint", "True"}})).resume_from_checkpoint,
            "true");
  EXPECT_EQ(training_arguments(config_with({{"resume_from_checkpoint", "auto"}})).resume_from_checkpoint,
            "auto");
  EXPECT_EQ(training_arguments(config_with({{"resume_from_checkpoint", "out/y"}})).resume_from_checkpoint,
            "out/y");
}

// Trainer's rules (training_args.py __post_init__, trainer.py __init__).
TEST(Arguments, BestModel) {
  const auto best = [](const Settings& more) {
    Settings all = {{"load_best_model_at_end", "true"},
                    {"eval_strategy", "steps"},
                    {"eval_steps", "2"},
                    {"save_steps", "4"}};
    all.insert(all.end(), more.begin(), more.end());
    return config_with(all);
  };
  const TrainingArguments arguments = training_arguments(best({}));
  EXPECT_EQ(arguments.metric_for_best_model, "eval_loss");
  EXPECT_FALSE(arguments.greater_is_better);
  EXPECT_EQ(training_arguments(
                config_with({{"lr_scheduler_type", "reduce_lr_on_plateau"}, {"eval_strategy", "epoch"}}))
                .metric_for_best_model,
            "eval_loss");
  const TrainingArguments accuracy =
      training_arguments(best({{"metric_for_best_model", "mean_token_accuracy"}}));
  EXPECT_EQ(accuracy.metric_for_best_model, "eval_mean_token_accuracy");
  EXPECT_TRUE(accuracy.greater_is_better);
  EXPECT_FALSE(
      training_arguments(best({{"metric_for_best_model", "eval_entropy"}, {"greater_is_better", "false"}}))
          .greater_is_better);
  EXPECT_NO_THROW(training_arguments(best({{"eval_steps", "0.1"}, {"save_steps", "0.3"}})));
  EXPECT_NO_THROW(training_arguments(config_with(
      {{"load_best_model_at_end", "true"}, {"eval_strategy", "epoch"}, {"save_strategy", "epoch"}})));
  EXPECT_NO_THROW(training_arguments(config_with(
      {{"save_strategy", "best"}, {"eval_strategy", "epoch"}, {"metric_for_best_model", "loss"}})));
  const auto why = [&](const Config& config) -> std::string {
    try {
      training_arguments(config);
    } catch (const Error& error) {
      return error.message();
    }
    return "taken";
  };
  EXPECT_EQ(why(best({{"eval_steps", "3"}})),
            "load_best_model_at_end needs save_steps to be a multiple of eval_steps; save_steps is 4, "
            "eval_steps is 3");
  EXPECT_NE(why(best({{"eval_steps", "0.5"}})), "taken");
  EXPECT_NE(why(best({{"eval_steps", "0.2"}, {"save_steps", "0.3"}})), "taken");
  EXPECT_EQ(why(best({{"save_strategy", "epoch"}})),
            "load_best_model_at_end needs the same eval_strategy and save_strategy, steps or epoch (or "
            "save_strategy "
            "best); eval_strategy is steps, save_strategy is epoch");
  EXPECT_EQ(why(config_with({{"save_strategy", "best"}, {"eval_strategy", "epoch"}})),
            "save_strategy best needs metric_for_best_model, for example loss");
  EXPECT_EQ(why(config_with({{"save_strategy", "best"}, {"metric_for_best_model", "loss"}})),
            "save_strategy best needs an eval_strategy: steps or epoch");
}

std::string text_of(const base::Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// What TRL itself refuses in SFT's arguments is refused here too; what depends on the rows, the vocabulary or
// the model (eos_token, assistant_only_loss, router_aux_loss_coef ...) is not this room's.
TEST(Arguments, RefusesWhatTrlRefuses) {
  TRL_NEED_GOLDEN("data/prepared/config_errors.json");
  const std::set<std::string> elsewhere = {"assistant_only_loss", "eos_token", "pad_token",
                                           "router_aux_loss_coef"};
  int refused = 0;
  const base::Json recorded = test::golden_json("data/prepared/config_errors.json");
  for (const base::Json& item : recorded["cases"]) {
    if (item["trainer"] != "sft" || item["args"].empty()) continue;
    if (elsewhere.contains(item["args"].begin().key())) continue;
    ASSERT_FALSE(item["ok"].get<bool>());
    EXPECT_THROW(
        {
          Config config;
          for (const auto& [key, value] : item["args"].items()) config.set(key, text_of(value));
          training_arguments(config);
          data_arguments(config);
        },
        Error)
        << item["args"].dump();
    ++refused;
  }
  EXPECT_EQ(refused, 5);
}

// The arguments of every recorded SFT run of this build are read, and come back as they were.
TEST(Arguments, ReadsTheArgumentsOfRecordedRuns) {
  TRL_NEED_GOLDEN("trajectories/sft_plain/case.json");
  size_t runs = 0;
  for (const std::string name : test::kSftTrajectories) {
    const base::Json run = test::golden_json("trajectories/" + name + "/case.json");
    Config config;
    for (const auto& [key, value] : run["args"].items()) {
      ASSERT_NO_THROW(config.set(key, text_of(value))) << name << " " << key;
      const base::Json back =
          base::parse_json(config.to_json(), "to_json")[std::string(find_option(key)->name)];
      EXPECT_EQ(back, value) << name << " " << key;
    }
    const TrainingArguments a = training_arguments(config);
    EXPECT_NO_THROW(data_arguments(config)) << name;
    if (run["args"].contains("learning_rate")) {
      EXPECT_EQ(a.learning_rate, run["args"]["learning_rate"].get<double>());
    }
    EXPECT_TRUE(config.warnings().empty()) << name << ": " << config.warnings().front();
    ++runs;
  }
  EXPECT_EQ(runs, test::kSftTrajectoryCount);
}

TEST(TrainingArguments, NothingIsEvaluatedWithoutRows) {
  const auto refused = [](const char* key, const char* value) -> std::string {
    Config config;
    config.set(key, value);
    try {
      refuse_evaluation(training_arguments(config));
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_config);
      return error.key();
    }
  };
  EXPECT_EQ(refused("eval_strategy", "no"), "");
  EXPECT_EQ(refused("eval_strategy", "steps"), "eval_strategy");
  EXPECT_EQ(refused("eval_on_start", "true"), "eval_on_start");
}

}  // namespace
}  // namespace trl::config
