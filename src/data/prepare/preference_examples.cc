// See preference_examples.h. Numbers are LEB128: seven bits a byte, lowest first, the top bit set in all
// bytes but the last; most token ids take two bytes.
#include "data/prepare/preference_examples.h"

#include <bit>

#include "data/prepare/record_bytes.h"

namespace trl::data {

namespace {

void put(RecordWriter& out, const std::vector<int32_t>& ids) {
  out.number(ids.size());
  out.ids(ids);
}

void put(RecordWriter& out, const std::optional<float>& value) {
  out.number(value ? 1 : 0);
  if (value) out.number(std::bit_cast<uint32_t>(*value));
}

void take(RecordReader& in, std::vector<int32_t>& ids) { ids = in.ids(in.count(sizeof(int32_t))); }

void take(RecordReader& in, std::optional<float>& value) {
  value.reset();
  if (in.number() != 0) value = std::bit_cast<float>(static_cast<uint32_t>(in.number()));
}

}  // namespace

std::string to_record(const PreferenceExample& example) {
  RecordWriter out;
  out.number(static_cast<uint64_t>(example.source_row));
  for (const auto* ids : {&example.prompt_ids, &example.chosen_ids, &example.rejected_ids}) put(out, *ids);
  put(out, example.margin);
  return out.take();
}

std::string to_record(const UnpairedExample& example) {
  RecordWriter out;
  out.number(static_cast<uint64_t>(example.source_row));
  put(out, example.prompt_ids);
  put(out, example.completion_ids);
  out.number(example.label ? 1 : 0);
  return out.take();
}

std::string to_record(const PromptExample& example) {
  RecordWriter out;
  out.number(static_cast<uint64_t>(example.source_row));
  put(out, example.prompt_ids);
  put(out, example.completion_ids);
  out.text(example.row);
  return out.take();
}

void from_record(std::string_view record, PreferenceExample& example) {
  RecordReader in(record);
  example.source_row = static_cast<int64_t>(in.number());
  for (auto* ids : {&example.prompt_ids, &example.chosen_ids, &example.rejected_ids}) take(in, *ids);
  take(in, example.margin);
  in.finish();
}

void from_record(std::string_view record, UnpairedExample& example) {
  RecordReader in(record);
  example.source_row = static_cast<int64_t>(in.number());
  take(in, example.prompt_ids);
  take(in, example.completion_ids);
  example.label = in.number() != 0;
  in.finish();
}

void from_record(std::string_view record, PromptExample& example) {
  RecordReader in(record);
  example.source_row = static_cast<int64_t>(in.number());
  take(in, example.prompt_ids);
  take(in, example.completion_ids);
  example.row = in.text();
  in.finish();
}

}  // namespace trl::data
