// Recorded cases of model families, tests/golden/families/NAME.json, whose weights a name and a seed give.
// Element i of a tensor is center + spread * (k / 32768 - 1), where k is the highest 16 bits of splitmix64's
// output i, whose state starts at the FNV-1a hash of "SEED:NAME". Center is 0 or 1, spread a power of two:
// nothing is rounded. The same rule in Python: ../parity/weights.py.
#pragma once
#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "io/safetensors.h"
#include "support/golden.h"
#include "support/scratch.h"

namespace trl::test {

// Numbers in [-1, 1), multiples of 2^-15.
class Seeded {
 public:
  Seeded(uint64_t seed, std::string_view name) {
    for (const char c : fmt::format("{}:{}", seed, name))
      state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  }
  double operator[](uint64_t i) const {
    uint64_t z = state_ + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return static_cast<double>(z >> 48) / 32768 - 1;
  }

 private:
  uint64_t state_ = 0xcbf29ce484222325u;
};

struct SeededTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

// "layers.#.w" with [0, 1] -> layers.0.w, layers.1.w
inline std::vector<std::string> numbered(const std::string& name, const base::Json& numbers) {
  std::vector<std::string> names{name};
  for (const auto& places : numbers) {
    std::vector<std::string> longer;
    for (const std::string& known : names) {
      for (const auto& place : places)
        longer.push_back(std::string(known).replace(known.find('#'), 1, place.dump()));
    }
    names = std::move(longer);
  }
  return names;
}

inline std::vector<SeededTensor> seeded_tensors(const base::Json& recorded) {
  std::vector<SeededTensor> tensors;
  for (const auto& [name, kind] : recorded["tensors"].items()) {
    for (const std::string& each : numbered(name, kind[0])) {
      SeededTensor& tensor = tensors.emplace_back(SeededTensor{each, kind[1], {}});
      size_t count = 1;
      for (const int64_t size : tensor.shape) count *= static_cast<size_t>(size);
      const Seeded seeded(recorded["seed"], each);
      const double center = kind[2], spread = kind[3];
      for (size_t i = 0; i < count; ++i)
        tensor.values.push_back(static_cast<float>(center + spread * seeded[i]));
    }
  }
  return tensors;
}

// Names of the recorded cases: classifiers, or language models.
inline std::vector<std::string> family_cases(bool classifiers) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(TRL_SOURCE_DIR "/tests/golden/families")) {
    const std::string name = entry.path().stem();
    if (name.ends_with("_classifier") == classifiers) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

// A case with its model's directory.
struct SeededModel {
  explicit SeededModel(const std::string& name)
      : json(golden_json("families/" + name + ".json")), tensors(seeded_tensors(json)) {
    base::write_file(directory / "config.json", json["config"].dump());
    std::vector<io::NamedTensor> named;
    for (const SeededTensor& tensor : tensors)
      named.push_back({tensor.name, io::ElementType::f32, tensor.shape, tensor.values.data()});
    io::write_safetensors(directory / "model.safetensors", named);
  }
  const base::Json& json;
  std::vector<SeededTensor> tensors;
  Scratch directory;
};

}  // namespace trl::test
