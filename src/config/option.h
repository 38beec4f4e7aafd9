// One row of the option table (options.def), and the walk over it. Everything else about options is derived from here.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

namespace trl::config {

enum class OptionType : uint8_t { boolean, integer, number, text, choice, list, map };

enum Trainers : uint32_t {
  kSft = 1u << 0,
  kDpo = 1u << 1,
  kReward = 1u << 2,
  kKto = 1u << 3,
  kGrpo = 1u << 4,
  kRloo = 1u << 5,
  kGkd = 1u << 6,
  kOnlineDpo = 1u << 7,
  kPpo = 1u << 8,
  kAllTrainers = 0x1FF,
};

struct Option {
  std::string_view name;
  std::string_view section;        // "SFTConfig", "ModelConfig", "ScriptArguments", "runtime", "generate", ...
  std::string_view origin;         // "trl" or "ours"
  OptionType type;
  bool nullable;
  std::string_view default_value;  // canonical text; "null"
  std::string_view accepted;       // "> 0", "[0, 1]", "a|b|c" for choices; empty: any value of the type
  uint32_t trainers;               // Trainers bits
  std::string_view aliases;        // comma separated, older names of TRL
  std::string_view doc;
  std::string_view since;          // version of libtrl
  std::string_view unsupported;    // why values other than the default and no-ops are refused in this build; empty: works
};

std::span<const Option> options();
const Option* find_option(std::string_view name_or_alias);  // null: unknown

}  // namespace trl::config
