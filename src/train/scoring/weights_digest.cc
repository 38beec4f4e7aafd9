#include "train/scoring/weights_digest.h"

#include <fmt/format.h>
#include <algorithm>
#include <optional>

#include "base/files/hash.h"
#include "base/interrupt.h"
#include "tensor/threads/parallel.h"

namespace trl::train {

namespace {

uint64_t digest_of(tensor::Parameter& parameter) {
  const tensor::Encoded* const encoded = parameter.encoded();
  if (encoded == nullptr) {
    const tensor::Reading value = parameter.read();
    const at::Tensor host = value->device().is_cpu() ? *value : value->cpu();
    return base::xxh3_64({static_cast<const char*>(host.data_ptr()), static_cast<size_t>(host.nbytes())});
  }
  base::Xxh3 hash;
  std::vector<float> row(static_cast<size_t>(encoded->width()));
  for (int64_t r = 0; r < parameter.count() / encoded->width(); ++r) {
    encoded->decode({r, 1, 0, encoded->width()}, at::kFloat, row.data(), encoded->width());
    hash.update({reinterpret_cast<const char*>(row.data()), row.size() * sizeof(float)});
  }
  return hash.digest();
}

constexpr int64_t kPiece = 1 << 20;  // elements that are checked at a time

struct Fault {
  int64_t place;  // among all elements
  float value;
};

// flat: numbers of any type; first: the place of the first.
std::optional<Fault> fault_in(const at::Tensor& flat, int64_t first) {
  const at::Tensor bad = at::isfinite(flat).logical_not();
  if (!bad.any().item<bool>()) return std::nullopt;
  const auto at = bad.to(at::kByte).argmax().item<int64_t>();
  return Fault{first + at, flat[at].to(at::kFloat).item<float>()};
}

std::optional<Fault> fault_of(const at::Tensor& numbers) {
  const at::Tensor flat = numbers.reshape({-1});
  for (int64_t first = 0; first < flat.numel(); first += kPiece) {
    base::poll();
    const at::Tensor piece = flat.narrow(0, first, std::min(kPiece, flat.numel() - first));
    if (const auto fault = fault_in(piece, first)) return fault;
  }
  return std::nullopt;
}

std::optional<Fault> fault_of(const tensor::Encoded& blocks) {
  const int64_t width = blocks.width(), rows = c10::multiply_integers(blocks.shape()) / width;
  const int64_t most = std::clamp<int64_t>(kPiece / width, 1, rows);
  const at::Tensor numbers = at::empty({most, width}, at::kFloat);
  for (int64_t row = 0; row < rows; row += most) {
    base::poll();
    const int64_t count = std::min(most, rows - row);
    blocks.decode({row, count, 0, width}, at::kFloat, numbers.data_ptr(), width);
    if (const auto fault = fault_in(numbers.narrow(0, 0, count).reshape({-1}), row * width)) return fault;
  }
  return std::nullopt;
}

std::string index_of(int64_t place, at::IntArrayRef shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0; place /= shape[i]) index[i] = place % shape[i];
  return fmt::format("{}", fmt::join(index, ", "));
}

}  // namespace

std::string weights_digest(const std::vector<tensor::Parameter*>& parameters) {
  std::vector<uint64_t> sums(parameters.size());
  tensor::parallel_for(std::ssize(parameters), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end) && !base::stopped(); ++i)
      sums[i] = digest_of(*parameters[i]);
  });
  std::string all;
  for (size_t i = 0; i < sums.size(); ++i) all += fmt::format("{} {:016x}\n", parameters[i]->name, sums[i]);
  return base::sha256_hex(all);
}

std::string config_digest(base::Json config) {
  for (const char* name :
       {"_name_or_path", "transformers_version", "bos_token_id", "eos_token_id", "pad_token_id", "vocab_size",
        "use_cache", "architectures", "torch_dtype", "dtype"})
    config.erase(name);
  return base::sha256_hex(config.dump());
}

std::string faulty_weight(model::Model& model) {
  for (tensor::Parameter* const weight : model.all_parameters()) {
    const tensor::Encoded* const blocks = weight->encoded();
    const std::optional<Fault> fault = blocks != nullptr ? fault_of(*blocks) : fault_of(*weight->read());
    if (fault)
      return fmt::format("{}[{}] is {}", weight->name, index_of(fault->place, weight->shape()), fault->value);
  }
  return {};
}

}  // namespace trl::train
