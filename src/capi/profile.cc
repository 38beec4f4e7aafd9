// trl_dataset_get_profile.
#include <algorithm>

#include "base/files.h"
#include "base/number.h"
#include "capi/config_handle.h"
#include "capi/dataset_handle.h"
#include "capi/guard.h"
#include "capi/length_peaks.h"
#include "capi/output_path.h"
#include "capi/profile.h"
#include "capi/tokenizer_handle.h"
#include "config/data_arguments.h"
#include "data/batch_stream.h"
#include "data/open_tokenizer.h"
#include "data/profile_lengths.h"
#include "report/length_report.h"

namespace trl::capi {
namespace {

constexpr int64_t kColumns = 80;

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
  data.streaming = false;  // which has no such order
  out.grouped = data::train_order(training, data);
  return out;
}

telemetry::LengthProfile count_lengths(const Dataset& dataset, const Tokenizer& tokenizer,
                                       const config::Config& config, const data::ProfileOptions& options) {
  const config::DataArguments arguments = config::data_arguments(config);
  const auto training_tokenizer = data::training_tokenizer(tokenizer.get(), arguments);
  const int64_t threads = process().threads();
  base::ThreadPool pool(static_cast<int>(
      arguments.dataset_num_proc > 0 ? std::min(arguments.dataset_num_proc, threads) : threads));
  data::PrepareContext context;
  context.tokenizer = training_tokenizer.get();
  context.arguments = &arguments;
  context.log = dataset.runtime()->log().get();
  context.pool = &pool;
  context.memory = &process().memory();
  context.seed = static_cast<uint64_t>(config.get_int("seed"));
  const auto source = dataset.source({.directory = {}, .memory = context.memory});
  return data::profile_lengths(*source, context, options);
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_dataset_get_profile(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                   const trl_config* options, const char** out_json, const char** out_text,
                                   trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto rows = get(dataset, "dataset");
        const auto shared = get(tokenizer, "tokenizer");
        const trl::config::Config config = rows->apply_options(options_of(options));
        const auto wanted = profile_options(config);
        const auto svg = output_path(config, "profile.svg"), html = output_path(config, "profile.html");
        const int64_t columns = config.get_optional_int("profile.width").value_or(kColumns);
        const RuntimeScope scope(*rows->runtime());
        trl::telemetry::LengthProfile profile = count_lengths(*rows, *shared, config, wanted);
        if (config.get_optional_bool("profile.peaks").value_or(false)) predict_peaks(profile, config);
        if (svg) trl::base::replace_file(*svg, trl::report::to_svg(profile));
        if (html) trl::base::replace_file(*html, trl::report::to_html(profile));
        if (out_json != nullptr) *out_json = rows->keep(to_json(profile));
        if (out_text != nullptr) *out_text = rows->keep(trl::report::to_text(profile, columns));
      },
      out_json, out_text);
}
