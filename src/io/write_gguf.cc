#include "io/write_gguf.h"

#include <algorithm>
#include <cstring>

#include "base/interrupt.h"
#include "io/written.h"

namespace trl::io {

namespace {

constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 32;                   // the default, which needs no general.alignment
constexpr int64_t kEncodedAtOnce = int64_t{1} << 20;  // elements encoded between two polls

template <typename T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<uint64_t>(text.size()));
  bytes.append(text);
}

uint64_t aligned(uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

int64_t elements_of(const GgufEntry& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape) elements *= extent;
  return elements;
}

uint64_t bytes_of(const GgufEntry& tensor) {
  return static_cast<uint64_t>(elements_of(tensor) / tensor.type->block * tensor.type->bytes);
}

std::string header_text(const GgufPairs& metadata, const std::vector<GgufEntry>& tensors) {
  std::string header = "GGUF";
  put(header, kVersion);
  put(header, static_cast<uint64_t>(tensors.size()));
  put(header, metadata.count());
  header += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufEntry& tensor : tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) put(header, static_cast<uint64_t>(tensor.shape[i]));
    put(header, tensor.type->number);
    put(header, offset);
    offset = aligned(offset + bytes_of(tensor));
  }
  header.resize(aligned(header.size()), '\0');
  return header;
}

void write_tensor(base::FileWriter& writer, const GgufEntry& tensor, std::vector<uint8_t>& buffer,
                  Written& written) {
  const int64_t elements = elements_of(tensor);
  for (int64_t first = 0; first < elements; first += kEncodedAtOnce) {
    base::poll();
    const int64_t count = std::min(kEncodedAtOnce, elements - first);
    buffer.resize(static_cast<size_t>(count / tensor.type->block * tensor.type->bytes));
    tensor.encode(first, count, buffer.data());
    writer.write(buffer.data(), buffer.size());
    written.add(buffer.size());
  }
  const uint64_t size = bytes_of(tensor);
  writer.write(std::string(aligned(size) - size, '\0'));
}

}  // namespace

void GgufPairs::begin(std::string_view key, uint32_t type) {
  put_text(bytes_, key);
  put(bytes_, type);
  ++count_;
}

void GgufPairs::add(std::string_view key, uint32_t value) {
  begin(key, kU32);
  put(bytes_, value);
}

void GgufPairs::add(std::string_view key, float value) {
  begin(key, kF32);
  put(bytes_, value);
}

void GgufPairs::add(std::string_view key, bool value) {
  begin(key, kBool);
  put(bytes_, static_cast<uint8_t>(value));
}

void GgufPairs::add(std::string_view key, std::string_view value) {
  begin(key, kString);
  put_text(bytes_, value);
}

void GgufPairs::add(std::string_view key, const std::vector<std::string>& values) {
  begin(key, kArray);
  put(bytes_, uint32_t{kString});
  put(bytes_, static_cast<uint64_t>(values.size()));
  for (const std::string& value : values) put_text(bytes_, value);
}

void GgufPairs::add(std::string_view key, const std::vector<int32_t>& values) {
  begin(key, kArray);
  put(bytes_, uint32_t{kI32});
  put(bytes_, static_cast<uint64_t>(values.size()));
  for (const int32_t value : values) put(bytes_, value);
}

void GgufPairs::add(std::string_view key, const std::vector<float>& values) {
  begin(key, kArray);
  put(bytes_, uint32_t{kF32});
  put(bytes_, static_cast<uint64_t>(values.size()));
  for (const float value : values) put(bytes_, value);
}

void GgufPairs::add(std::string_view key, const std::vector<bool>& values) {
  begin(key, kArray);
  put(bytes_, uint32_t{kBool});
  put(bytes_, static_cast<uint64_t>(values.size()));
  for (const bool value : values) put(bytes_, static_cast<uint8_t>(value));
}

void GgufPairs::append(const GgufPairs& other) {
  bytes_ += other.bytes_;
  count_ += other.count_;
}

void write_gguf(base::FileWriter& writer, const GgufPairs& metadata, const std::vector<GgufEntry>& tensors) {
  writer.write(header_text(metadata, tensors));
  int64_t total = 0;
  for (const GgufEntry& tensor : tensors) total += static_cast<int64_t>(bytes_of(tensor));
  Written written(total);
  std::vector<uint8_t> buffer;
  for (const GgufEntry& tensor : tensors) write_tensor(writer, tensor, buffer, written);
}

}  // namespace trl::io
