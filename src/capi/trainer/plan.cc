// trl_trainer_check, trl_trainer_plan: a run before there is a trainer.
#include "run/plan/plan.h"
#include "base/files/files.h"
#include "capi/config_handle.h"
#include "capi/dataset/dataset_handle.h"
#include "capi/guard.h"
#include "report/plan_report.h"
#include "run/open_model.h"
#include "run/training_run.h"

using namespace trl::capi;

trl_status trl_trainer_check(trl_runtime* runtime, const trl_config* config, trl_error** error) noexcept {
  return guard(error, [&] {
    const auto held = runtime_of(runtime);
    const RuntimeScope scope(*held);
    const trl::config::Config wanted = trl::run::with_whole_paths(get(config, "config")->copy());
    trl::run::needed_model(wanted);
    trl::run::check_run(*held, trl::config::RunOptions(wanted));
    trl::run::tell_options(held->log(), wanted);
  });
}

trl_status trl_trainer_plan(trl_runtime* runtime, const trl_config* config, const trl_dataset* train,
                            const char** out_json, const char** out_text, trl_error** error) noexcept {
  return guard(error, out_json, out_text, [&] {
    const auto held = get(runtime, "runtime");
    const trl::config::Config wanted = get(config, "config")->copy();
    const auto rows = get_or_null(train, "train");
    const auto report = trl::run::output_path(wanted, "estimate.report");
    const RuntimeScope scope(*held);
    const auto sets = trl::run::plan_run(*held, wanted, rows.get());
    if (report) trl::base::replace_file(*report, trl::report::plan_page(sets));
    if (out_json != nullptr) *out_json = held->keep(to_json(sets).dump());
    if (out_text != nullptr) *out_text = held->keep(trl::report::plan_text(sets));
  });
}
