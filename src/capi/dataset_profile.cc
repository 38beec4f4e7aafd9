// trl_dataset_get_profile.
#include "base/files/files.h"
#include "capi/config_handle.h"
#include "capi/dataset_handle.h"
#include "capi/guard.h"
#include "capi/tokenizer_handle.h"
#include "report/length_report.h"
#include "run/output_path.h"
#include "run/plan/length_peaks.h"
#include "run/rows/profile.h"

using namespace trl::capi;

namespace {
constexpr int64_t kColumns = 80;
}

trl_status trl_dataset_get_profile(const trl_dataset* dataset, const trl_tokenizer* tokenizer,
                                   const trl_config* options, const char** out_json, const char** out_text,
                                   trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto rows = get(dataset, "dataset");
        const auto shared = get(tokenizer, "tokenizer");
        const trl::config::Config config = rows->apply_options(options_of(options));
        const auto wanted = trl::run::profile_options(config);
        const auto svg = trl::run::output_path(config, "profile.svg"),
                   html = trl::run::output_path(config, "profile.html");
        const int64_t columns = config.get_optional_int("profile.width").value_or(kColumns);
        const RuntimeScope scope(*rows->runtime());
        trl::telemetry::LengthProfile profile = trl::run::count_lengths(*rows, *shared, config, wanted);
        if (config.get_optional_bool("profile.peaks").value_or(false))
          trl::run::predict_peaks(*rows->runtime(), profile, config);
        if (svg) trl::base::replace_file(*svg, trl::report::to_svg(profile));
        if (html) trl::base::replace_file(*html, trl::report::to_html(profile));
        if (out_json != nullptr) *out_json = rows->keep(to_json(profile));
        if (out_text != nullptr) *out_text = rows->keep(trl::report::to_text(profile, columns));
      },
      out_json, out_text);
}
