#include "data/prepare/row_cache.h"

#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/text/quantity.h"

namespace trl::data {

namespace {

constexpr std::string_view kEnding = ".trlrows";
// A temporary file this old has no writer any more.
constexpr int64_t kAbandonedSeconds = 24 * 60 * 60;

struct Entry {
  std::string path;
  int64_t used;  // seconds
  uint64_t bytes;
};

}  // namespace

std::string RowCache::path(uint64_t key) const {
  return base::join_path(directory_, fmt::format("{:016x}{}", key, kEnding));
}

std::unique_ptr<RecordStore> RowCache::find(uint64_t key, Counts* counts, base::MemoryCounter* memory,
                                            base::LogSink& log) const {
  if (!is_on() || !base::file_exists(path(key))) return nullptr;
  try {
    std::string about;
    auto rows = RecordStore::open(path(key), &about, memory);
    *counts = Counts::from_json(base::parse_json(about, path(key)));
    ::utime(path(key).c_str(), nullptr);  // makes it the last to be removed
    return rows;
  } catch (const Error& error) {
    if (error.status() == Status::not_found) return nullptr;
    log.warning("data", "dataset_cache_dir: {}; the rows are prepared anew", error.message());
    if (error.status() == Status::format) ::unlink(path(key).c_str());
    return nullptr;
  }
}

void RowCache::add(uint64_t key, RecordStore& rows, const Counts& counts) const {
  if (static_cast<uint64_t>(rows.packed_bytes()) > limit_bytes_) {
    fail(Status::io, "{} of prepared rows are more than dataset_cache_limit, which is {}",
         base::bytes_text(static_cast<double>(rows.packed_bytes())),
         base::bytes_text(static_cast<double>(limit_bytes_)));
  }
  base::make_directories(directory_);
  rows.publish(path(key), counts.to_json().dump());
  shrink(path(key));
}

void RowCache::shrink(const std::string& newest) const {
  std::vector<Entry> entries;
  uint64_t total = 0;
  const int64_t now = ::time(nullptr);
  for (const std::string& name : base::list_directory(directory_)) {
    const std::string file = base::join_path(directory_, name);
    struct stat info {};
    if (name.find(kEnding) == std::string::npos || ::stat(file.c_str(), &info) != 0) continue;
    if (name.ends_with(".tmp")) {
      if (now - info.st_mtime > kAbandonedSeconds) ::unlink(file.c_str());
      continue;
    }
    entries.push_back({file, info.st_mtime, static_cast<uint64_t>(info.st_size)});
    total += entries.back().bytes;
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_bytes_) return;
    if (entry.path == newest) continue;
    ::unlink(entry.path.c_str());
    total -= entry.bytes;
  }
}

}  // namespace trl::data
