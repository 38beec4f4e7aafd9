// Prepared preference, unpaired and prompt-only examples, and the byte records that a RecordStore keeps of
// them.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/record_store.h"

namespace trl::data {

struct PreferenceExample {
  int64_t source_row = 0;
  std::vector<int32_t> prompt_ids;  // Reward: empty, each side is whole
  std::vector<int32_t> chosen_ids, rejected_ids;
  std::optional<float> margin;                                // Reward
  std::optional<float> ref_chosen_logps, ref_rejected_logps;  // DPO: both or none
};

struct UnpairedExample {
  int64_t source_row = 0;
  std::vector<int32_t> prompt_ids, completion_ids;
  bool label = false;
};

struct PromptExample {
  int64_t source_row = 0;
  std::vector<int32_t> prompt_ids;
};

std::string to_record(const PreferenceExample& example);
std::string to_record(const UnpairedExample& example);
std::string to_record(const PromptExample& example);
// Throw Error(format) for bytes that to_record did not make.
void from_record(std::string_view record, PreferenceExample& example);
void from_record(std::string_view record, UnpairedExample& example);
void from_record(std::string_view record, PromptExample& example);

// In source order. Appending is exclusive; concurrent on const.
template <class T>
class ExampleList {
 public:
  explicit ExampleList(RecordStore::Options options) : store_(std::move(options)) {}
  void append(const T& example) { store_.append(to_record(example)); }
  int64_t size() const { return store_.size(); }
  T operator[](int64_t index) const {
    T example;
    from_record(store_.read(index), example);
    return example;
  }
  std::vector<T> gather(std::span<const int64_t> indices) const {
    std::vector<T> out;
    for (const int64_t index : indices) out.push_back((*this)[index]);
    return out;
  }

 private:
  RecordStore store_;
};

}  // namespace trl::data
