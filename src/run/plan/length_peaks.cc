#include "run/plan/length_peaks.h"

#include <algorithm>
#include <utility>

#include "run/plan/plan.h"
#include "run/plan/set_planner.h"
#include "run/training_run.h"

namespace trl::run {

void predict_peaks(Environment& environment, telemetry::LengthProfile& profile,
                   const config::Config& given) try {
  if (profile.limits.empty() || profile.limits.front().layouts.empty())
    fail_key(
        "method",
        "the rows are preferences; trl_trainer_plan (trl estimate --method dpo) predicts the peak of a run "
        "on them");
  const config::RunOptions options(with_whole_paths(given));
  const config::Config& config = options.config;
  std::vector<int32_t> new_tokens;
  const auto tokenizer =
      open_training_tokenizer(config, needed_model_path(config), new_tokens, environment.log());
  const int64_t rows = wanted_embedding_rows(config, *tokenizer);
  const int64_t longest = profile.lengths.front().max;
  RunSize size{std::min(config.get_int("per_device_train_batch_size"), std::max<int64_t>(1, profile.rows))};
  int64_t peak = 0, process = -1;
  bool first = true;  // its products bring their code into the process
  for (telemetry::LengthLimit& limit : profile.limits) {
    const int64_t length = std::min(limit.max_length, longest);
    if (length != size.longest) {  // a limit beyond the longest row changes nothing
      size.longest = length;
      size.allowed = length == limit.max_length;
      base::Json plan = plan_of(environment, options, size, rows, new_tokens, std::exchange(first, false));
      keep_process(plan, process);
      peak = plan.at("peak_bytes").get<int64_t>();
    }
    limit.peak_bytes = peak;
  }
} catch (const Error& error) {
  if (!is_refusal(error.status())) throw;
  for (telemetry::LengthLimit& limit : profile.limits) limit.peak_bytes = 0;
  profile.no_peaks = error.message();
}

}  // namespace trl::run
