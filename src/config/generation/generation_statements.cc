#include "config/generation/generation_statements.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "config/table/option.h"

namespace trl::config {

std::vector<std::string> idle_generation_options(const Config& config) {
  constexpr std::string_view kOfOtherCalls[] = {"generate.chat",
                                                "generate.keep",
                                                "generate.logprobs",
                                                "generate.prompt_logprobs",
                                                "generate.prompt_logprobs_temperature",
                                                "generate.take",
                                                "generate.usage",
                                                "generate.system"};
  constexpr std::string_view kOfPlans[] = {"generate.max_new_tokens", "generate.num_return_sequences",
                                           "generate.generation_kwargs"};
  const auto is_in = [](const auto& names, const Option& option) {
    return std::ranges::find(names, option.name) != std::end(names);
  };
  const bool samples = config.get_text("sample_prompts").has_value();
  const bool plans = config.get_optional_int("estimate.prompt_tokens").has_value();
  std::vector<std::string> lines;
  for (const Option& option : options()) {
    if (!option.name.starts_with("generate.") || !config.is_set(option.name)) continue;
    if (plans && is_in(kOfPlans, option)) continue;
    if (!samples)
      lines.push_back(
          fmt::format("{}: without sample_prompts it has an effect only on generators", option.name));
    else if (is_in(kOfOtherCalls, option))
      lines.push_back(fmt::format("{}: it has no effect on sample_prompts", option.name));
  }
  return lines;
}

}  // namespace trl::config
