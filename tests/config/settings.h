// Configurations of a few settings, and what refuses them.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "support/error_of.h"

namespace trl::config {

using Settings = std::vector<std::pair<std::string_view, std::string_view>>;

inline Config config_with(const Settings& settings) {
  Config config;
  for (const auto& [key, value] : settings) config.set(key, value);
  return config;
}

// Those of a trainer, which may be one that this version does not have yet.
inline Config config_of(std::string_view trainer, const Settings& settings = {}) {
  Config config(*std::ranges::find(trainers(), trainer, &MethodRow::name));
  for (const auto& [key, value] : settings) config.set(key, value);
  return config;
}

// The message of what body throws.
inline std::string refusal_of(const std::function<void()>& body) {
  const auto [status, message] = test::error_of(body);
  EXPECT_EQ(status, Status::invalid_config) << message;
  return message;
}

}  // namespace trl::config
