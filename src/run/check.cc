#include "run/check.h"

#include <algorithm>

#include "base/files/files.h"
#include "engine/error_capture.h"
#include "run/output_path.h"
#include "run/reference_check.h"
#include "run/training_run.h"

namespace trl::run {

namespace {

void check_folders(const config::TrainingArguments& arguments) {
  need_writable("output_dir", arguments.output_dir);
  const std::vector<std::string>& reports = arguments.report_to;
  if (!arguments.logging_dir.empty() &&
      std::find(reports.begin(), reports.end(), "tensorboard") != reports.end())
    need_writable("logging_dir", arguments.logging_dir);
  if (arguments.makes_offload_dir) need_writable("offload_dir", config::offload_directory(arguments));
  if (!arguments.cache_frozen_layers.empty())
    need_writable("cache_frozen_layers", arguments.cache_frozen_layers);
  if (arguments.preference.precompute_ref_log_probs)
    need_writable("ref_logprobs_cache_dir", arguments.preference.ref_logprobs_cache_dir);
}

// Says whether the engine has to check a run; it is not opened for the others.
bool asks_engine(const config::RunOptions& options) {
  const auto& [config, arguments] = options;
  return !arguments.attention.plugin.empty() || config.get_text("memory_budget") ||
         arguments.fused_kernels == config::FusedKernels::on || arguments.resume_from_checkpoint ||
         base::is_directory(arguments.output_dir);
}

}  // namespace

void check_run(Environment& environment, const config::RunOptions& options) {
  const auto& [config, arguments] = options;
  refuse_combinations(config, arguments);
  check_folders(arguments);
  if (const std::string& path = arguments.preference.reference; !path.empty()) check_reference(path);
  if (!asks_engine(options)) return;
  engine::ErrorCapture error;
  error.check(environment.engine().check_run(options, error));
}

}  // namespace trl::run
