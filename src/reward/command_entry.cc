#include "reward/command_entry.h"

#include <algorithm>

namespace trl::reward {

namespace {

constexpr std::string_view kCommand = "command:", kSpaces = " \t\n";

bool in_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.';
}

std::string_view program_of(std::string_view line) {
  const std::string_view path = line.substr(0, line.find_first_of(kSpaces));
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

std::optional<CommandEntry> command_entry(std::string_view spec) {
  spec.remove_prefix(std::min(spec.find_first_not_of(kSpaces), spec.size()));
  const size_t at = spec.find(kCommand);
  if (at == spec.npos) return {};
  std::string_view line = spec.substr(at + kCommand.size()), name = spec.substr(0, at);
  line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
  if (at == 0) return CommandEntry{std::string(program_of(line)), std::string(line)};
  if (!name.ends_with('=')) return {};
  name.remove_suffix(1);
  if (name.empty() || !std::ranges::all_of(name, in_name)) return {};
  return CommandEntry{std::string(name), std::string(line)};
}

}  // namespace trl::reward
