#include "config/sample_arguments.h"

#include "base/error.h"

namespace trl::config {

SampleArguments sample_arguments(const Config& config) {
  constexpr std::string_view kKey = "sample_prompts";
  SampleArguments out;
  const std::optional<std::string> given = config.get_text(kKey);
  out.asked = given.has_value();
  if (!out.asked) return out;
  if (config.method().scores())
    fail_key(kKey, "{}: a reward model scores text and cannot complete it: leave {} out", kKey, kKey);
  out.prompts = base::parse_json(*given, kKey);
  if (out.prompts.is_string()) {
    out.file = out.prompts.get<std::string>();
    out.prompts = base::Json::array();
  } else if (out.prompts.empty()) {
    fail_key(kKey, "{}: the list is empty: give at least one prompt, or null", kKey);
  }
  out.steps = config.get_optional_int("sample_steps");
  out.evaluates = config.get("eval_strategy") != "no";
  out.max_new_tokens = config.get_int("sample_max_new_tokens");
  return out;
}

}  // namespace trl::config
