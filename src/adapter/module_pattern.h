// Regular expressions over names of modules, as PEFT uses Python's re.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace trl::adapter {

class ModulePattern {
 public:
  // key: the option, for messages: "target_modules". Throws Error(invalid_config) for an invalid expression.
  ModulePattern(std::string_view key, std::string_view expression);
  ~ModulePattern();
  ModulePattern(ModulePattern&&) noexcept;

  bool matches(std::string_view name) const;  // all of it, as re.fullmatch
  // Returns the number in the group "layer" if the pattern matches and that group holds one.
  std::optional<int64_t> layer(std::string_view name) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trl::adapter
