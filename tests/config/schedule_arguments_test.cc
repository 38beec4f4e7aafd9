// lr_scheduler_kwargs and optim_args: what each schedule and each optimizer takes, and what it says of the
// rest.
#include <gtest/gtest.h>

#include <algorithm>

#include "config/settings.h"
#include "config/table/option.h"
#include "config/training_arguments.h"

namespace trl::config {
namespace {

TrainingArguments read(const Settings& settings) { return training_arguments(config_with(settings)); }

std::string schedule_refusal(const Settings& settings) {
  return refusal_of([&] { read(settings); });
}

ScheduleArguments schedule(std::string_view type, std::string_view kwargs) {
  return read({{"learning_rate", "0.5"}, {"lr_scheduler_type", type}, {"lr_scheduler_kwargs", kwargs}})
      .lr_scheduler_kwargs;
}

std::string no_schedule(std::string_view type, std::string_view kwargs) {
  return schedule_refusal(
      {{"learning_rate", "0.5"}, {"lr_scheduler_type", type}, {"lr_scheduler_kwargs", kwargs}});
}

TEST(ScheduleArguments, AreReadByTheirSchedule) {
  EXPECT_EQ(schedule("cosine_with_restarts", "{}").num_cycles, 1.0);
  EXPECT_EQ(schedule("cosine_with_restarts", "{num_cycles: 3}").num_cycles, 3.0);
  EXPECT_EQ(schedule("polynomial", "{power: 2, lr_end: 0.1}").power, 2.0);
  EXPECT_EQ(schedule("polynomial", "{power: null}").lr_end, 1e-7);
  EXPECT_EQ(schedule("inverse_sqrt", "{timescale: 10}").timescale, 10);
  EXPECT_EQ(schedule("cosine_with_min_lr", "{min_lr: 0.1}").min_lr_rate, 0.2);
  EXPECT_EQ(schedule("cosine_warmup_with_min_lr", "{min_lr_rate: 0.1, warmup_lr_rate: 0.05}").warmup_lr_rate,
            0.05);
  const ScheduleArguments wsd =
      schedule("warmup_stable_decay", "{num_decay_steps: 6, decay_type: 1-sqrt, warmup_type: cosine}");
  EXPECT_EQ(wsd.num_decay_steps, 6);
  EXPECT_EQ(wsd.decay_type, Curve::one_minus_sqrt);
  EXPECT_EQ(wsd.warmup_type, Curve::cosine);
  EXPECT_FALSE(wsd.num_stable_steps.has_value());
  const PlateauArguments plateau = read({{"lr_scheduler_type", "reduce_lr_on_plateau"},
                                         {"lr_scheduler_kwargs", "{factor: 0.5, patience: 2, mode: max}"},
                                         {"eval_strategy", "epoch"}})
                                       .lr_scheduler_kwargs.plateau;
  EXPECT_EQ(plateau.factor, 0.5);
  EXPECT_EQ(plateau.patience, 2);
  EXPECT_TRUE(plateau.mode_max);
  EXPECT_FALSE(plateau.threshold_abs);
}

TEST(ScheduleArguments, RefuseWhatTheScheduleDoesNotTake) {
  EXPECT_EQ(
      no_schedule("cosine", "{power: 1}"),
      "lr_scheduler_kwargs: 'power' is not an argument of lr_scheduler_type cosine; accepted: num_cycles");
  EXPECT_EQ(
      no_schedule("constant", "{num_cycles: 1}"),
      "lr_scheduler_kwargs: 'num_cycles' is not an argument of lr_scheduler_type constant; accepted: none");
  EXPECT_EQ(no_schedule("cosine_with_restarts", "{num_cycles: 1.5}"),
            "lr_scheduler_kwargs: num_cycles: '1.5' is not accepted; give an integer > 0");
  EXPECT_EQ(no_schedule("cosine_with_min_lr", "{}"),
            "lr_scheduler_kwargs: lr_scheduler_type cosine_with_min_lr needs one of min_lr and min_lr_rate");
  EXPECT_EQ(no_schedule("cosine_with_min_lr", "{min_lr: 0.1, min_lr_rate: 0.1}"),
            "lr_scheduler_kwargs: lr_scheduler_type cosine_with_min_lr needs one of min_lr and min_lr_rate");
  EXPECT_EQ(no_schedule("cosine_with_min_lr", "{min_lr: 1}"),
            "lr_scheduler_kwargs: min_lr: 1 is above the learning_rate 0.5");
  EXPECT_EQ(no_schedule("cosine_with_min_lr", "{min_lr_rate: 2}"),
            "lr_scheduler_kwargs: min_lr_rate: '2' is not accepted; give a number in [0, 1]");
  EXPECT_EQ(no_schedule("polynomial", "{lr_end: 0.5}"),
            "lr_scheduler_kwargs: lr_end: 0.5 is not below the learning_rate 0.5");
  EXPECT_EQ(no_schedule("warmup_stable_decay", "{}"),
            "lr_scheduler_kwargs: lr_scheduler_type warmup_stable_decay needs num_decay_steps");
  EXPECT_EQ(no_schedule("warmup_stable_decay", "{num_decay_steps: 2, decay_type: step}"),
            "lr_scheduler_kwargs: decay_type: 'step' is not accepted; give one of linear, cosine, 1-sqrt");
  EXPECT_EQ(no_schedule("reduce_lr_on_plateau", "{}"),
            "lr_scheduler_type reduce_lr_on_plateau needs evaluations; give eval_strategy: steps or epoch");
}

OptimArguments optim_args(std::string_view optim, std::string_view args) {
  return read({{"optim", optim}, {"optim_args", args}}).optim_args;
}

TEST(OptimArguments, AreReadByTheirOptimizer) {
  const OptimArguments sgd = optim_args("sgd", "momentum=0.9, nesterov=True");
  EXPECT_EQ(sgd.momentum, 0.9);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(sgd.dampening, 0.0);
  EXPECT_EQ(optim_args("rmsprop", "alpha=0.95,centered=true").alpha, 0.95);
  EXPECT_EQ(optim_args("rmsprop", "null").eps, 1e-8);
  EXPECT_EQ(optim_args("adagrad", "lr_decay=1e-3").eps, 1e-10);
  EXPECT_EQ(read({{"optim", "lion_32bit"}}).optim, Optim::lion);
  EXPECT_EQ(read({{"adafactor", "true"}}).optim, Optim::adafactor);
  EXPECT_EQ(read({{"adafactor", "true"}, {"optim", "adafactor"}}).optim, Optim::adafactor);
}

TEST(OptimArguments, OfBitsandbytesOptimizers) {
  const TrainingArguments plain = read({{"optim", "ademamix_8bit"}, {"adam_beta2", "0.95"}});
  EXPECT_EQ(plain.optim, Optim::ademamix);
  EXPECT_EQ(plain.optim_states, OptimStates::eight_bit);
  const AdemamixArguments& defaults = plain.optim_args.ademamix;
  EXPECT_EQ(defaults.beta1, 0.9);
  EXPECT_EQ(defaults.beta2, 0.95);
  EXPECT_EQ(defaults.beta3, 0.9999);
  EXPECT_EQ(defaults.alpha, 5);
  EXPECT_EQ(defaults.t_alpha, 0);
  const AdemamixArguments given =
      optim_args("ademamix", "beta1=0.8, beta3=0.99, alpha=2, eps=1e-6, t_alpha=100, t_beta3=200").ademamix;
  EXPECT_EQ(given.beta1, 0.8);
  EXPECT_EQ(given.beta2, 0.999);
  EXPECT_EQ(given.beta3, 0.99);
  EXPECT_EQ(given.alpha, 2);
  EXPECT_EQ(given.eps, 1e-6);
  EXPECT_EQ(given.t_alpha, 100);
  EXPECT_EQ(given.t_beta3, 200);
  EXPECT_EQ(optim_args("rmsprop_bnb_8bit", "alpha=0.9").alpha, 0.9);
  EXPECT_EQ(read({{"optim", "adamw_bnb_8bit"}}).optim_states, OptimStates::eight_bit);
  EXPECT_EQ(read({{"optim", "rmsprop_bnb"}}).optim_states, OptimStates::float32);
  EXPECT_EQ(read({{"optim", "lion_32bit"}}).optim_states, OptimStates::float32);
  EXPECT_EQ(read({{"optim", "rmsprop"}}).optim_states, OptimStates::as_weights);
  EXPECT_TRUE(read({{"optim", "lion_8bit"}, {"optim_8bit_embeddings", "true"}}).optim_8bit_embeddings);
}

TEST(OptimArguments, PagedStatesLieInADirectory) {
  const TrainingArguments paged = read({{"optim", "paged_adamw_32bit"}, {"output_dir", "out"}});
  EXPECT_EQ(paged.optim, Optim::adamw);
  EXPECT_EQ(paged.optim_states, OptimStates::float32);
  EXPECT_EQ(paged.optim_directory, "out");
  EXPECT_EQ(read({{"optim", "paged_lion_8bit"}, {"offload_dir", "disk"}}).optim_directory, "disk");
  EXPECT_EQ(read({{"optim", "lion_8bit"}}).optim_directory, "");
}

TEST(OptimArguments, WhatHasNoEightBitStatesIsRefusedThem) {
  EXPECT_EQ(schedule_refusal({{"optim", "sgd"}, {"optim_8bit_embeddings", "true"}}),
            "optim_8bit_embeddings: true is for 8-bit states, and optim sgd has none: give adamw_8bit, "
            "ademamix_8bit, lion_8bit or rmsprop_bnb_8bit, or leave it out");
  for (const std::string_view name : {"adagrad_8bit", "sgd_8bit", "adafactor_8bit"})
    EXPECT_TRUE(
        schedule_refusal({{"optim", name}}).starts_with(fmt::format("optim: '{}' is not accepted", name)));
}

// Every name of transformers' is either an optimizer here, or refused with the nearest one.
TEST(OptimArguments, EveryNameIsBuiltOrRefusedWithTheNearest) {
  EXPECT_EQ(
      schedule_refusal({{"optim", "adamw_torch_8bit"}}),
      "optim: adamw_torch_8bit is refused: it is torchao's, which this build does not have; the nearest "
      "is adamw_8bit");
  EXPECT_EQ(
      schedule_refusal({{"optim", "adamw_torch_4bit"}}),
      "optim: adamw_torch_4bit is refused: it is torchao's, which this build does not have; the nearest "
      "is adamw_8bit");
  int refused = 0;
  const Option& option = *find_option("optim");
  const std::vector<std::string_view> works = split_words(option.no_ops, '|');
  for (const std::string_view name : choices(option)) {
    if (name == option.default_value || std::find(works.begin(), works.end(), name) != works.end()) {
      EXPECT_NO_THROW(read({{"optim", name}})) << name;
      continue;
    }
    const std::string message = schedule_refusal({{"optim", name}});
    const size_t nearest = message.rfind("; the nearest is ");
    ASSERT_NE(nearest, std::string::npos) << message;
    EXPECT_NO_THROW(read({{"optim", message.substr(nearest + 17)}})) << message;
    ++refused;
  }
  EXPECT_EQ(refused, 20);
}

TEST(OptimArguments, RefuseWhatTheOptimizerDoesNotTake) {
  const auto refused = [](std::string_view optim, std::string_view args) {
    return schedule_refusal({{"optim", optim}, {"optim_args", args}});
  };
  EXPECT_EQ(refused("sgd", "momentun=0.9"),
            "optim_args: 'momentun' is not an argument of optim sgd; accepted: weight_decay, momentum, "
            "dampening, nesterov, "
            "maximize");
  EXPECT_EQ(refused("adamw_torch", "amsgrad=true"),
            "optim_args: 'amsgrad' is not an argument of optim adamw_torch; accepted: none");
  EXPECT_EQ(refused("sgd", "momentum"),
            "optim_args: 'momentum' is not accepted; give name=value, with commas between them");
  EXPECT_EQ(refused("sgd", "momentum=0.9,momentum=0.8"), "optim_args: momentum is given twice");
  EXPECT_EQ(refused("sgd", "momentum=-1"), "optim_args: momentum: '-1' is not accepted; give a number >= 0");
  EXPECT_EQ(refused("sgd", "nesterov=true"),
            "optim_args: nesterov needs a momentum above 0 and a dampening of 0");
  EXPECT_EQ(
      refused("rmsprop_bnb", "momentum=0.9"),
      "optim_args: 'momentum' is not an argument of optim rmsprop_bnb; accepted: weight_decay, alpha, eps");
  EXPECT_EQ(refused("ademamix", "beta3=1"),
            "optim_args: beta3: '1' is not accepted; give a number in [0, 1)");
  EXPECT_EQ(refused("ademamix_8bit", "t_alpha=1.5"),
            "optim_args: t_alpha: '1.5' is not accepted; give an integer >= 0");
  EXPECT_EQ(refused("ademamix", "t_beta3=10, beta1=0"),
            "optim_args: t_beta3 needs a beta1 and a beta3 above 0");
  EXPECT_EQ(schedule_refusal({{"adafactor", "true"}, {"optim", "sgd"}}),
            "adafactor: true and optim: sgd are both set: give optim alone");
}

}  // namespace
}  // namespace trl::config
