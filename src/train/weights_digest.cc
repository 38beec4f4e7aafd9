#include "train/weights_digest.h"

#include "base/files/hash.h"
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

}  // namespace trl::train
