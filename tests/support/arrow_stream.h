// Arrow columns and streams made by hand, as a host without the Arrow library would; what was released is
// counted.
#pragma once
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

extern "C" {
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};
struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
  int (*get_schema)(struct ArrowArrayStream*, struct ArrowSchema* out);
  int (*get_next)(struct ArrowArrayStream*, struct ArrowArray* out);
  const char* (*get_last_error)(struct ArrowArrayStream*);
  void (*release)(struct ArrowArrayStream*);
  void* private_data;
};
#endif
}

namespace trl::test {

struct ArrowColumn {
  std::string format, name;
  int64_t length = 0;
  std::vector<std::string> buffers;  // the first is the validity bitmap; an empty one is NULL
  std::vector<ArrowColumn> children = {};
  std::vector<ArrowColumn> dictionary = {};  // none or one
  int64_t offset = 0;
};

template <typename T>
std::string arrow_bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// A column of texts; their lengths as int32 offsets ("u") or int64 ("U").
inline ArrowColumn arrow_text(std::string name, const std::vector<std::string>& texts, bool large = false) {
  std::vector<int32_t> small_offsets{0};
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const std::string& text : texts) {
    bytes += text;
    small_offsets.push_back(static_cast<int32_t>(bytes.size()));
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return {large ? "U" : "u",
          std::move(name),
          static_cast<int64_t>(texts.size()),
          {"", large ? arrow_bytes(offsets) : arrow_bytes(small_offsets), bytes}};
}

// A column of lists of int32.
inline ArrowColumn arrow_ids(std::string name, const std::vector<std::vector<int32_t>>& lists) {
  std::vector<int32_t> offsets{0}, values;
  for (const std::vector<int32_t>& list : lists) {
    values.insert(values.end(), list.begin(), list.end());
    offsets.push_back(static_cast<int32_t>(values.size()));
  }
  ArrowColumn items{"i", "item", static_cast<int64_t>(values.size()), {"", arrow_bytes(values)}};
  return {"+l", std::move(name), static_cast<int64_t>(lists.size()), {"", arrow_bytes(offsets)}, {items}};
}

inline ArrowColumn arrow_batch(std::vector<ArrowColumn> columns) {
  const int64_t length = columns.empty() ? 0 : columns.front().length;
  return {"+s", "", length, {""}, std::move(columns)};
}

// Lives longer than what it is read by. All batches have the columns of the first.
class ArrowStream {
 public:
  explicit ArrowStream(std::vector<ArrowColumn> batches) : batches_(std::move(batches)) {
    stream_.get_schema = get_schema;
    stream_.get_next = get_next;
    stream_.get_last_error = [](ArrowArrayStream*) { return "the rows are lost"; };
    stream_.release = [](ArrowArrayStream* stream) {
      ++self(stream).streams_released;
      stream->release = nullptr;
    };
    stream_.private_data = this;
  }
  ArrowStream(const ArrowStream&) = delete;
  ArrowStream& operator=(const ArrowStream&) = delete;
  ~ArrowStream() {
    if (stream_.release != nullptr) stream_.release(&stream_);
  }
  ArrowArrayStream* stream() { return &stream_; }

  int streams_released = 0, schemas_released = 0, batches_given = 0, batches_released = 0;
  int schema_code = 0;  // what get_schema returns
  int code_after = -1;  // after so many batches get_next returns EIO

 private:
  static ArrowStream& self(const ArrowArrayStream* stream) {
    return *static_cast<ArrowStream*>(stream->private_data);
  }

  static int get_schema(ArrowArrayStream* stream, ArrowSchema* out) {
    ArrowStream& own = self(stream);
    if (own.schema_code != 0) return own.schema_code;
    *out = *own.schema_of(own.batches_.front());
    out->release = [](ArrowSchema* schema) {
      ++static_cast<ArrowStream*>(schema->private_data)->schemas_released;
      schema->release = nullptr;
    };
    out->private_data = &own;
    return 0;
  }
  static int get_next(ArrowArrayStream* stream, ArrowArray* out) {
    ArrowStream& own = self(stream);
    const auto at = static_cast<size_t>(own.batches_given);
    if (own.batches_given == own.code_after) return EIO;
    *out = {};
    if (at == own.batches_.size()) return 0;
    *out = *own.array_of(own.batches_[at]);
    ++own.batches_given;
    out->release = [](ArrowArray* array) {
      ++static_cast<ArrowStream*>(array->private_data)->batches_released;
      array->release = nullptr;
    };
    out->private_data = &own;
    return 0;
  }

  ArrowSchema* schema_of(const ArrowColumn& column) {
    auto& children = schema_lists_.emplace_back();
    for (const ArrowColumn& child : column.children) children.push_back(schema_of(child));
    ArrowSchema* dictionary = column.dictionary.empty() ? nullptr : schema_of(column.dictionary.front());
    return &schemas_.emplace_back(
        ArrowSchema{column.format.c_str(), column.name.empty() ? nullptr : column.name.c_str(), nullptr, 2,
                    static_cast<int64_t>(children.size()), children.data(), dictionary, nullptr, nullptr});
  }
  ArrowArray* array_of(const ArrowColumn& column) {
    auto& children = array_lists_.emplace_back();
    for (const ArrowColumn& child : column.children) children.push_back(array_of(child));
    ArrowArray* dictionary = column.dictionary.empty() ? nullptr : array_of(column.dictionary.front());
    auto& buffers = buffer_lists_.emplace_back();
    for (const std::string& buffer : column.buffers)
      buffers.push_back(buffer.empty() ? nullptr : buffer.data());
    return &arrays_.emplace_back(ArrowArray{column.length, -1, column.offset,
                                            static_cast<int64_t>(buffers.size()),
                                            static_cast<int64_t>(children.size()), buffers.data(),
                                            children.data(), dictionary, nullptr, nullptr});
  }

  const std::vector<ArrowColumn> batches_;
  ArrowArrayStream stream_{};
  std::deque<ArrowSchema> schemas_;
  std::deque<ArrowArray> arrays_;
  std::deque<std::vector<ArrowSchema*>> schema_lists_;
  std::deque<std::vector<ArrowArray*>> array_lists_;
  std::deque<std::vector<const void*>> buffer_lists_;
};

}  // namespace trl::test
