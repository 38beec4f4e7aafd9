#include "serve/engine/job.h"

namespace trl::serve {

std::unique_ptr<ConfigHandle> job_options(const std::vector<std::pair<std::string, std::string>>& values) {
  auto config = std::make_unique<ConfigHandle>();
  ErrorHandle error;
  check(trl_config_create(config->out(), error.out()), error);
  for (const auto& [key, value] : values)
    check(trl_config_set(config->get(), key.c_str(), value.c_str(), error.out()), error);
  return config;
}

int64_t prompt_tokens(const Job& job) {
  int64_t tokens = 0;
  for (const auto& prompt : job.prompts) tokens += static_cast<int64_t>(prompt.size());
  return tokens;
}

}  // namespace trl::serve
