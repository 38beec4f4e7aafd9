// Any bytes as a message of tensors to the server: what is read lies within them, each tensor once and one
// after the other, and reads the same when it is written again; or a refusal.
#include "serve/weights/tensor_message.h"

#include <set>

#include "base/tensor_message.h"
#include "in_memory_file.h"
#include "sent_tensors.h"
#include "serve/api/error.h"

namespace {

using namespace trl::serve;
using trl::fuzz::require;
namespace form = trl::base::tensor_message;

void require_within(const TensorMessage& message, std::string_view bytes) {
  std::set<std::string> names;
  const char* free = bytes.data() + form::kHeaderAt;
  for (const SentTensor& tensor : message.tensors) {
    require(!tensor.name.empty() && names.insert(tensor.name).second);
    size_t size = form::number_size(tensor.dtype);
    require(size > 0);
    for (const int64_t extent : tensor.shape) {
      require(extent >= 0);
      size *= static_cast<size_t>(extent);
    }
    require(tensor.bytes.size() == size);
    require(tensor.bytes.data() >= free && tensor.bytes.data() + size <= bytes.data() + bytes.size());
    require((tensor.bytes.data() - bytes.data()) % form::kAlign == 0);
    free = tensor.bytes.data() + size;
  }
  for (const auto& [name, hash] : message.unchanged) require(!name.empty() && names.insert(name).second);
}

std::string written(const TensorMessage& message) {
  test::SentTensors out;
  for (const SentTensor& tensor : message.tensors) {
    out.add(tensor.name, tensor.dtype, tensor.shape, std::string(tensor.bytes));
    out.header["tensors"].back()["hash"] = hash_text(tensor.hash);
  }
  out.header["unchanged"] = nlohmann::ordered_json::array();
  for (const auto& [name, hash] : message.unchanged)
    out.header["unchanged"].push_back({{"name", name}, {"hash", hash_text(hash)}});
  out.header["run"] = message.run;
  out.header["step"] = message.step;
  if (message.base_version) out.header["base_version"] = *message.base_version;
  return out.text();
}

void require_same(const TensorMessage& message, const TensorMessage& other) {
  require(message.run == other.run && message.step == other.step &&
          message.base_version == other.base_version && message.unchanged == other.unchanged &&
          message.tensors.size() == other.tensors.size());
  for (size_t i = 0; i < message.tensors.size(); ++i) {
    const SentTensor &own = message.tensors[i], &its = other.tensors[i];
    require(own.name == its.name && own.dtype == its.dtype && own.shape == its.shape &&
            own.bytes == its.bytes && own.hash == its.hash);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const TensorMessage message = read_message(bytes);
    require_within(message, bytes);
    const std::string again = written(message);
    require_same(message, read_message(again));
  } catch (const Refusal& refusal) {
    require(refusal.status == 400 && !refusal.message.empty());
  }
  return 0;
}
