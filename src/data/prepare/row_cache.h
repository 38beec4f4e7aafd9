// Prepared rows on disk, for later runs over the same rows: one file for each content (rows, tokenizer,
// options), in dataset_cache_dir. Safe with several processes: a file appears whole or not at all, and the
// oldest files are removed when all of them exceed dataset_cache_limit.
#pragma once
#include <memory>
#include <string>

#include "base/log.h"
#include "data/prepare/counts.h"
#include "data/prepare/record_store.h"

namespace trl::data {

class RowCache {
 public:
  RowCache() = default;  // no cache
  RowCache(std::string directory, uint64_t limit_bytes)
      : directory_(std::move(directory)), limit_bytes_(limit_bytes) {}

  bool is_on() const { return !directory_.empty() && limit_bytes_ > 0; }
  // Returns null if the file is missing, or is not valid (a warning; it is removed).
  std::unique_ptr<RecordStore> find(uint64_t key, Counts* counts, base::MemoryCounter* memory,
                                    base::LogSink& log) const;
  // Throws Error(io) if the file cannot be written.
  void add(uint64_t key, RecordStore& rows, const Counts& counts) const;

 private:
  std::string path(uint64_t key) const;
  void shrink(const std::string& newest) const;
  std::string directory_;
  uint64_t limit_bytes_ = 0;
};

}  // namespace trl::data
