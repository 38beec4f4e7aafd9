// What the trainers that write completions read of a configuration, and what of it contradicts itself.
#include "config/online/online_arguments.h"
#include "config/online/completion_records.h"

#include <gtest/gtest.h>

#include "config/dataset/data_arguments.h"
#include "config/settings.h"
#include "config/training_arguments.h"
#include "support/golden.h"

namespace trl::config {
namespace {

OnlineArguments online(std::string_view trainer, const Settings& settings = {}) {
  return training_arguments(config_of(trainer, settings)).online;
}

TEST(OnlineArguments, ToolsAreListsByEnvironment) {
  EXPECT_EQ(online("grpo").tools, "");
  EXPECT_EQ(online("grpo", {{"tools", "[]"}}).tools, "");
  const OnlineArguments plain =
      online("distillation", {{"tools", "[{name: f}]"}, {"max_tool_calling_iterations", "2"}});
  EXPECT_EQ(plain.tools, R"({"":[{"name":"f"}]})");
  EXPECT_FALSE(plain.environments || plain.host_parses_calls);
  EXPECT_EQ(plain.max_tool_calling_iterations, 2);
  const OnlineArguments two = online("grpo", {{"tools", "[{name: f}]"},
                                              {"environments", "{a: [{function: {name: g}}], b: []}"},
                                              {"tool_call_parser", "host"}});
  EXPECT_EQ(two.tools, R"({"a":[{"name":"f"},{"function":{"name":"g"}}],"b":[{"name":"f"}]})");
  EXPECT_TRUE(two.environments && two.host_parses_calls);
  const auto refused = [](const Settings& settings) { return refusal_of([&] { online("grpo", settings); }); };
  EXPECT_EQ(refused({{"tools", "[{description: f}]"}}),
            "tools: '{\"description\":\"f\"}' has no name: give {type: function, function: {name: ..., "
            "description: ..., parameters: ...}}");
  EXPECT_EQ(refused({{"environments", "{a: {name: f}}"}}),
            "environments: '{\"name\":\"f\"}' is not a list of JSON schemas");
  EXPECT_EQ(refused({{"environments", "{}"}}), "environments: there is none: name one, or leave the key out");
}

TEST(OnlineArguments, AServerIsOneOfUseVllm) {
  const Settings served = {{"use_vllm", "true"}, {"vllm_mode", "server"}};
  const auto with = [&](Settings more) {
    more.insert(more.end(), served.begin(), served.end());
    return more;
  };
  for (const char* trainer : {"grpo", "rloo", "distillation", "online_dpo"}) {
    EXPECT_FALSE(online(trainer, {{"use_vllm", "true"}}).server);
    EXPECT_FALSE(online(trainer, {{"vllm_mode", "server"}}).server);
    const OnlineArguments own = online(trainer, with({{"use_peft", "true"}, {"vllm_server_port", "8001"}}));
    ASSERT_TRUE(own.server) << trainer;
    EXPECT_EQ(own.server->url, "http://0.0.0.0:8001");
    EXPECT_EQ(own.server->timeout, 240);
    EXPECT_EQ(own.server->weights, ServerWeights::adapter);
    EXPECT_EQ(online(trainer, with({})).server->weights, ServerWeights::tensors);
  }
  const auto kept = online("grpo", with({{"vllm_server_weights", "none"},
                                         {"vllm_server_base_url", "https://host/vllm/"},
                                         {"vllm_server_api_key_file", "key"},
                                         {"vllm_server_timeout", "3"}}))
                        .server;
  EXPECT_EQ(kept->url, "https://host/vllm");
  EXPECT_EQ(kept->api_key_file, "key");
  EXPECT_EQ(kept->timeout, 3);
  EXPECT_EQ(kept->weights, ServerWeights::none);
  const auto refused = [&](const Settings& more) { return refusal_of([&] { online("grpo", with(more)); }); };
  EXPECT_TRUE(refused({{"vllm_server_weights", "nccl"}})
                  .starts_with("vllm_server_weights: nccl is refused: this build has no NCCL"));
  EXPECT_TRUE(refused({{"use_peft", "true"}, {"vllm_server_weights", "tensors"}})
                  .starts_with("vllm_server_weights: tensors is refused with use_peft"));
  EXPECT_TRUE(refused({{"vllm_server_weights", "adapter"}}).starts_with("vllm_server_weights: adapter is"));
  const auto of_adapter = [&](Settings more) {
    more.emplace_back("use_peft", "true");
    return refused(more);
  };
  EXPECT_EQ(of_adapter({{"vllm_server_base_url", "host:8000"}}),
            "vllm_server_base_url: 'host:8000' is not accepted: give a URL of http or https");
  EXPECT_TRUE(of_adapter({{"tools", "[{name: f}]"}}).starts_with("tools: refused with vllm_mode: server"));
  EXPECT_TRUE(of_adapter({{"replay_rollouts", "r"}}).starts_with("replay_rollouts: r is refused with"));
  EXPECT_TRUE(of_adapter({{"generation_exact", "true"}}).starts_with("generation_exact: true is refused"));
  EXPECT_TRUE(of_adapter({{"vllm_server_adapter_dir", "~/a"}}).starts_with("vllm_server_adapter_dir: '~/a'"));
}

TEST(OnlineArguments, GenerationKwargsLeaveTheLengthThatTheLossDividesBy) {
  const Settings own = {{"max_completion_length", "20"}, {"generation_kwargs", "{max_tokens: 5}"}};
  const OnlineArguments grpo = online("grpo", own);
  EXPECT_EQ(grpo.max_completion_length, 20);
  EXPECT_EQ(grpo.max_new_tokens, 5);
  EXPECT_EQ(grpo.longest_completion(), 5);
  const OnlineArguments calls = online(
      "grpo",
      {{"max_completion_length", "20"}, {"generation_kwargs", "{max_tokens: 5}"}, {"tools", "[{name: f}]"}});
  EXPECT_EQ(calls.max_new_tokens, 5);  // of a turn
  EXPECT_EQ(calls.longest_completion(), 20);
  const OnlineArguments ppo = online("ppo", {{"generation_kwargs", "{max_tokens: 60}"}});
  EXPECT_EQ(ppo.max_completion_length, 53);
  EXPECT_EQ(ppo.longest_completion(), 60);
}

// TRL's class for GKD inherits keep_start, which its trainer does not read.
TEST(OnlineArguments, GkdKeepsTheEndOfConversationsWhateverTruncationModeSays) {
  for (const Settings& own :
       {Settings{}, Settings{{"truncation_mode", "keep_end"}}, Settings{{"truncation_mode", "keep_start"}}}) {
    const Config config = config_of("gkd", own);
    EXPECT_TRUE(data_arguments(config).truncation_keep_end);
    EXPECT_TRUE(std::ranges::none_of(
        run_notes(config), [](const std::string& note) { return note.starts_with("truncation_mode"); }));
    const std::vector<std::string> lines = idle_options(config);
    const bool told = std::ranges::any_of(lines, [](const std::string& line) {
      return line.starts_with("truncation_mode: keep_start has no effect with method gkd");
    });
    EXPECT_EQ(told, config.get("truncation_mode") == "keep_start");
  }
}

TEST(OnlineArguments, HaveTrlsDefaults) {
  const OnlineArguments grpo = online("grpo");
  EXPECT_EQ(grpo.num_generations, 8);
  EXPECT_EQ(grpo.num_generations_eval, 8);
  EXPECT_EQ(grpo.max_completion_length, 512);
  EXPECT_EQ(grpo.max_new_tokens, 512);
  EXPECT_EQ(grpo.policy_loss, PolicyLoss::dapo);
  EXPECT_EQ(grpo.beta, 0);
  EXPECT_FALSE(grpo.compares);
  EXPECT_EQ(grpo.epsilon_high, 0.2);
  EXPECT_FALSE(grpo.delta);
  EXPECT_FALSE(grpo.cast_lm_head_to_fp32);
  EXPECT_TRUE(online("grpo", {{"cast_lm_head_to_fp32", "true"}}).cast_lm_head_to_fp32);
  EXPECT_EQ(grpo.scale_rewards, ScaleRewards::group);
  EXPECT_EQ(grpo.importance_sampling_level, RatioLevel::token);
  EXPECT_EQ(grpo.correction_mode, CorrectionMode::sequence_mask);
  EXPECT_EQ(grpo.correction_max, 3);
  EXPECT_FALSE(grpo.corrects_sampling);
  EXPECT_FALSE(grpo.computes_old_logprobs);
  EXPECT_EQ(grpo.chat_template_kwargs, "{}");
  EXPECT_TRUE(grpo.shuffle_rollouts);
  EXPECT_EQ(grpo.on_reward_error, OnRewardError::error);
  const OnlineArguments rloo = online("rloo");
  EXPECT_EQ(rloo.num_generations, 2);
  EXPECT_EQ(rloo.beta, 0.05);
  EXPECT_TRUE(rloo.compares);
  EXPECT_TRUE(rloo.computes_old_logprobs);
  const OnlineArguments gkd = online("gkd");
  EXPECT_EQ(gkd.max_completion_length, 128);
  EXPECT_EQ(gkd.loss_temperature, 1);
  EXPECT_EQ(gkd.beta, 0.5);
  EXPECT_EQ(gkd.lmbda, 0.5);
  EXPECT_FALSE(gkd.compares);
  EXPECT_EQ(gkd.teacher_dtype, "float32");
  const OnlineArguments distillation = online("distillation");
  EXPECT_EQ(distillation.beta, 1);
  EXPECT_EQ(distillation.lmbda, 1);
  const OnlineArguments online_dpo = online("online_dpo");
  EXPECT_EQ(online_dpo.max_completion_length, 64);
  EXPECT_EQ(online_dpo.betas, std::vector<double>{0.1});
  EXPECT_EQ(online_dpo.pair_loss, PairLoss::sigmoid);
  EXPECT_TRUE(online_dpo.compares);
  const OnlineArguments ppo = online("ppo");
  EXPECT_EQ(ppo.max_completion_length, 53);
  EXPECT_EQ(ppo.loss_temperature, 0.7 + 1e-7);
  EXPECT_EQ(ppo.num_iterations, 4);
  EXPECT_EQ(ppo.kl_estimator, KlEstimator::k1);
  EXPECT_FALSE(ppo.stops_at_eos);
  EXPECT_TRUE(ppo.compares);
  EXPECT_EQ(online("sft").repeat_count, OnlineArguments().repeat_count);
}

TEST(OnlineArguments, WordsAreTheirMembers) {
  const std::pair<const char*, PolicyLoss> losses[] = {
      {"grpo", PolicyLoss::grpo},   {"bnpo", PolicyLoss::bnpo},   {"dr_grpo", PolicyLoss::dr_grpo},
      {"dapo", PolicyLoss::dapo},   {"cispo", PolicyLoss::cispo}, {"sapo", PolicyLoss::sapo},
      {"luspo", PolicyLoss::luspo}, {"vespo", PolicyLoss::vespo}};
  for (const auto& [word, loss] : losses)
    EXPECT_EQ(online("grpo", {{"loss_type", word}}).policy_loss, loss) << word;
  const std::pair<const char*, ScaleRewards> scales[] = {{"none", ScaleRewards::none},
                                                         {"false", ScaleRewards::none},
                                                         {"group", ScaleRewards::group},
                                                         {"true", ScaleRewards::group},
                                                         {"batch", ScaleRewards::batch}};
  for (const auto& [word, scale] : scales)
    EXPECT_EQ(online("grpo", {{"scale_rewards", word}}).scale_rewards, scale) << word;
  const std::pair<const char*, CorrectionMode> modes[] = {
      {"token_truncate", CorrectionMode::token_truncate},
      {"token_mask", CorrectionMode::token_mask},
      {"sequence_truncate", CorrectionMode::sequence_truncate},
      {"sequence_mask", CorrectionMode::sequence_mask}};
  for (const auto& [word, mode] : modes)
    EXPECT_EQ(online("grpo", {{"vllm_importance_sampling_mode", word}}).correction_mode, mode) << word;
  const OnlineArguments a = online("grpo", {{"importance_sampling_level", "sequence"},
                                            {"multi_objective_aggregation", "normalize_then_sum"},
                                            {"on_reward_error", "none"}});
  EXPECT_EQ(a.importance_sampling_level, RatioLevel::sequence);
  EXPECT_EQ(a.multi_objective_aggregation, Aggregation::normalize_then_sum);
  EXPECT_EQ(a.on_reward_error, OnRewardError::none);
  EXPECT_EQ(online("online_dpo", {{"loss_type", "ipo"}}).pair_loss, PairLoss::ipo);
  EXPECT_EQ(online("ppo", {{"kl_estimator", "k3"}}).kl_estimator, KlEstimator::k3);
}

// generation_batch_size, steps_per_generation, prompts_per_generation, repeat_count
using Sizes = std::array<int64_t, 4>;
Sizes sizes(std::string_view trainer, Settings settings) {
  settings.insert(settings.begin(),
                  {{"per_device_train_batch_size", "4"}, {"gradient_accumulation_steps", "2"}});
  const OnlineArguments a = online(trainer, settings);
  return {a.generation_batch_size, a.steps_per_generation, a.prompts_per_generation, a.repeat_count};
}

TEST(OnlineArguments, SizesFollowFromEachOther) {
  EXPECT_EQ(sizes("grpo", {}), (Sizes{8, 2, 1, 2}));
  EXPECT_EQ(sizes("grpo", {{"generation_batch_size", "16"}, {"num_generations", "4"}}), (Sizes{16, 4, 4, 4}));
  EXPECT_EQ(sizes("rloo", {{"steps_per_generation", "3"}, {"num_iterations", "2"}}), (Sizes{12, 3, 6, 6}));
  EXPECT_EQ(sizes("gkd", {}), (Sizes{4, 1, 4, 1}));
  EXPECT_EQ(sizes("distillation", {}), (Sizes{8, 2, 8, 2}));
  EXPECT_EQ(sizes("online_dpo", {}), (Sizes{8, 1, 4, 1}));
  EXPECT_EQ(sizes("ppo", {}), (Sizes{8, 2, 8, 8}));
  EXPECT_EQ(sizes("ppo", {{"num_mini_batches", "8"}}), (Sizes{8, 8, 8, 32}));  // no part has 4 rows
  const OnlineArguments parts =
      online("ppo", {{"num_mini_batches", "2"}, {"gradient_accumulation_steps", "2"}});
  EXPECT_EQ(parts.mini_batch_size, 8);
  EXPECT_EQ(online("grpo", {{"num_generations_eval", "1"}}).num_generations_eval, 1);
}

TEST(OnlineArguments, OldLogProbabilitiesAreComputedWhereTheyDiffer) {
  const auto computed = [](Settings settings) { return online("grpo", settings).computes_old_logprobs; };
  EXPECT_FALSE(computed({{"gradient_accumulation_steps", "4"}}));
  EXPECT_FALSE(computed({{"gradient_accumulation_steps", "4"}, {"steps_per_generation", "2"}}));
  EXPECT_TRUE(computed({{"gradient_accumulation_steps", "2"}, {"steps_per_generation", "4"}}));
  EXPECT_TRUE(computed({{"num_iterations", "2"}}));
  EXPECT_TRUE(computed({{"use_vllm", "true"}}));
  EXPECT_FALSE(computed({{"use_vllm", "true"}, {"vllm_importance_sampling_correction", "false"}}));
}

TEST(OnlineArguments, TheReferenceIsThatOfThePreferences) {
  const TrainingArguments a = training_arguments(
      config_of("grpo", {{"beta", "0.04"}, {"ref_model_name_or_path", "old"}, {"sync_ref_model", "true"}}));
  EXPECT_TRUE(a.online.compares);
  EXPECT_EQ(a.online.reference, "old");
  EXPECT_EQ(a.preference.reference, "old");
  EXPECT_TRUE(a.preference.sync_ref_model);
  EXPECT_TRUE(a.preference.losses.empty());
  EXPECT_EQ(online("grpo", {{"ref_model_name_or_path", "old"}}).reference, "");
  EXPECT_EQ(online("ppo", {{"ref_model_name_or_path", "old"}}).reference, "old");
}

TEST(OnlineArguments, ReadModelsAndLists) {
  const OnlineArguments ppo = online("ppo", {{"reward_model_path", "judge"}});
  EXPECT_EQ(ppo.reward_model, "judge");
  EXPECT_EQ(ppo.value_model, "judge");
  EXPECT_EQ(
      online("ppo", {{"reward_model_path", "judge"}, {"value_model_name_or_path", "critic"}}).value_model,
      "critic");
  EXPECT_EQ(config_of("ppo", {{"sft_model_path", "start"}}).get("model_name_or_path"), "start");
  const OnlineArguments grpo =
      online("grpo", {{"reward_funcs", "[accuracy_reward, get_cosine_scaled_reward(max_len=9)]"},
                      {"reward_weights", "[1, 0.5]"},
                      {"chat_template_kwargs", "{enable_thinking: false}"}});
  EXPECT_EQ(grpo.reward_funcs,
            (std::vector<std::string>{"accuracy_reward", "get_cosine_scaled_reward(max_len=9)"}));
  for (const char* words : {"accuracy_reward get_cosine_scaled_reward(max_len=9, max_value_wrong=0)",
                            "accuracy_reward,get_cosine_scaled_reward(max_len=9, max_value_wrong=0)"})
    EXPECT_EQ(online("grpo", {{"reward_funcs", words}}).reward_funcs,
              (std::vector<std::string>{"accuracy_reward",
                                        "get_cosine_scaled_reward(max_len=9, max_value_wrong=0)"}));
  const std::vector<std::string> command = {"points=command:./score.sh a, b"};
  EXPECT_EQ(online("grpo", {{"reward_funcs", command[0]}}).reward_funcs, command);
  EXPECT_EQ(grpo.reward_weights, (std::vector<double>{1, 0.5}));
  EXPECT_EQ(grpo.chat_template_kwargs, R"({"enable_thinking":false})");
  EXPECT_EQ(online("rloo", {{"reward_clip_range", "[-1, 2.5]"}}).reward_clip_range, (std::pair{-1.0, 2.5}));
  for (const char* beta : {"[0.5, 0.25]", "0.5 0.25", "0.5,0.25"})
    EXPECT_EQ(online("online_dpo", {{"beta", beta}}).betas, (std::vector<double>{0.5, 0.25})) << beta;
  EXPECT_EQ(online("online_dpo", {{"beta", "0.5"}}).betas, std::vector<double>{0.5});
  EXPECT_EQ(config_of("online_dpo", {{"beta", "[0.5, 0.25]"}}).to_json(),
            R"({"beta":[0.5,0.25],"method":"online_dpo"})");
  EXPECT_EQ(online("gkd", {{"teacher_model_init_kwargs", "{dtype: bfloat16}"}}).teacher_dtype, "bfloat16");
  EXPECT_EQ(online("gkd", {{"dtype", "auto"}}).teacher_dtype, "auto");
}

TEST(OnlineArguments, NumbersOfPassAtKFitTheGenerations) {
  const auto read = [](const char* numbers) {
    const Config config = config_of("grpo", {{"eval_pass_at_k", numbers}, {"num_generations_eval", "4"}});
    return completion_records(config, online_arguments(config)).pass_at_k;
  };
  EXPECT_EQ(read("[1, 4]"), (std::vector<int64_t>{1, 4}));
  EXPECT_EQ(read("2"), (std::vector<int64_t>{2}));
  EXPECT_EQ(read("null"), (std::vector<int64_t>{}));
  for (const char* numbers : {"5", "[1, 0]", "[one]"})
    EXPECT_NE(
        refusal_of([&] { read(numbers); }).find("give integers from 1 to num_generations_eval, which is 4"),
        std::string::npos);
}

TEST(OnlineArguments, RowsAreNotCutAsThoseOfPreferences) {
  EXPECT_FALSE(data_arguments(config_of("grpo")).max_completion_length);
  EXPECT_TRUE(data_arguments(config_of("grpo")).shuffle_dataset);
  EXPECT_TRUE(data_arguments(config_of("gkd")).truncation_keep_end);
  EXPECT_EQ(data_arguments(config_of("online_dpo")).max_length, 512);
  EXPECT_EQ(training_arguments(config_of("gkd")).router_aux_loss_coef, 0);
  EXPECT_TRUE(training_arguments(config_of("ppo")).disable_dropout);
  EXPECT_FALSE(training_arguments(config_of("grpo")).disable_dropout);
}

TEST(OnlineArguments, ContradictionsNameTheKey) {
  struct Case {
    const char* trainer;
    Settings settings;
    const char* message;  // how it begins
  };
  const std::vector<Case> cases = {
      {"grpo",
       {{"generation_batch_size", "8"}, {"steps_per_generation", "1"}},
       "generation_batch_size: 8 and steps_per_generation: 1 are both given, and one follows from the other"},
      {"grpo",
       {{"generation_batch_size", "20"}},
       "generation_batch_size: 20 is not a multiple of per_device_train_batch_size, which is 8: give 16 or "
       "24"},
      {"grpo",
       {{"generation_batch_size", "4"}},
       "generation_batch_size: 4 is not a multiple of per_device_train_batch_size, which is 8: give 8"},
      {"grpo",
       {{"per_device_train_batch_size", "6"}, {"generation_batch_size", "10"}},
       "generation_batch_size: 10 is not a multiple of per_device_train_batch_size, which is 6: give 24"},
      {"grpo",
       {{"per_device_train_batch_size", "4"}, {"generation_batch_size", "12"}},
       "generation_batch_size: 12 is not a multiple of num_generations, which is 8: give num_generations 6 "
       "or 12, or generation_batch_size 8 or 16"},
      {"rloo",
       {{"per_device_train_batch_size", "1"}, {"generation_batch_size", "1"}},
       "generation_batch_size: 1 is not a multiple of num_generations, which is 2: give "
       "generation_batch_size 2"},
      {"grpo",
       {{"per_device_train_batch_size", "4"}, {"steps_per_generation", "3"}},
       "num_generations: 8 does not divide the 12 completions of a generation (per_device_train_batch_size 4 "
       "* "
       "steps_per_generation 3): give num_generations 6 or 12, or 8 or 16 completions"},
      {"rloo",
       {{"per_device_train_batch_size", "1"}},
       "num_generations: 2 does not divide the 1 completions of a generation (per_device_train_batch_size 1 "
       "* "
       "steps_per_generation 1): give 2 completions"},
      {"grpo",
       {{"per_device_eval_batch_size", "4"}, {"eval_strategy", "steps"}},
       "per_device_eval_batch_size: 4 is not a multiple of the 8 completions of a prompt in evaluation: give "
       "8, or "
       "num_generations_eval 4"},
      {"grpo",
       {{"eval_temperature", "0"}, {"eval_strategy", "steps"}},
       "eval_temperature: 0 makes the 8 completions of each prompt of an evaluation equal"},
      {"grpo", {{"max_completion_length", "null"}}, "max_completion_length: null is refused"},
      {"grpo", {{"sync_ref_model", "true"}}, "sync_ref_model: true is refused with beta: 0"},
      {"rloo",
       {{"sync_ref_model", "true"}, {"use_peft", "true"}},
       "sync_ref_model: true is refused with use_peft"},
      {"grpo", {{"beta", "-1"}}, "beta: '-1' is not accepted"},
      {"gkd", {{"beta", "1.5"}}, "beta: '1.5' is not accepted for gkd; give a number in [0, 1]"},
      {"rloo", {{"beta", "[0.1, 0.2]"}}, "beta: '[0.1,0.2]' is not accepted for rloo; give a number >= 0"},
      {"online_dpo",
       {{"beta", "[0.1, 0]"}},
       "beta: '[0.1,0.0]' is not accepted for online_dpo; give one or a list of numbers > 0"},
      {"dpo", {{"beta", "0"}}, "beta: '0' is not accepted for dpo; give a number > 0"},
      {"grpo",
       {{"vllm_importance_sampling_clip_min", "3"}},
       "vllm_importance_sampling_clip_min: 3 is not below vllm_importance_sampling_clip_max: 3"},
      {"grpo",
       {{"vllm_importance_sampling_mode", "token_truncate"}, {"vllm_importance_sampling_clip_max", "null"}},
       "vllm_importance_sampling_mode: token_truncate has no bound to truncate to"},
      {"grpo",
       {{"loss_type", "vespo"}, {"use_vllm", "true"}},
       "vllm_importance_sampling_mode: sequence_mask is refused with loss_type vespo"},
      {"grpo",
       {{"loss_type", "sigmoid"}},
       "loss_type: 'sigmoid' is not accepted for grpo; give one of grpo, bnpo"},
      {"grpo", {{"entropy_coef_min", "2"}}, "entropy_coef_min: 2 is above entropy_coef_max: 1"},
      {"grpo",
       {{"reward_funcs", "[accuracy_reward, think_format_reward]"}, {"reward_weights", "[1]"}},
       "reward_weights: their number is 1, and that of the rewards 2: give one for each"},
      {"grpo", {{"reward_weights", "[1, x]"}}, "reward_weights: 'x' is not a finite number"},
      {"rloo",
       {{"reward_clip_range", "[2, 1]"}},
       "reward_clip_range: [2, 1] is not accepted; give two numbers"},
      {"rloo", {{"reward_clip_range", "[1]"}}, "reward_clip_range: "},
      {"grpo", {{"record_rollouts", "a"}, {"replay_rollouts", "a"}}, "record_rollouts: 'a' is the file of"},
      {"grpo", {{"record_rollouts", "~/a"}}, "record_rollouts: '~/a' is not accepted"},
      {"ppo",
       {{"num_mini_batches", "3"}},
       "num_mini_batches: 3 does not divide the 8 rows of a batch (per_device_train_batch_size * "
       "gradient_accumulation_steps): give 2 or 4"},
      {"ppo",
       {{"num_mini_batches", "2"}, {"whiten_rewards", "true"}},
       "whiten_rewards: true needs 8 rows or more in each part of a batch, and num_mini_batches: 2 makes "
       "them 4"},
      {"ppo",
       {{"stop_token", "eos"}, {"stop_token_id", "3"}},
       "stop_token_id: 3 contradicts stop_token: eos"},
      {"ppo", {{"disable_dropout", "false"}}, "disable_dropout: 'false' is not accepted for ppo; give true"},
      {"ppo", {{"eval_on_start", "true"}}, "eval_on_start: true is refused with method ppo"},
      {"online_dpo", {{"eval_strategy", "steps"}}, "eval_strategy: steps is refused with method online_dpo"},
      {"ppo",
       {{"load_best_model_at_end", "true"}, {"eval_strategy", "steps"}},
       "load_best_model_at_end: true is refused with method ppo, which evaluates nothing"},
      {"online_dpo",
       {{"save_strategy", "best"}, {"metric_for_best_model", "reward"}},
       "save_strategy: best is refused with method online_dpo, which evaluates nothing"},
      {"ppo",
       {{"lr_scheduler_type", "reduce_lr_on_plateau"}, {"eval_strategy", "epoch"}},
       "lr_scheduler_type: reduce_lr_on_plateau is refused with method ppo, which evaluates nothing"},
      {"gkd", {{"packing", "true"}}, "packing: 'true' is not accepted for gkd; give false"},
      {"gkd", {{"dataset_kwargs", "{skip_prepare_dataset: true}"}}, "dataset_kwargs: "},
      {"gkd",
       {{"pad_to_multiple_of", "8"}},
       "pad_to_multiple_of: '8' is not accepted for gkd; give auto, or null"},
      {"gkd",
       {{"router_aux_loss_coef", "0.1"}},
       "router_aux_loss_coef: '0.1' is not accepted for gkd; give 0"},
      {"gkd", {{"teacher_model_init_kwargs", "{dtype: float16}"}}, "teacher_model_init_kwargs: dtype: "},
      {"gkd",
       {{"teacher_model_init_kwargs", "{attn_implementation: 'plugin:a.so'}"}},
       "teacher_model_init_kwargs: attn_implementation: 'plugin:a.so' is refused"},
      {"rloo", {{"delta", "2"}}, "delta: rloo does not have this key; it is one of grpo"},
  };
  for (const Case& bad : cases) {
    const std::string message = refusal_of([&] { training_arguments(config_of(bad.trainer, bad.settings)); });
    EXPECT_TRUE(message.starts_with(bad.message)) << bad.trainer << ": " << message;
  }
}

TEST(OnlineArguments, ThereMustBeARewardAndATeacher) {
  EXPECT_TRUE(
      refusal_of([] { check_rewards(online("grpo"), 0); }).starts_with("reward_funcs: there is no reward"));
  EXPECT_NO_THROW(check_rewards(online("grpo"), 1));
  EXPECT_NO_THROW(check_rewards(online("ppo", {{"reward_model_path", "m"}}), 0));
  const OnlineArguments two =
      online("grpo", {{"reward_funcs", "[accuracy_reward]"}, {"reward_weights", "[1, 2]"}});
  EXPECT_NO_THROW(check_rewards(two, 1));
  EXPECT_EQ(refusal_of([&] { check_rewards(two, 0); }),
            "reward_weights: their number is 2, and that of the rewards 1: give one for each");
  EXPECT_TRUE(refusal_of([] {
                check_teacher(config_of("gkd"));
              }).starts_with("teacher_model_name_or_path: gkd needs a teacher"));
  EXPECT_NO_THROW(check_teacher(config_of("gkd", {{"teacher_model_name_or_path", "t"}})));
  EXPECT_NO_THROW(check_teacher(config_of("grpo")));
}

TEST(OnlineArguments, WarningsTellOfValuesThatActOtherwise) {
  struct Case {
    const char* trainer;
    Settings settings;
    const char* line;  // how it begins
  };
  const std::vector<Case> cases = {
      {"grpo",
       {{"loss_type", "cispo"}},
       "epsilon_high: with loss_type cispo it is the largest ratio itself, and 0.2"},
      {"grpo", {{"loss_type", "luspo"}}, "importance_sampling_level: loss_type luspo is meant for sequence"},
      {"grpo",
       {{"loss_type", "vespo"}, {"importance_sampling_level", "sequence"}},
       "importance_sampling_level: loss_type vespo weighs sequences itself"},
      {"grpo",
       {{"importance_sampling_level", "sequence"}},
       "importance_sampling_level: with sequence, loss_type dapo weighs each completion by its length"},
      {"grpo",
       {{"delta", "2"}, {"loss_type", "sapo"}},
       "delta: it has an effect only with loss_type grpo, bnpo"},
      {"grpo",
       {{"sapo_temperature_pos", "2"}},
       "sapo_temperature_pos: it has an effect only with loss_type sapo"},
      {"grpo",
       {{"use_bias_correction_kl", "false"}},
       "use_bias_correction_kl: it has an effect only with a beta"},
      {"rloo",
       {{"beta", "0"}, {"ref_model_name_or_path", "m"}},
       "ref_model_name_or_path: it has an effect only with"},
      {"grpo",
       {{"entropy_target", "1"}},
       "entropy_target: it has an effect only with use_adaptive_entropy: true"},
      {"grpo",
       {{"vllm_importance_sampling_mode", "token_mask"}},
       "vllm_importance_sampling_mode: it has an effect only with use_vllm: true"},
      {"rloo",
       {{"num_completions_to_print", "1"}},
       "num_completions_to_print: it has an effect only with log_completions: true"},
      {"grpo",
       {{"log_unique_prompts", "true"}},
       "log_unique_prompts: it has an effect only with log_completions: true"},
      {"grpo",
       {{"use_vllm", "true"}, {"top_k", "20"}},
       "top_k: tokens are drawn from a part of the distribution, and vllm_importance_sampling_correction"},
      {"grpo",
       {{"use_vllm", "true"}, {"generation_kwargs", "{min_p: 0.1}"}},
       "min_p: tokens are drawn from a part of the distribution"},
      {"rloo",
       {{"generation_exact", "true"}, {"top_p", "0.9"}},
       "top_p: tokens are drawn from a part of the distribution, and generation_exact compares"},
      {"ppo",
       {{"generation_exact", "true"}, {"generation_kwargs", "{top_p: 0.9}"}},
       "top_p: tokens are drawn from a part of the distribution, and generation_exact compares"},
      {"online_dpo",
       {{"reward_by_group", "true"}, {"replay_rollouts", "r.jsonl"}},
       "reward_by_group: it has no effect with replay_rollouts"},
      {"rloo",
       {{"generation_kwargs", "{do_sample: false}"}},
       "generation_kwargs: the 2 completions of each prompt are greedy, and therefore equal"},
      {"distillation",
       {{"train_sampling_strategy", "sequential"}},
       "train_sampling_strategy: it has no effect with method distillation, where shuffle_dataset"},
      {"ppo",
       {{"data_seed", "5"}},
       "data_seed: it has no effect with method ppo, where the order of prompts"},
      {"ppo",
       {{"eval_strategy", "steps"}, {"eval_steps", "100"}},
       "eval_strategy: steps makes no evaluation with method ppo, as in TRL: num_sample_generations"},
      {"grpo", {{"eval_pass_reward", "r"}}, "eval_pass_reward: it has an effect only with eval_pass_at_k"},
      {"grpo", {{"vllm_mode", "server"}}, "vllm_mode: it has an effect only with use_vllm: true"},
      {"rloo",
       {{"use_vllm", "true"}, {"vllm_server_base_url", "http://a"}},
       "vllm_server_base_url: it has an effect only with use_vllm: true and vllm_mode: server"},
      {"online_dpo",
       {{"use_vllm", "true"},
        {"vllm_mode", "server"},
        {"vllm_server_weights", "none"},
        {"vllm_enable_sleep_mode", "true"}},
       "vllm_enable_sleep_mode: it has an effect only with vllm_mode: colocate"},
      {"grpo",
       {{"reward_by_group", "true"}, {"tools", "[{name: f}]"}},
       "reward_by_group: it has no effect with tools and environments"},
      {"rloo",
       {{"reward_by_group", "true"}, {"replay_rollouts", "r.jsonl"}},
       "reward_by_group: it has no effect with replay_rollouts"},
      {"online_dpo",
       {{"max_new_tokens", "512"}},
       "max_new_tokens: 512 leaves no room for prompts in max_length 512"},
  };
  for (const Case& one : cases) {
    const std::vector<std::string> lines = idle_options(config_of(one.trainer, one.settings));
    ASSERT_EQ(lines.size(), 1u) << one.trainer << " " << one.line;
    EXPECT_TRUE(lines[0].starts_with(one.line)) << lines[0];
  }
  const std::vector<std::pair<const char*, Settings>> silent = {
      {"grpo", {}},
      {"grpo", {{"loss_type", "cispo"}, {"epsilon_high", "5"}}},
      {"grpo", {{"loss_type", "luspo"}, {"importance_sampling_level", "sequence"}}},
      {"grpo", {{"loss_type", "grpo"}, {"importance_sampling_level", "sequence"}, {"delta", "2"}}},
      {"rloo", {{"ref_model_name_or_path", "m"}, {"epsilon", "0.1"}}},
      {"grpo", {{"log_completions", "true"}, {"num_completions_to_print", "1"}}},
      {"grpo", {{"reward_by_group", "true"}}},
      {"gkd", {{"data_seed", "5"}, {"generation_kwargs", "{do_sample: false}"}}},
      {"online_dpo", {{"train_sampling_strategy", "sequential"}, {"dataloader_drop_last", "true"}}},
      {"ppo", {{"train_sampling_strategy", "sequential"}}},
      {"grpo", {{"top_k", "20"}, {"top_p", "0.9"}, {"min_p", "0.1"}}},
      {"grpo", {{"use_vllm", "true"}, {"temperature", "0.7"}, {"generation_exact", "true"}}},
      {"online_dpo", {{"use_vllm", "true"}, {"generation_exact", "true"}, {"top_k", "20"}}},
      {"gkd", {}},
      {"distillation", {}},
      {"online_dpo", {}},
      {"ppo", {}},
      {"sft", {}}};
  for (const auto& [trainer, settings] : silent)
    EXPECT_EQ(idle_options(config_of(trainer, settings)), std::vector<std::string>()) << trainer;
}

std::string option_text(const base::Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

// What TRL refuses at the start, and words that it refuses at the first step.
TEST(OnlineArguments, RefuseWhatTrlRefuses) {
  TRL_NEED_GOLDEN("data/prepared/config_errors.json");
  int refused = 0, taken = 0;
  const base::Json recorded = test::golden_json("data/prepared/config_errors.json");
  for (const base::Json& item : recorded["cases"]) {
    if (item["trainer"] != "grpo") continue;
    Settings settings = {{"per_device_train_batch_size", "8"}, {"reward_funcs", "[accuracy_reward]"}};
    std::vector<std::pair<std::string, std::string>> given;
    for (const auto& [key, value] : item["args"].items()) given.emplace_back(key, option_text(value));
    for (const auto& [key, value] : given) settings.emplace_back(key, value);
    const bool word = item["args"].dump().find("bogus") != std::string::npos;
    const auto read = [&] { check_rewards(online("grpo", settings), 0); };
    if (item["ok"].get<bool>() && !word) {
      EXPECT_NO_THROW(read()) << item["args"].dump();
      ++taken;
    } else {
      EXPECT_THROW(read(), Error) << item["args"].dump();
      ++refused;
    }
  }
  EXPECT_EQ(refused, 7);
  EXPECT_EQ(taken, 2);
}

}  // namespace
}  // namespace trl::config
