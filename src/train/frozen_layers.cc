#include "train/frozen_layers.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/hash.h"
#include "base/interrupt.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/gemm/gemm.h"
#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"
#include "train/batches.h"
#include "train/scoring/weights_digest.h"

namespace trl::train {

namespace {

constexpr const char* kKey = "cache_frozen_layers";

std::string_view bytes_of(const at::Tensor& x) {
  return {static_cast<const char*>(x.data_ptr()), static_cast<size_t>(x.nbytes())};
}

at::Tensor rows(const at::Tensor& x, const kernels::Segments& segments, size_t document) {
  const int32_t begin = segments.cu_seqlens[document];
  return x.narrow(0, begin, segments.cu_seqlens[document + 1] - begin);
}

// Returns the name of the first trained parameter; the lowest layers are first.
std::string first_trained(model::Model& model) {
  for (const tensor::Parameter* parameter : model.all_parameters())
    if (parameter->trainable) return parameter->name;
  return {};
}

void check_dropout(const model::ModelConfig& config) {
  const model::DropoutRates& rates = config.dropout;
  const model::Dropouts& keys = config.family->dropouts;
  for (const auto& [rate, key] : {std::pair{rates.embedding, keys.embedding},
                                  {rates.attention, keys.attention},
                                  {rates.attention_out, keys.attention_out},
                                  {rates.mlp_out, keys.mlp_out}}) {
    if (rate == 0) continue;
    fail_key(kKey,
             "cache_frozen_layers: config.json has {}: {}, so frozen layers make something else of a row "
             "each time: set it to 0, or leave cache_frozen_layers out",
             key.key, rate);
  }
}

void check(const Setup& setup) {
  model::Model& model = *setup.model;
  if (!model.device().is_cpu())
    fail_key(kKey,
             "cache_frozen_layers: the model is on {}, and states are kept of layers on the CPU: give "
             "use_cpu: true",
             model.device().str());
  if (model.config().experts.count > 0) {
    fail_key(kKey,
             "cache_frozen_layers: this model ({}) is a mixture of experts, where the bits of a row depend "
             "on the other rows of its batch: leave it out",
             model.config().model_type);
  }
  check_dropout(model.config());
  if (setup.train->batches_per_epoch() < 0)
    fail_key(kKey,
             "cache_frozen_layers: with dataset_streaming it is not known before the run how many bytes the "
             "rows take: give dataset_streaming: false");
  if (model.frozen_layers() == 0) {
    fail_key(kKey,
             "cache_frozen_layers: no frozen layer lies below the first trained one ({}): train the upper "
             "layers alone, as with peft_config: {{layers_to_transform: [...]}}",
             first_trained(model));
  }
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

// Returns the free bytes on the disk of path, or of its nearest existing parent directory.
uint64_t free_bytes(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string at = base::nearest_existing(path);
  const fs::space_info space = fs::space(at, error);
  if (error)
    fail(Status::io, "{}: its free space cannot be read: {}", at, base::system_reason(error.value()));
  return space.available;
}

std::string bytes_text(uint64_t bytes) {
  return fmt::format("{} bytes ({:.1f} MB)", bytes, static_cast<double>(bytes) / 1e6);
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

void FrozenLayers::count(engine::BatchSource& source, Need& need) const {
  Batches batches(source, model_.config().vocab_size);
  for (;;) {
    base::poll();
    const std::vector<MicroBatch>& window = batches.fill_window(1);
    if (window.empty()) return;
    const kernels::Segments& segments = *window[0].segments;
    for (size_t d = 0; d + 1 < segments.cu_seqlens.size() && window[0].reach <= longest_; ++d) {
      const std::string name = key(window[0], d);
      if (!need.documents.insert(std::stoull(name.substr(0, 16), nullptr, 16)).second) continue;
      const auto tokens = static_cast<uint64_t>(rows(window[0].input_ids, segments, d).numel());
      need.tokens += tokens;
      if (!files_->has(name)) need.missing += tokens;
    }
    batches.window_done();
  }
}

void FrozenLayers::check_disk(const Setup& setup) const {
  Need need;
  count(*setup.train, need);
  if (setup.eval != nullptr) count(*setup.eval, need);
  const std::string& directory = setup.arguments.cache_frozen_layers;
  const int64_t hidden = model_.config().hidden_size;
  const uint64_t size = c10::elementSize(model_.dtype()), token = static_cast<uint64_t>(hidden) * size;
  const uint64_t missing = need.missing * token, free = free_bytes(directory);
  const std::string line = fmt::format(
      "{} tokens x {} x {} bytes are {}, of which {} are still to be written, and the disk has {} left",
      need.tokens, hidden, size, bytes_text(need.tokens * token), bytes_text(missing), bytes_text(free));
  if (setup.log != nullptr) {
    setup.log->info("cache",
                    "cache_frozen_layers: {} keeps what the lowest {} of {} layers make of the rows: {}",
                    directory, layers_, model_.config().num_hidden_layers, line);
  }
  if (missing > free)
    throw Error(Status::io, fmt::format("cache_frozen_layers: {}: {}", directory, line), kKey);
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
