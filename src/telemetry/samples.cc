#include "telemetry/samples.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files/files.h"

namespace trl::telemetry {

namespace {

std::string dumped(const base::Json& json) {
  return json.dump(-1, ' ', false, base::Json::error_handler_t::replace);
}

}  // namespace

std::string samples_path(const std::string& output_dir) {
  return base::join_path(output_dir, "samples.jsonl");
}

std::string sample_line(const Sample& sample) {
  return dumped({{"step", sample.step},
                 {"epoch", sample.epoch},
                 {"prompt", sample.prompt},
                 {"completion", sample.completion}}) +
         "\n";
}

std::vector<Sample> read_samples(const std::string& path) {
  std::vector<Sample> samples;
  if (!base::file_exists(path)) return samples;
  const std::string text = base::read_file(path);
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = std::min(text.find('\n', at), text.size());
    const base::Json line = base::Json::parse(text.substr(at, end - at), nullptr, false);
    const auto is = [&](const char* name, auto check) {
      return line.is_object() && line.contains(name) && (line[name].*check)();
    };
    if (!is("step", &base::Json::is_number_integer) || !is("epoch", &base::Json::is_number) ||
        !is("completion", &base::Json::is_string) || !line.contains("prompt"))
      continue;
    samples.push_back({line["step"].get<int64_t>(), line["epoch"].get<double>(), line["prompt"],
                       line["completion"].get<std::string>()});
  }
  return samples;
}

std::string prompt_text(const base::Json& prompt) {
  if (prompt.is_string()) return prompt.get<std::string>();
  std::string text;
  for (const base::Json& message : prompt) {
    if (!message.is_object()) continue;
    const base::Json role = message.value("role", base::Json()),
                     content = message.value("content", base::Json());
    text += fmt::format("{}{}: {}", text.empty() ? "" : "\n", role.is_string() ? role.get<std::string>() : "",
                        content.is_string() ? content.get<std::string>() : dumped(content));
  }
  return text;
}

}  // namespace trl::telemetry
