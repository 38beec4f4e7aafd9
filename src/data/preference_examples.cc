// See preference_examples.h. Numbers are LEB128: seven bits a byte, lowest first, the top bit of all but the
// last one set; most token ids take two bytes.
#include "data/preference_examples.h"

#include <bit>

#include "base/error.h"

namespace trl::data {

namespace {

class Writer {
 public:
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }
  void ids(const std::vector<int32_t>& ids) {
    number(ids.size());
    for (const int32_t id : ids) number(static_cast<uint32_t>(id));
  }
  void real(const std::optional<float>& value) {
    number(value ? 1 : 0);
    if (value) number(std::bit_cast<uint32_t>(*value));
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const uint8_t byte = static_cast<uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
      value |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return value;
    }
    fail(Status::internal, "a record of a prepared row is damaged");
  }
  void ids(std::vector<int32_t>& ids) {
    const uint64_t count = number();
    if (count > bytes_.size()) fail(Status::internal, "a record of a prepared row is damaged");
    ids.resize(count);
    for (int32_t& id : ids) id = static_cast<int32_t>(number());
  }
  void real(std::optional<float>& value) {
    if (number() == 0) return value.reset();
    value = std::bit_cast<float>(static_cast<uint32_t>(number()));
  }

 private:
  std::string_view bytes_;
};

}  // namespace

std::string to_record(const PreferenceExample& example) {
  Writer out;
  out.number(static_cast<uint64_t>(example.source_row));
  for (const auto* ids : {&example.prompt_ids, &example.chosen_ids, &example.rejected_ids}) out.ids(*ids);
  for (const auto* value : {&example.margin, &example.ref_chosen_logps, &example.ref_rejected_logps}) {
    out.real(*value);
  }
  return out.take();
}

std::string to_record(const UnpairedExample& example) {
  Writer out;
  out.number(static_cast<uint64_t>(example.source_row));
  out.ids(example.prompt_ids);
  out.ids(example.completion_ids);
  out.number(example.label ? 1 : 0);
  return out.take();
}

std::string to_record(const PromptExample& example) {
  Writer out;
  out.number(static_cast<uint64_t>(example.source_row));
  out.ids(example.prompt_ids);
  return out.take();
}

void from_record(std::string_view record, PreferenceExample& example) {
  Reader in(record);
  example.source_row = static_cast<int64_t>(in.number());
  for (auto* ids : {&example.prompt_ids, &example.chosen_ids, &example.rejected_ids}) in.ids(*ids);
  for (auto* value : {&example.margin, &example.ref_chosen_logps, &example.ref_rejected_logps}) {
    in.real(*value);
  }
}

void from_record(std::string_view record, UnpairedExample& example) {
  Reader in(record);
  example.source_row = static_cast<int64_t>(in.number());
  in.ids(example.prompt_ids);
  in.ids(example.completion_ids);
  example.label = in.number() != 0;
}

void from_record(std::string_view record, PromptExample& example) {
  Reader in(record);
  example.source_row = static_cast<int64_t>(in.number());
  in.ids(example.prompt_ids);
}

}  // namespace trl::data
