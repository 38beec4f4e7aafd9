// What DPO and KTO read of a configuration, and what of it contradicts itself.
#include <gtest/gtest.h>

#include "config/dataset/data_arguments.h"
#include "config/settings.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

TEST(PreferenceArguments, KtoHasTrlsDefaults) {
  const TrainingArguments a = training_arguments(config_with({{"method", "kto"}}));
  EXPECT_EQ(a.learning_rate, 1e-6);
  EXPECT_TRUE(a.disable_dropout);
  EXPECT_EQ(a.preference.losses, (std::vector<std::pair<std::string, double>>{{"kto", 1.0}}));
  EXPECT_EQ(a.preference.beta, 0.1);
  EXPECT_EQ(a.preference.desirable_weight, 1.0);
  EXPECT_EQ(a.preference.undesirable_weight, 1.0);
  EXPECT_FALSE(a.preference.precompute_ref_log_probs);
  EXPECT_FALSE(a.preference.precompute_ref_batch_size);
  EXPECT_EQ(data_arguments(config_with({{"method", "kto"}})).sampling, Sampling::sequential);
  EXPECT_EQ(data_arguments(config_with({{"method", "dpo"}})).sampling, Sampling::random);
}

TEST(PreferenceArguments, WhatIsComputedEarlyLiesInOutputDirUnlessToldOtherwise) {
  const auto directory = [](const Settings& settings) {
    return training_arguments(config_with(settings)).preference.ref_logprobs_cache_dir;
  };
  EXPECT_EQ(directory({{"method", "dpo"}, {"output_dir", "/tmp/run"}}), "/tmp/run");
  EXPECT_EQ(directory({{"method", "kto"}, {"ref_logprobs_cache_dir", "/tmp/kept"}}), "/tmp/kept");
}

TEST(PreferenceArguments, ContradictionsNameTheKey) {
  struct Case {
    Settings settings;
    const char* message;  // how it begins: key and value
  };
  const std::vector<Case> cases = {
      {{{"method", "kto"}, {"train_sampling_strategy", "random"}},
       "train_sampling_strategy: random is refused with loss_type kto"},
      {{{"method", "kto"}, {"train_sampling_strategy", "group_by_length"}},
       "train_sampling_strategy: 'group_by_length' is not accepted for kto; give one of random, sequential"},
      {{{"method", "dpo"}, {"group_by_length", "true"}},
       "train_sampling_strategy: 'group_by_length' is not accepted for dpo; give one of random, sequential"},
      {{{"method", "dpo"}, {"loss_type", "[sigmoid, sft]"}, {"loss_weights", "[1]"}},
       "loss_weights: [1] is not accepted with loss_type [sigmoid, sft]: give one weight for each loss"},
      {{{"method", "dpo"}, {"use_weighting", "true"}, {"loss_type", "aot"}},
       "use_weighting: true is refused with loss_type aot and aot_unpaired, which compare all pairs of a "
       "batch with each other: give use_weighting: false, or another loss_type"},
      {{{"method", "dpo"}, {"f_divergence_type", "js_divergence"}, {"loss_type", "nca_pair"}},
       "f_divergence_type: js_divergence is refused with loss_type nca_pair, which does not use it: give "
       "f_divergence_type: reverse_kl, or a loss_type of sigmoid, "},
      {{{"method", "kto"}, {"per_device_train_batch_size", "1"}},
       "per_device_train_batch_size: 1 is refused with loss_type kto"},
      {{{"method", "kto"}, {"loss_type", "sigmoid"}},
       "loss_type: 'sigmoid' is not accepted for kto; give one of "
       "kto, apo_zero_unpaired"},
      {{{"method", "kto"}, {"loss_weights", "[1]"}}, "loss_weights: kto does not have this key"},
      {{{"method", "dpo"}, {"desirable_weight", "2"}}, "desirable_weight: dpo does not have this key"},
      {{{"method", "sft"}, {"precompute_ref_log_probs", "true"}},
       "precompute_ref_log_probs: sft does not have this key"},
      {{{"method", "kto"}, {"sync_ref_model", "true"}, {"precompute_ref_log_probs", "true"}},
       "sync_ref_model: true contradicts precompute_ref_log_probs: true"},
      {{{"method", "dpo"}, {"sync_ref_model", "true"}, {"precompute_ref_log_probs", "true"}},
       "sync_ref_model: true contradicts precompute_ref_log_probs: true"},
      {{{"method", "kto"}, {"sync_ref_model", "true"}, {"use_peft", "true"}},
       "sync_ref_model: true is refused with use_peft"},
      {{{"method", "dpo"}, {"label_smoothing_factor", "0.1"}},
       "label_smoothing_factor: 0.1 is refused with method dpo, whose loss does not smooth labels: leave it "
       "out, or give label_smoothing"},
      {{{"method", "reward"}, {"label_smoothing_factor", "0.1"}}, "label_smoothing_factor: 0.1 is refused"},
      {{{"method", "gkd"}, {"label_smoothing_factor", "0.1"}},
       "label_smoothing_factor: 0.1 is refused with method gkd, whose loss does not smooth labels: leave it "
       "out"},
      {{{"method", "distillation"}, {"label_smoothing_factor", "0.1"}},
       "label_smoothing_factor: 0.1 is refused with method distillation"},
      {{{"method", "dpo"}, {"loss_weights", "[nan]"}}, "loss_weights: 'nan' is not a finite number"},
      {{{"method", "dpo"}, {"loss_type", "exo_pair"}, {"label_smoothing", "1"}},
       "label_smoothing: 1 is refused with loss_type exo_pair"},
      {{{"method", "dpo"}, {"ref_logprobs_cache_dir", "~/kept"}},
       "ref_logprobs_cache_dir: '~/kept' is not accepted"},
  };
  for (const Case& bad : cases) {
    const auto [status, message] = test::error_of([&] { training_arguments(config_with(bad.settings)); });
    EXPECT_EQ(status, Status::invalid_config) << message;
    EXPECT_TRUE(message.starts_with(bad.message)) << message;
  }
  EXPECT_NO_THROW(training_arguments(config_with({{"method", "kto"},
                                                  {"loss_type", "apo_zero_unpaired"},
                                                  {"per_device_train_batch_size", "1"},
                                                  {"train_sampling_strategy", "random"}})));
}

