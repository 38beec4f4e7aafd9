#include "run/rows/profile.h"

#include <algorithm>

#include "base/error.h"
#include "base/text/number.h"
#include "config/dataset/data_arguments.h"
#include "data/batch/batch_stream.h"
#include "data/tokenizer/open_tokenizer.h"
#include "run/rows/context.h"

namespace trl::run {
namespace {

std::vector<int64_t> max_lengths(const config::Config& config) {
  constexpr std::string_view kKey = "profile.max_lengths";
  std::vector<int64_t> out;
  for (const std::string& text : config.get_list(kKey)) {
    const std::optional<int64_t> value = base::parse_int64(text);
    if (!value || *value < 1 || *value > INT32_MAX)
      fail_key(kKey, "{}: '{}' is not a length; integers from 1 to {} are accepted", kKey, text, INT32_MAX);
    out.push_back(*value);
  }
  if (out.size() > data::kMostProfileLimits)
    fail_key(kKey, "{}: {} values; at most {} are accepted", kKey, out.size(), data::kMostProfileLimits);
  return out;
}

}  // namespace

data::ProfileOptions profile_options(const config::Config& config) {
  data::ProfileOptions out;
  out.max_lengths = max_lengths(config);
  if (config.is_set("max_length")) out.max_length = config.get_optional_int("max_length").value_or(0);
  out.gradient_accumulation_steps = config.get_int("gradient_accumulation_steps");
  config::TrainingArguments training;
  training.per_device_train_batch_size = config.get_int("per_device_train_batch_size");
  training.gradient_accumulation_steps = out.gradient_accumulation_steps;
  training.seed = config.get_int("seed");
  training.data_seed = config.get_optional_int("data_seed");
  config::DataArguments data = config::data_arguments(config);
  if (data.streaming && data.shuffle_dataset) {
    fail_key("shuffle_dataset",
             "shuffle_dataset: true with dataset_streaming is refused by the length profile, which does not "
             "reproduce the order of the shuffle buffer: leave out dataset_streaming");
  }
  out.order = data::train_order(training, data);
  data.sampling = config::Sampling::group_by_length;
  data.streaming = false;  // streaming has no such order
  out.grouped = data::train_order(training, data);
  return out;
}

telemetry::LengthProfile count_lengths(const Rows& dataset, const Tokenizer& tokenizer,
                                       const config::Config& config, const data::ProfileOptions& options) {
  const config::DataArguments arguments = config::data_arguments(config);
  const auto training_tokenizer = data::training_tokenizer(tokenizer.get(), arguments);
  Environment& environment = dataset.environment();
  const int64_t threads = environment.threads();
  base::ThreadPool pool(static_cast<int>(
      arguments.dataset_num_proc > 0 ? std::min(arguments.dataset_num_proc, threads) : threads));
  data::PrepareContext context;
  context.tokenizer = training_tokenizer.get();
  context.arguments = &arguments;
  context.log = &environment.log();
  context.pool = &pool;
  context.memory = &environment.memory();
  context.seed = static_cast<uint64_t>(config.get_int("seed"));
  context.vocab_size = ids_of_rows(config, *training_tokenizer);
  const auto source = dataset.source({.directory = {}, .memory = context.memory});
  return data::profile_lengths(*source, context, options);
}

}  // namespace trl::run
