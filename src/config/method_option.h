// The texts of the option `method` and the sets of trainers in options.def, from the table of methods.
#pragma once
#include <algorithm>
#include <array>
#include <string_view>

#include "config/method.h"
#include "config/option.h"

namespace trl::config {

inline constexpr char kMethodDefault[] =
#define TRL_METHOD(bit, name, ...) #name "\0"
#include "config/methods.def"
    ;

// "|sft|dpo|..." of all trainers, and of those that this version has
inline constexpr char kEachTrainer[] =
#define TRL_METHOD(bit, name, ...) "|" #name
#define TRL_LATER TRL_METHOD
#include "config/methods.def"
    ;
inline constexpr char kEachMethod[] =
#define TRL_METHOD(bit, name, ...) "|" #name
#include "config/methods.def"
    ;
inline constexpr std::string_view kMethodAccepted = std::string_view(kEachTrainer).substr(1);
inline constexpr std::string_view kMethodTaken =
    std::string_view(kEachMethod).substr(std::string_view(kEachMethod).find('|', 1) + 1);

// "the methods in this build are a, b and c"
inline constexpr auto kMethodRefused = [] {
  constexpr std::string_view kBegin = "the methods in this build are", kNames = kEachMethod;
  std::array<char, kBegin.size() + 2 * sizeof(kEachMethod)> text{};
  auto end = std::copy(kBegin.begin(), kBegin.end(), text.begin());
  for (size_t i = 0; i < kNames.size(); ++i) {
    std::string_view next = kNames.substr(i, 1);
    if (next == "|") next = i == 0 ? " " : i == kNames.rfind('|') ? " and " : ", ";
    end = std::copy(next.begin(), next.end(), end);
  }
  return text;
}();

// Trainers whose steps write completions.
inline constexpr uint32_t kGenerating = 0
#define TRL_METHOD(bit, word, ...) | (MethodRow{.name = #word, __VA_ARGS__}.generates ? uint32_t{bit} : 0u)
#define TRL_LATER TRL_METHOD
#include "config/methods.def"
    ;

}  // namespace trl::config
