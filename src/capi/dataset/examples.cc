// trl_dataset_get_example, trl_dataset_visit_batches and trl_dataset_get_profile.
#include "base/files/files.h"
#include "capi/callback.h"
#include "capi/config_handle.h"
#include "capi/dataset/dataset_handle.h"
#include "capi/guard.h"
#include "capi/model/model_handle.h"
#include "report/length_report.h"
#include "run/plan/plan.h"
#include "run/rows/prepare.h"
#include "run/rows/profile.h"
#include "run/training_run.h"

namespace trl::capi {
namespace {

void visit(run::Epoch& epoch, int64_t first, int64_t count, trl_batch_fn on_batch, void* user_data) {
  epoch.find(first);
  for (int64_t left = count; left > 0; --left) {
    const std::string json = epoch.describe().dump();
    const int32_t code =
        call_host("on_batch", [&] { return on_batch(user_data, json.c_str(), json.size()); });
    if (code < 0) fail_callback("on_batch", code);
    if (code > 0 || !epoch.next()) return;
  }
}

}  // namespace
}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_dataset_get_example(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                   const trl_config* options, int64_t row, const char** out_json,
                                   trl_error** error) noexcept {
  return guard(error, out_json, [&] {
    const auto rows = get(dataset, "dataset");
    const auto shared = get(tokenizer, "tokenizer");
    need(out_json, "out_json");
    if (row < 0) trl::fail(trl::Status::invalid_argument, "row: {} is below 0", row);
    const trl::config::Config config = rows->apply_options(options_of(options));
    const RuntimeScope scope(*rows->runtime());
    *out_json = rows->keep(trl::run::read_example(*rows, *shared, config, row).dump());
  });
}

trl_status trl_dataset_visit_batches(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                     const trl_config* options, int64_t first, int64_t count,
                                     trl_batch_fn on_batch, void* user_data, trl_error** error) noexcept {
  return guard(error, [&] {
    const auto rows = get(dataset, "dataset");
    const auto shared = get(tokenizer, "tokenizer");
    if (on_batch == nullptr) fail_null("on_batch");
    if (first < 0) trl::fail(trl::Status::invalid_argument, "first: {} is below 0", first);
    if (count < 0) trl::fail(trl::Status::invalid_argument, "count: {} is below 0", count);
    const trl::config::Config config = options_of(options);
    const RuntimeScope scope(*rows->runtime());
    trl::run::Epoch epoch(*rows, *shared, config);
    visit(epoch, first, count, on_batch, user_data);
  });
}

trl_status trl_dataset_get_profile(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                   const trl_config* options, const char** out_json, const char** out_text,
                                   trl_error** error) noexcept {
  return guard(error, out_json, out_text, [&] {
    const auto rows = get(dataset, "dataset");
    const auto shared = get(tokenizer, "tokenizer");
    const trl::config::Config config = rows->apply_options(options_of(options));
    const auto wanted = trl::run::profile_options(config);
    const auto svg = trl::run::output_path(config, "profile.svg"),
               html = trl::run::output_path(config, "profile.html");
    const int64_t columns = config.get_optional_int("profile.width").value_or(80);
    const RuntimeScope scope(*rows->runtime());
    trl::telemetry::LengthProfile profile = trl::run::count_lengths(*rows, *shared, config, wanted);
    if (config.get_optional_bool("profile.peaks").value_or(false))
      trl::run::predict_peaks(*rows->runtime(), profile, config);
    if (svg) trl::base::replace_file(*svg, trl::report::to_svg(profile));
    if (html) trl::base::replace_file(*html, trl::report::to_html(profile));
    if (out_json != nullptr) *out_json = rows->keep(to_json(profile));
    if (out_text != nullptr) *out_text = rows->keep(trl::report::to_text(profile, columns));
  });
}
