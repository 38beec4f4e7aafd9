#include "train/memory/frozen_layers.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/hash.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/gemm/gemm.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"
#include "train/scoring/weights_digest.h"

namespace trl::train {

namespace {

std::string_view bytes_of(const at::Tensor& x) {
  return {static_cast<const char*>(x.data_ptr()), static_cast<size_t>(x.nbytes())};
}

int64_t longest_document(const model::ModelConfig& config) {
  const int64_t longest = config.rope.common_positions();
  return config.sliding_rope ? std::min(longest, config.sliding_rope->common_positions()) : longest;
}

model::ForwardOptions options_of(const Setup& setup) {
  model::ForwardOptions options;
  options.compute = setup.model->compute(setup.arguments.bf16 ? at::kBFloat16 : at::kFloat);
  options.as_generated = setup.arguments.generation_exact;
  return options;
}

}  // namespace

FrozenLayers::FrozenLayers(const Setup& setup)
    : model_((check(setup), *setup.model)),
      fixing_(model_.frozen_parameters(), "cache_frozen_layers keeps what it makes of the rows"),
      options_(options_of(setup)),
      layers_(model_.frozen_layers()),
      longest_(longest_document(model_.config())) {
  if (tensor::Rehearsal::current() != nullptr) return;  // weights have no numbers, and nothing is read
  const base::Json json = about(setup);
  base::Json named = json;
  named.erase("model");
  owner_ = base::sha256_hex(named.dump());
  files_ = std::make_unique<memory::StateFiles>(
      memory::StateFiles::Options{setup.arguments.cache_frozen_layers,
                                  setup.arguments.cache_frozen_layers_zstd, setup.log, setup.write_fault},
      json);
  check_disk(setup);
}

base::Json FrozenLayers::about(const Setup& setup) const {
  return {{"model", setup.source.name()},
          {"layers", layers_},
          {"weights", weights_digest(model_.frozen_parameters())},
          {"config", config_digest(model_.config_json())},
          {"dtype", c10::toString(model_.dtype())},
          {"products",
           setup.arguments.frozen_compute == config::FrozenCompute::int8
               ? "int8"
               : fmt::format("{}{}", c10::toString(options_.compute), options_.as_generated ? " rows" : "")},
          {"libtrl", fmt::format("{}, {}, oneDNN {}", TRL_VERSION_STRING, kernels::cpu().name,
                                 kernels::onednn_version())}};
}

std::string FrozenLayers::key(const MicroBatch& batch, size_t document) const {
  const at::Tensor ids = rows(batch.input_ids, *batch.segments, document);
  const at::Tensor positions = rows(batch.position_ids, *batch.segments, document);
  return base::sha256_hex(owner_ + std::string(bytes_of(ids)) + std::string(bytes_of(positions)));
}

at::Tensor FrozenLayers::compute(const MicroBatch& batch, const std::vector<size_t>& documents) const {
  auto segments = std::make_shared<kernels::Segments>(kernels::Segments{{0}, 0});
  std::vector<at::Tensor> ids, positions;
  for (const size_t d : documents) {
    ids.push_back(rows(batch.input_ids, *batch.segments, d));
    positions.push_back(rows(batch.position_ids, *batch.segments, d));
    segments->cu_seqlens.push_back(segments->cu_seqlens.back() + static_cast<int32_t>(ids.back().numel()));
    segments->max_length = std::max(segments->max_length, ids.back().numel());
  }
  return model_.frozen_states({at::cat(ids), at::cat(positions), segments}, options_);
}

at::Tensor FrozenLayers::states(const MicroBatch& batch) {
  const at::NoGradGuard no_grad;
  const kernels::Segments& segments = *batch.segments;
  if (batch.reach > longest_) {
    return model_.frozen_states(
        {batch.input_ids, batch.position_ids, batch.segments, {}, batch.first, batch.reach}, options_);
  }
  const at::Tensor all = tensor::empty({batch.input_ids.numel(), model_.config().hidden_size}, model_.dtype(),
                                       tensor::MemoryKind::activations);
  const size_t documents = segments.cu_seqlens.size() - 1;
  std::vector<std::string> keys(documents);
  std::vector<uint8_t> found(documents);
  tensor::parallel_for(std::ssize(keys), 1, [&](int64_t begin, int64_t end) {
    for (auto d = static_cast<size_t>(begin); d < static_cast<size_t>(end); ++d) {
      keys[d] = key(batch, d);
      const at::Tensor part = rows(all, segments, d);
      found[d] =
          part.numel() == 0 || files_->read(keys[d], {static_cast<char*>(part.data_ptr()), part.nbytes()});
    }
  });
  std::vector<size_t> missing;
  for (size_t d = 0; d < documents; ++d)
    if (found[d] == 0) missing.push_back(d);
  if (missing.empty()) return all;
  const at::Tensor computed = compute(batch, missing);
  check_bits(batch, missing, computed);
  if (tensor::Rehearsal::current() != nullptr) return all;
  int64_t at = 0;
  for (const size_t d : missing) {
    const at::Tensor part = rows(all, segments, d);
    part.copy_(computed.narrow(0, at, part.size(0)));
    at += part.size(0);
  }
  tensor::parallel_for(std::ssize(missing), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      files_->write(keys[missing[i]], bytes_of(rows(all, segments, missing[i])));
  });
  return all;
}

// A document has the same bits in batches of different sizes by a property of oneDNN's kernels, shown on
// x86-64: each run checks once that this machine's kernels have it.
void FrozenLayers::check_bits(const MicroBatch& batch, const std::vector<size_t>& documents,
                              const at::Tensor& states) {
  if (std::exchange(checked_, true)) return;
  const at::Tensor again = compute(batch, {documents.back(), documents.front()});
  const int64_t count = rows(batch.input_ids, *batch.segments, documents.front()).numel();
  if (tensor::Rehearsal::current() != nullptr) return;
  if (bytes_of(again.narrow(0, again.size(0) - count, count)) == bytes_of(states.narrow(0, 0, count))) return;
  fail(Status::unsupported,
       "cache_frozen_layers: on this machine the bits of a row depend on the other rows of its batch, so "
       "states that are kept would not be those of the run: leave it out");
}

}  // namespace trl::train