TEST(PreferenceArguments, LossesOfEarlierReleasesSayWhatTakesTheirPlace) {
  const auto refusal = [](const char* key, const char* value) {
    return test::error_of([&] { config_with({{"method", "dpo"}, {key, value}}); }).second;
  };
  EXPECT_EQ(refusal("rpo_alpha", "0.5"),
            "rpo_alpha: '0.5' is refused: it is a loss of the list now: give loss_type: [sigmoid, sft] with "
            "loss_weights: [1.0, the value of rpo_alpha]");
  EXPECT_TRUE(refusal("reference_free", "true").starts_with("reference_free: 'true' is refused: "));
  EXPECT_TRUE(refusal("model_init_kwargs", R"({"num_labels": 2})").starts_with("model_init_kwargs: "));
  EXPECT_NO_THROW(config_with({{"method", "dpo"}, {"rpo_alpha", "null"}, {"reference_free", "false"}}));
  EXPECT_NO_THROW(config_with({{"method", "reward"}, {"model_init_kwargs", R"({"num_labels": 1})"}}));
}

TEST(PreferenceArguments, WindowsThatContradictAreRefused) {
  EXPECT_EQ(data_arguments(config_with({{"share_prefix_window", "8"}})).share_prefix_window, 8);
  EXPECT_EQ(data_arguments(Config()).share_prefix_window, 0);
  EXPECT_THROW(Config().set("share_prefix_window", "1"), Error);
  const std::vector<std::pair<Settings, const char*>> cases = {
      {{{"share_prefix", "false"}}, "share_prefix: false"},
      {{{"packing", "true"}}, "packing"},
      {{{"dataset_streaming", "true"}}, "dataset_streaming"},
      {{{"train_sampling_strategy", "group_by_length"}}, "train_sampling_strategy: group_by_length"},
      {{{"method", "kto"}}, "loss_type: kto"}};
  for (const auto& [settings, with] : cases) {
    Config config = config_with(settings);
    config.set("share_prefix_window", "8");
    const auto [status, message] = test::error_of([&] { data_arguments(config); });
    EXPECT_EQ(status, Status::invalid_config);
    EXPECT_TRUE(message.starts_with(std::string("share_prefix_window: 8 is refused with ") + with + ", "))
        << message;
  }
  EXPECT_NO_THROW(data_arguments(
      config_with({{"method", "kto"}, {"loss_type", "apo_zero_unpaired"}, {"share_prefix_window", "8"}})));
}

TEST(PreferenceArguments, RowsThatComeAndGoAreNotGivenToTheReferenceBefore) {
  for (const char* method : {"dpo", "kto"}) {
    Config config = config_with({{"method", method}, {"dataset_streaming", "true"}});
    EXPECT_TRUE(data_arguments(config).streaming);
    config.set("precompute_ref_log_probs", "true");
    const auto [status, message] = test::error_of([&] { data_arguments(config); });
    EXPECT_EQ(status, Status::invalid_config);
    EXPECT_TRUE(message.starts_with("precompute_ref_log_probs: true is refused with dataset_streaming: true"))
        << message;
  }
  EXPECT_TRUE(data_arguments(config_with({{"method", "reward"}, {"dataset_streaming", "true"}})).streaming);
}

}  // namespace
}  // namespace trl::config
