// Reads tensors that a client sends (base/tensor_message.h). Knows no model and no HTTP.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json/json.h"

namespace trl::serve {

struct SentTensor {
  std::string name = {}, dtype = {};
  std::vector<int64_t> shape = {};
  std::string_view bytes = {};
  uint64_t hash = 0;  // XXH3 of the bytes
};

struct TensorMessage {
  std::string run;  // the client's own name for what it trains; empty: none
  int64_t step = 0;
  std::optional<int64_t> base_version;  // that the client knows
  std::vector<SentTensor> tensors;
  std::vector<std::pair<std::string, uint64_t>> unchanged;  // names and hashes
};

// Returns the message; its bytes are views. Throws Refusal(400) that names the tensor and the field.
TensorMessage read_message(std::string_view bytes);

std::string hash_text(uint64_t hash);  // 16 hexadecimal digits
std::string shape_text(const std::vector<int64_t>& shape);
// Returns the elements of a shape as numbers; nullopt: it is none.
std::optional<std::vector<int64_t>> shape_of(const base::Json& json);

}  // namespace trl::serve
