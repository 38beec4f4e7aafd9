// How many completions a generation has, and how they become micro-batches.
#include <numeric>

#include "base/arithmetic/divide.h"
#include "base/error.h"
#include "config/generation/trainer_generation.h"
#include "config/online/parts.h"

namespace trl::config {

namespace {

constexpr const char *kRows = "per_device_train_batch_size", *kEvalRows = "per_device_eval_batch_size",
                     *kGroup = "num_generations";

// Returns "4 or 6": the nearest numbers around `wanted`, from `least` on, that divide whole; empty: none
// does.
std::string divisors_near(int64_t whole, int64_t wanted, int64_t least) {
  std::vector<std::string> near;
  for (int64_t below = std::min(wanted, whole); below >= least && near.empty(); --below)
    if (whole % below == 0) near.push_back(std::to_string(below));
  for (int64_t above = std::max(wanted, least); above <= whole && above <= 2 * wanted; ++above) {
    if (whole % above != 0) continue;
    near.push_back(std::to_string(above));
    break;
  }
  return fmt::format("{}", fmt::join(near, " or "));
}

// Returns "8 or 16": the multiples of `unit` around `wanted`.
std::string multiples_near(int64_t unit, int64_t wanted) {
  const int64_t below = wanted / unit * unit;
  return below == 0 ? std::to_string(unit) : fmt::format("{} or {}", below, below + unit);
}

// Returns " num_generations 4 or 6, or", if there are any.
std::string offer(const char* key, const std::string& values) {
  return values.empty() ? "" : fmt::format(" {} {}, or", key, values);
}

// Reads sizes that count completions of several micro-batches.
void read_groups(const Config& config, int64_t rows, OnlineArguments& out) {
  constexpr const char *kBatch = "generation_batch_size", *kSteps = "steps_per_generation";
  const std::optional<int64_t> batch = config.get_optional_int(kBatch),
                               steps = config.get_optional_int(kSteps);
  if (batch && steps) {
    fail_key(kBatch,
             "{}: {} and {}: {} are both given, and one follows from the other: leave one of them out",
             kBatch, *batch, kSteps, *steps);
  }
  const int64_t group = out.num_generations, unit = std::lcm(rows, group);
  if (batch && *batch % rows != 0) {
    fail_key(kBatch, "{}: {} is not a multiple of {}, which is {}: give {}", kBatch, *batch, kRows, rows,
             multiples_near(unit, *batch));
  }
  if (batch && *batch % group != 0) {
    fail_key(kBatch, "{}: {} is not a multiple of {}, which is {}: give{} {} {}", kBatch, *batch, kGroup,
             group, offer(kGroup, divisors_near(*batch, group, 2)), kBatch, multiples_near(unit, *batch));
  }
  out.steps_per_generation =
      batch ? *batch / rows : steps.value_or(config.get_int("gradient_accumulation_steps"));
  out.generation_batch_size = rows * out.steps_per_generation;
  if (out.generation_batch_size % group != 0) {
    fail_key(
        kGroup,
        "{}: {} does not divide the {} completions of a generation ({} {} * {} {}): give{} {} completions",
        kGroup, group, out.generation_batch_size, kRows, rows, kSteps, out.steps_per_generation,
        offer(kGroup, divisors_near(out.generation_batch_size, group, 2)),
        multiples_near(unit, out.generation_batch_size));
  }
}

void read_mini_batches(const Config& config, int64_t rows, OnlineArguments& out) {
  constexpr const char *kParts = "num_mini_batches", *kWhiten = "whiten_rewards";
  constexpr int64_t kFewest = 8;
  out.num_mini_batches = config.get_int(kParts);
  if (out.generation_batch_size % out.num_mini_batches != 0) {
    fail_key(kParts,
             "{}: {} does not divide the {} rows of a batch ({} * gradient_accumulation_steps): give {}",
             kParts, out.num_mini_batches, out.generation_batch_size, kRows,
             divisors_near(out.generation_batch_size, out.num_mini_batches, 1));
  }
  out.mini_batch_size = out.generation_batch_size / out.num_mini_batches;
  out.steps_per_generation = out.num_mini_batches * base::divide_up(out.mini_batch_size, rows);
  out.whiten_rewards = config.get_bool(kWhiten);
  if (out.whiten_rewards && out.mini_batch_size < kFewest) {
    fail_key(kWhiten,
             "{}: true needs {} rows or more in each part of a batch, and {}: {} makes them {}: give fewer "
             "parts, a larger batch, or {}: false",
             kWhiten, kFewest, kParts, out.num_mini_batches, out.mini_batch_size, kWhiten);
  }
}

}  // namespace

void read_online_sizes(const Config& config, OnlineArguments& out) {
  const MethodRow& method = config.method();
  const int64_t rows = config.get_int(kRows), window = config.get_int("gradient_accumulation_steps");
  out.num_generations = completions_of_prompt(config, Completions::of_training);
  if (config.has("num_generations")) {
    out.num_generations_eval = completions_of_prompt(config, Completions::of_evaluation);
    read_groups(config, rows, out);
  } else {
    out.steps_per_generation = method.generates_window ? window : 1;
    out.generation_batch_size = rows * method.sequences * out.steps_per_generation;
  }
  out.prompts_per_generation = out.generation_batch_size / out.num_generations;
  if (config.has("num_iterations")) out.num_iterations = config.get_int("num_iterations");
  if (config.has("num_ppo_epochs")) out.num_iterations = config.get_int("num_ppo_epochs");
  if (config.has("num_mini_batches")) read_mini_batches(config, rows, out);
  out.repeat_count = out.num_iterations * out.steps_per_generation;
}

void check_evaluation_size(const OnlineArguments& arguments, int64_t per_device_eval_batch_size) {
  const int64_t group = arguments.num_generations_eval;
  if (per_device_eval_batch_size % group == 0) return;
  fail_key(kEvalRows,
           "{}: {} is not a multiple of the {} completions of a prompt in evaluation: give {}, or "
           "num_generations_eval {}",
           kEvalRows, per_device_eval_batch_size, group, multiples_near(group, per_device_eval_batch_size),
           divisors_near(per_device_eval_batch_size, group, 1));
}

}  // namespace trl::config
