// Prepared preference, unpaired and prompt-only examples, and the byte records that a RecordStore keeps of
// them.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trl::data {

struct PreferenceExample {
  int64_t source_row = 0;
  std::vector<int32_t> prompt_ids;  // Reward: empty, each side is whole
  std::vector<int32_t> chosen_ids, rejected_ids;
  std::optional<float> margin;  // Reward
};

struct UnpairedExample {
  int64_t source_row = 0;
  std::vector<int32_t> prompt_ids, completion_ids;
  bool label = false;
};

struct PromptExample {
  int64_t source_row = 0;
  std::vector<int32_t> prompt_ids;
  std::vector<int32_t> completion_ids;  // of the row itself; empty: it has none
  std::string row;                      // all its columns, as JSON
};

std::string to_record(const PreferenceExample& example);
std::string to_record(const UnpairedExample& example);
std::string to_record(const PromptExample& example);
// Throw Error(format) for bytes that to_record did not make.
void from_record(std::string_view record, PreferenceExample& example);
void from_record(std::string_view record, UnpairedExample& example);
void from_record(std::string_view record, PromptExample& example);
template <class T>
T example_of(std::string_view record) {
  T example;
  from_record(record, example);
  return example;
}

}  // namespace trl::data
