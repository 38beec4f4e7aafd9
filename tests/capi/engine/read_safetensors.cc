#include <bit>
#include <cstring>
#include <stdexcept>

#include "engine/run.h"

namespace host {

std::map<std::string, Tensor> read_safetensors(const std::filesystem::path& path) {
  const std::string bytes = read_file(path);
  uint64_t length = 0;
  if (bytes.size() < 8) throw std::runtime_error("too short");
  std::memcpy(&length, bytes.data(), 8);
  const Json header = host::parse(bytes.substr(8, length));
  std::map<std::string, Tensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    Tensor tensor;
    tensor.shape = entry["shape"].get<std::vector<int64_t>>();
    const size_t begin = 8 + length + entry["data_offsets"][0].get<size_t>();
    const size_t size = entry["data_offsets"][1].get<size_t>() - entry["data_offsets"][0].get<size_t>();
    if (entry["dtype"] == "F32") {
      tensor.values.resize(size / 4);
      std::memcpy(tensor.values.data(), bytes.data() + begin, size);
    } else if (entry["dtype"] == "BF16") {
      for (size_t i = 0; i < size; i += 2) {
        uint16_t half = 0;
        std::memcpy(&half, bytes.data() + begin + i, 2);
        tensor.values.push_back(std::bit_cast<float>(static_cast<uint32_t>(half) << 16));
      }
    } else {
      throw std::runtime_error("dtype " + entry["dtype"].get<std::string>());
    }
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

}  // namespace host
