// Tensors as clients send them, of which a test may make any part wrong.
#pragma once
#define XXH_INLINE_ALL  // tests with a model link no library for it
#include <xxhash.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/tensor_message.h"

namespace trl::serve::test {

inline std::string hash_of(const std::string& bytes) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(bytes.data(), bytes.size())));
  return text;
}

struct SentTensors {
  nlohmann::ordered_json header = {{"tensors", nlohmann::ordered_json::array()}};
  std::vector<std::string> bytes = {};

  SentTensors& add(const std::string& name, const std::string& dtype, std::vector<int64_t> shape,
                   const std::string& numbers) {
    header["tensors"].push_back({{"name", name},
                                 {"dtype", dtype},
                                 {"shape", std::move(shape)},
                                 {"bytes", numbers.size()},
                                 {"hash", hash_of(numbers)}});
    bytes.push_back(numbers);
    return *this;
  }
  std::string text() const {
    namespace form = base::tensor_message;
    const std::string json = header.dump();
    std::string out(form::kMagic, sizeof form::kMagic);
    const uint32_t version = form::kVersion;
    const uint64_t size = json.size();
    out.append(reinterpret_cast<const char*>(&version), sizeof version);
    out.append(reinterpret_cast<const char*>(&size), sizeof size);
    out += json;
    out.resize(form::aligned(out.size()));
    for (const std::string& one : bytes) {
      out += one;
      out.resize(form::aligned(out.size()));
    }
    return out;
  }
};

}  // namespace trl::serve::test
