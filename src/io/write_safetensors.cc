#include <algorithm>

#include "base/interrupt.h"
#include "base/json/json.h"
#include "io/safetensors.h"

namespace trl::io {

namespace {

constexpr size_t kPiece = size_t{16} << 20;  // written between two polls

int64_t bytes_of(const NamedTensor& tensor) { return static_cast<int64_t>(tensor.bytes()); }

std::string header_text(const std::vector<const NamedTensor*>& tensors) {
  base::Json header = {{"__metadata__", {{"format", "pt"}}}};
  auto& entries = header.get_ref<base::Json::object_t&>();  // its names are known to differ
  int64_t at = 0;
  for (const NamedTensor* tensor : tensors) {
    const int64_t bytes = bytes_of(*tensor);
    const base::Json entry = {{"dtype", std::string(element_name(tensor->type))},
                              {"shape", tensor->shape},
                              {"data_offsets", {at, at + bytes}}};
    entries.emplace_back(tensor->name, entry);
    at += bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

void write_made(base::FileWriter& writer, const NamedTensor& tensor, std::vector<char>& buffer,
                Written& written) {
  const auto size = static_cast<int64_t>(element_size(tensor.type));
  const int64_t elements = bytes_of(tensor) / size;
  const int64_t at_once = static_cast<int64_t>(kPiece) / 8;
  for (int64_t first = 0; first < elements; first += at_once) {
    base::poll();
    const int64_t count = std::min(at_once, elements - first);
    buffer.resize(static_cast<size_t>(count * size));
    tensor.fill(first, count, buffer.data());
    writer.write(buffer.data(), buffer.size());
    written.add(buffer.size());
  }
}

}  // namespace

size_t NamedTensor::bytes() const {
  size_t bytes = element_size(type);
  for (const int64_t extent : shape) bytes *= static_cast<size_t>(extent);
  return bytes;
}

void write_safetensors(base::FileWriter& writer, const std::vector<NamedTensor>& tensors) {
  std::vector<const NamedTensor*> order;
  for (const NamedTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, [](const NamedTensor* a, const NamedTensor* b) {
    return element_size(a->type) > element_size(b->type);
  });
  const std::string header = header_text(order);
  const uint64_t header_bytes = header.size();
  writer.write(&header_bytes, sizeof header_bytes);
  writer.write(header);
  int64_t total = 0;
  for (const NamedTensor* tensor : order) total += bytes_of(*tensor);
  Written written(total);
  std::vector<char> made;
  for (const NamedTensor* tensor : order) {
    if (tensor->data == nullptr && tensor->fill) {
      write_made(writer, *tensor, made, written);
      continue;
    }
    std::string_view bytes(static_cast<const char*>(tensor->data), static_cast<size_t>(bytes_of(*tensor)));
    for (; !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kPiece))) {
      base::poll();
      writer.write(bytes.substr(0, kPiece));
      written.add(std::min(bytes.size(), kPiece));
    }
  }
}

void write_safetensors(const std::string& path, const std::vector<NamedTensor>& tensors) {
  base::FileWriter writer(path);
  write_safetensors(writer, tensors);
  writer.close();
}

}  // namespace trl::io
