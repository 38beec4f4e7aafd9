// The disk that cache_frozen_layers needs: how many bytes the rows take, and whether there is room for them.
#include <filesystem>

#include "base/error.h"
#include "base/files/files.h"
#include "base/interrupt.h"
#include "train/batches/batches.h"
#include "train/memory/frozen_layers.h"

namespace trl::train {

namespace {

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
    throw Error(Status::io, fmt::format("cache_frozen_layers: {}: {}", directory, line),
                "cache_frozen_layers");
}

}  // namespace trl::train
