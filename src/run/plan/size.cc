#include "run/plan/size.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files/files.h"
#include "config/dataset/data_arguments.h"
#include "engine/error_capture.h"
#include "run/open_model.h"
#include "run/rollout/rewards/reward_options.h"
#include "run/rows/prepare.h"
#include "run/rows/profile.h"

namespace trl::run {

namespace {

telemetry::Layout layout_of(const config::DataArguments& data) {
  using telemetry::Layout;
  if (data.packing == config::Packing::bfd) return Layout::bfd;
  if (data.packing == config::Packing::bfd_split) return Layout::bfd_split;
  if (data.packing == config::Packing::wrapped) return Layout::wrapped;
  return data.sampling == config::Sampling::group_by_length ? Layout::group_by_length : Layout::padded;
}

// Sets the steps and tokens of a run with this many updates in an epoch.
void set_length(RunSize& size, const config::TrainingArguments& training, int64_t updates) {
  const auto per_epoch = static_cast<double>(updates);
  const auto batch = static_cast<double>(training.online.generation_batch_size);
  const std::optional<int64_t> episodes = training.online.total_episodes;
  const double steps = training.max_steps > 0 ? static_cast<double>(training.max_steps)
                       : episodes             ? std::ceil(static_cast<double>(*episodes) / batch)
                                              : std::ceil(training.num_train_epochs * per_epoch);
  size.steps = static_cast<int64_t>(steps);
  if (updates > 0) size.tokens = size.epoch_tokens * steps / per_epoch;
}

// Sizes rows that are as long as their completions may become.
RunSize size_of_prompts(const config::TrainingArguments& training, Batches& rows, Batches* evaluation) {
  RunSize size{training.per_device_train_batch_size, rows.longest_row()};
  size.steps = std::max<int64_t>(0, training.max_steps);
  if (evaluation != nullptr) size.eval_longest = evaluation->longest_row();
  return size;
}

}  // namespace

std::optional<int64_t> row_limit(const config::Config& config) {
  return config.method().generates ? std::nullopt : config.get_optional_int("max_length");
}

RunSize largest_batch(const config::Config& config, const config::TrainingArguments& training) {
  const std::optional<int64_t> limit = row_limit(config);
  if (training.method->generates) {
    fail_key("dataset_name",
             "dataset_name: a plan of method {} needs its prompts, whose lengths decide the largest batch",
             training.method->name);
  }
  if (!limit) {
    fail_key("max_length",
             "max_length: null sets no limit to the length of a row, so the largest batch is not known "
             "without the rows: give a length, or the rows");
  }
  RunSize size{training.per_device_train_batch_size, *limit, true};
  size.steps = std::max<int64_t>(0, training.max_steps);
  return size;
}

RunSize largest_batch(const config::Config& config, const config::TrainingArguments& training, Batches& rows,
                      Batches* evaluation) {
  if (training.method->generates) return size_of_prompts(training, rows, evaluation);
  if (row_limit(config)) return largest_batch(config, training);
  const auto longest_of = [](Batches& batches) {
    const int64_t longest = batches.longest_row();
    if (longest >= 0) return std::max<int64_t>(1, longest);
    fail_key("max_length",
             "max_length: null with dataset_streaming: how long the longest row is, on which memory_budget "
             "depends, is not known before all are read: give a length, or leave out dataset_streaming");
  };
  config::Config limited = config;
  limited.set("max_length", std::to_string(longest_of(rows)));
  RunSize size = largest_batch(limited, training);
  size.allowed = false;
  if (evaluation != nullptr) size.eval_longest = longest_of(*evaluation);
  return size;
}

std::optional<RunSize> size_of_rows(const config::Config& config, const config::TrainingArguments& training,
                                    Batches& rows, Batches* evaluation) {
  if (rows.longest_row() < 0 || (evaluation != nullptr && evaluation->longest_row() < 0)) return std::nullopt;
  if (training.method->generates) return size_of_prompts(training, rows, evaluation);
  config::Config open = config;
  open.set("max_length", "null");
  return largest_batch(open, training, rows, evaluation);
}

RunSize measured_size(const config::Config& config, const config::TrainingArguments& training,
                      const Rows& rows, const Tokenizer& tokenizer) {
  const config::DataArguments data = config::data_arguments(config);
  data::ProfileOptions options = profile_options(config);
  options.max_lengths.clear();
  options.max_length = 0;
  const int64_t limit = config.get_optional_int("max_length").value_or(0);
  if (limit > 0) options.max_lengths = {limit};
  const telemetry::LengthProfile profile = count_lengths(rows, tokenizer, config, options);
  const int64_t longest = profile.lengths.front().max;
  RunSize size;
  size.longest = limit > 0 ? std::min(longest, limit) : longest;
  if (data.packing != config::Packing::none && limit > 0) {
    size.longest = limit;
    size.allowed = true;
  }
  size.rows = std::min(training.per_device_train_batch_size, std::max<int64_t>(1, profile.rows));
  if (profile.limits.empty()) return size;
  for (const telemetry::LayoutCost& cost : profile.limits.back().layouts) {
    if (cost.layout != layout_of(data)) continue;
    size.epoch_tokens = static_cast<double>(cost.tokens);
    set_length(size, training, cost.steps);
  }
  return size;
}

RunSize prepared_size(const config::Config& config, const config::TrainingArguments& training,
                      const Rows& rows, const Tokenizer& tokenizer) {
  config::TrainingArguments apart = training;
  apart.output_dir = base::temporary_directory();  // nothing is left in a run's own directory
  const Prepared prepared =
      prepare(rows.environment(), config, apart, named_model(config), tokenizer.get(), rows, nullptr);
  Batches& batches = *prepared.train;
  batches.settle();
  if (prepared.train_prompts) {
    need_generation(*prepared.train_prompts, training.online);
    if (training.online.replay_rollouts.empty())
      check_reward_columns(training.online, {}, prepared.train_prompts->prompt(0));
  }
  RunSize size;
  size.longest = std::max<int64_t>(1, batches.longest_row());
  size.rows = training.per_device_train_batch_size;
  if (!training.method->generates) size.rows = std::min(size.rows, std::max<int64_t>(1, batches.rows()));
  engine::ErrorCapture error;
  if (training.method->generates) {  // every completion is as long as it may be
    const int64_t sequences = size.rows * config::sequences_per_row(training);
    size.epoch_tokens = static_cast<double>(sequences * size.longest * batches.batches_per_epoch());
  } else {
    error.check(batches.start_pass(1, error));
    for (const data::Batch* batch = nullptr; error.check(batches.next(&batch, error));)
      size.epoch_tokens += static_cast<double>(batch->num_tokens);
  }
  const int64_t accumulated = config::micro_batches_per_step(training);
  const int64_t updates = (batches.batches_per_epoch() + accumulated - 1) / accumulated;
  set_length(size, training, std::max<int64_t>(1, updates));
  return size;
}

}  // namespace trl::run
