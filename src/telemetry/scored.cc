#include "telemetry/scored.h"

#include <cmath>

#include "base/files/files.h"

namespace trl::telemetry {

void each_object(const std::string& path, const std::function<void(const base::Json&)>& take) {
  if (!base::file_exists(path)) return;
  const std::string text = base::read_file(path);
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const std::string_view own = std::string_view(text).substr(at, end - at);
    if (base::find_deeper(own, base::kMaxJsonDepth) != own.npos) continue;
    const base::Json line = base::Json::parse(own, nullptr, false);
    if (line.is_object()) take(line);
  }
}

std::string scored_path(const std::string& output_dir) {
  return base::join_path(output_dir, "last_completions.jsonl");
}

std::string scored_line(const ScoredCompletion& completion) {
  return base::Json{{"step", completion.step},
                    {"prompt", completion.prompt},
                    {"completion", completion.completion},
                    {"sum", completion.reward}}
             .dump() +
         "\n";
}

std::vector<ScoredCompletion> read_scored(const std::string& path) {
  std::vector<ScoredCompletion> all;
  each_object(path, [&](const base::Json& line) {
    if (!line.contains("prompt") || !line.contains("completion") || !line.contains("sum")) return;
    const base::Json &step = line.value("step", base::Json()), &sum = line["sum"];
    if (!step.is_number_integer()) return;
    all.push_back({step.get<int64_t>(), line["prompt"], line["completion"],
                   sum.is_number() ? sum.get<double>() : std::nan("")});
  });
  return all;
}

}  // namespace trl::telemetry
