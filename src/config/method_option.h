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
inline constexpr std::string_view kMethodAccepted =
    std::string_view(kEachTrainer, sizeof(kEachTrainer) - 1).substr(1);

// The place in kEachMethod of the first separator after `at`, or of its end; and of the last separator.
constexpr size_t next_separator(size_t at) {
  do ++at;
  while (at < sizeof(kEachMethod) - 1 && kEachMethod[at] != '|');
  return at;
}
constexpr size_t last_separator() {
  size_t at = 0;
  for (size_t next = next_separator(at); next < sizeof(kEachMethod) - 1; next = next_separator(at)) at = next;
  return at;
}
inline constexpr std::string_view kMethodTaken =
    std::string_view(kEachMethod, sizeof(kEachMethod) - 1).substr(next_separator(0) + 1);

// "the methods in this build are a, b and c"
inline constexpr auto kMethodRefused = [] {
  constexpr std::string_view kBegin = "the methods in this build are";
  std::array<char, kBegin.size() + 2 * sizeof(kEachMethod)> text{};
  auto end = std::copy(kBegin.begin(), kBegin.end(), text.begin());
  for (size_t i = 0; i < sizeof(kEachMethod) - 1; ++i) {
    if (kEachMethod[i] != '|') {
      *end++ = kEachMethod[i];
      continue;
    }
    const std::string_view between = i == 0 ? " " : i == last_separator() ? " and " : ", ";
    end = std::copy(between.begin(), between.end(), end);
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
