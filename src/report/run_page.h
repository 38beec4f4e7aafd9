// report_to html: report.html in output_dir.
#pragma once
#include <memory>

#include "telemetry/recorder.h"

namespace trl::report {

std::unique_ptr<telemetry::Recorder> make_html(const telemetry::RecordTo& to);

}  // namespace trl::report
