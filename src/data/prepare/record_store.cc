// A block is a header (raw size, packed size, records, XXH3 of these and the frame) and the zstd frame of its
// records, each a length (LEB128) and its bytes. A published file is a magic, the blocks, and a last block
// without records that holds `about`.
#include "data/prepare/record_store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>
#include <zstd.h>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/text/number.h"

namespace trl::data {

namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;
constexpr int kLevel = 1;
constexpr std::string_view kMagic = "trl rows 1\n";
constexpr size_t kLargestBlock = size_t{1} << 30;

struct Header {
  uint32_t raw;
  uint32_t packed;
  uint32_t records;
  uint32_t reserved;
  uint64_t xxh3;
};
static_assert(sizeof(Header) == 24);

// Hashes everything but the hash itself.
uint64_t checksum(Header header, std::string_view packed) {
  header.xxh3 = 0;
  base::Xxh3 hash;
  hash.update({reinterpret_cast<const char*>(&header), sizeof header});
  hash.update(packed);
  return hash.digest();
}

std::string pack_block(std::string_view raw, uint32_t records) {
  if (raw.size() > kLargestBlock)
    fail(Status::invalid_argument, "a row of {} bytes is too large", raw.size());
  std::string out(sizeof(Header) + ZSTD_compressBound(raw.size()), '\0');
  const size_t packed =
      ZSTD_compress(out.data() + sizeof(Header), out.size() - sizeof(Header), raw.data(), raw.size(), kLevel);
  if (ZSTD_isError(packed) != 0u) fail(Status::out_of_memory, "zstd: {}", ZSTD_getErrorName(packed));
  out.resize(sizeof(Header) + packed);
  out.shrink_to_fit();  // it may be kept
  Header header{static_cast<uint32_t>(raw.size()), static_cast<uint32_t>(packed), records, 0, 0};
  header.xxh3 = checksum(header, std::string_view(out).substr(sizeof header));
  std::memcpy(out.data(), &header, sizeof header);
  return out;
}

[[noreturn]] void fail_damaged(const std::string& path, std::string_view what) {
  fail(Status::format, "{}: damaged: {}", path, what);
}

Header header_of(std::string_view block, const std::string& path) {
  Header header{};
  if (block.size() < sizeof header) fail_damaged(path, "it ends early");
  std::memcpy(&header, block.data(), sizeof header);
  return header;
}

std::string unpack_block(std::string_view block, const std::string& path) {
  const Header header = header_of(block, path);
  const std::string_view packed = block.substr(sizeof header);
  if (packed.size() != header.packed || header.raw > kLargestBlock || checksum(header, packed) != header.xxh3)
    fail_damaged(path, "a block was changed after it was written");
  std::string raw(header.raw, '\0');
  const size_t size = ZSTD_decompress(raw.data(), raw.size(), packed.data(), packed.size());
  if (ZSTD_isError(size) != 0u || size != raw.size())
    fail_damaged(path, "a block was changed after it was written");
  return raw;
}

void append_record(std::string& out, std::string_view record) {
  uint64_t length = record.size();
  for (; length >= 0x80; length >>= 7) out.push_back(static_cast<char>(length | 0x80));
  out.push_back(static_cast<char>(length));
  out += record;
}

// Returns the offset of each record's bytes, followed by the end of the last record.
std::vector<uint32_t> record_begins(std::string_view raw, const std::string& path) {
  std::vector<uint32_t> begins;
  for (size_t at = 0; at < raw.size();) {
    uint64_t length = 0;
    for (int shift = 0;; shift += 7) {
      if (at >= raw.size() || shift > 35) fail_damaged(path, "a record has no length");
      const auto byte = static_cast<unsigned char>(raw[at++]);
      length |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) break;
    }
    if (length > raw.size() - at) fail_damaged(path, "a record is longer than its block");
    begins.push_back(static_cast<uint32_t>(at));
    begins.push_back(static_cast<uint32_t>(at + length));
    at += length;
  }
  return begins;
}

std::string read_at(int descriptor, int64_t offset, size_t bytes, const std::string& path) {
  std::string out(bytes, '\0');
  for (size_t done = 0; done < bytes;) {
    const ssize_t got =
        ::pread(descriptor, out.data() + done, bytes - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) base::fail_errno(path, "cannot be read");
    if (got == 0) fail_damaged(path, "it ends early");
    done += static_cast<size_t>(got);
  }
  return out;
}

int open_to_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) base::fail_errno(path, "cannot be opened");
  return descriptor;
}

// Returns a temporary name next to the final one; no two stores that exist at one time share it.
std::string aside(const std::string& stem, const void* store) {
  return fmt::format("{}.{}-{:x}.tmp", stem, ::getpid(), reinterpret_cast<uintptr_t>(store));
}

constexpr std::string_view kEnding = ".trlrows";
// A temporary file this old has no writer any more.
constexpr int64_t kAbandonedSeconds = 24 * 60 * 60;

struct Entry {
  std::string path;
  int64_t used;  // seconds
  uint64_t bytes;
};

}  // namespace

RecordStore::RecordStore(Options options) : options_(std::move(options)) {}

RecordStore::~RecordStore() {
  writer_.reset();
  if (descriptor_ >= 0) ::close(descriptor_);
  if (options_.memory != nullptr) options_.memory->release(base::MemoryKind::data, charged_);
}

int64_t RecordStore::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

void RecordStore::append(std::string_view record) {
  const std::lock_guard lock(mutex_);
  append_record(tail_, record);
  ++size_;
  if (tail_.size() >= kBlockBytes) close_block();
}

// Makes the same blocks as record by record; readers see the records when all of them are there.
void RecordStore::append(std::span<const std::string> records, base::ThreadPool& pool) {
  struct Full {
    std::string bytes;
    int64_t records;
  };
  std::vector<Full> full;
  std::string tail = tail_;
  int64_t count = size_ - tail_first_;
  for (const std::string& record : records) {
    append_record(tail, record);
    ++count;
    if (tail.size() < kBlockBytes) continue;
    Full& block = full.emplace_back();
    block.bytes.swap(tail);
    block.records = std::exchange(count, 0);
  }
  pool.parallel_for(static_cast<int64_t>(full.size()), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i)
      full[i].bytes = pack_block(full[i].bytes, static_cast<uint32_t>(full[i].records));
  });
  const std::lock_guard lock(mutex_);
  for (Full& block : full) add_block(std::move(block.bytes), block.records);
  tail_ = std::move(tail);
  size_ = tail_first_ + count;
}

void RecordStore::close_block() {
  if (tail_.empty()) return;
  const int64_t records = size_ - tail_first_;
  add_block(pack_block(tail_, static_cast<uint32_t>(records)), records);
  tail_.clear();
}

// Replaces the open block, which held this many records.
void RecordStore::add_block(std::string block, int64_t records) {
  const auto bytes = static_cast<uint32_t>(block.size());
  if (writer_ == nullptr && !options_.directory.empty() &&
      static_cast<size_t>(charged_) + bytes > options_.memory_bytes)
    spill();
  if (writer_ != nullptr) {
    writer_->write(block);
    blocks_.push_back({tail_first_, file_bytes_, bytes});
    file_bytes_ += bytes;
  } else {
    if (options_.memory != nullptr) options_.memory->charge(base::MemoryKind::data, bytes);
    charged_ += bytes;
    kept_.push_back(std::move(block));
    blocks_.push_back({tail_first_, static_cast<int64_t>(kept_.size()) - 1, bytes});
  }
  tail_first_ += records;
}

// Sends further blocks to a file that disappears with the store.
void RecordStore::spill() {
  path_ = aside(base::join_path(options_.directory, ".trl-rows"), this);
  base::make_directories(options_.directory);
  writer_ = std::make_unique<base::FileWriter>(path_, options_.write_fault);
  descriptor_ = open_to_read(path_);
  ::unlink(path_.c_str());
  for (Block& block : blocks_) {
    writer_->write(kept_[static_cast<size_t>(block.offset)]);
    block.offset = file_bytes_;
    file_bytes_ += block.bytes;
  }
  kept_ = {};
  if (options_.memory != nullptr) options_.memory->release(base::MemoryKind::data, charged_);
  charged_ = 0;
}

std::string RecordStore::block_bytes(size_t block) const {
  const Block& at = blocks_[block];
  if (descriptor_ < 0) return kept_[static_cast<size_t>(at.offset)];
  return read_at(descriptor_, at.offset, at.bytes, path_);
}

std::string RecordStore::read(int64_t record) const {
  const std::lock_guard lock(mutex_);
  const bool open = record >= tail_first_;
  size_t block = SIZE_MAX - 1;
  if (!open) {
    const auto after = std::ranges::upper_bound(blocks_, record, {}, &Block::first);
    block = static_cast<size_t>(after - blocks_.begin()) - 1;
  }
  if (open || cached_block_ != block) {
    cached_block_ = SIZE_MAX;
    cached_ = open ? tail_ : unpack_block(block_bytes(block), path_);
    cached_begins_ = record_begins(cached_, path_);
    if (!open) cached_block_ = block;
  }
  const size_t index = static_cast<size_t>(record - (open ? tail_first_ : blocks_[block].first)) * 2;
  if (index + 1 >= cached_begins_.size()) fail_damaged(path_, "a block holds fewer records than it says");
  return cached_.substr(cached_begins_[index], cached_begins_[index + 1] - cached_begins_[index]);
}

int64_t RecordStore::packed_bytes() {
  const std::lock_guard lock(mutex_);
  close_block();
  int64_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.bytes;
  return bytes;
}

void RecordStore::publish(const std::string& path, std::string_view about) {
  const std::lock_guard lock(mutex_);
  close_block();
  const std::string staged = aside(path, this);
  try {
    base::FileWriter out(staged, options_.write_fault);
    out.write(kMagic);
    for (size_t block = 0; block < blocks_.size(); ++block) out.write(block_bytes(block));
    out.write(pack_block(about, 0));
    out.close();
    if (options_.write_fault != nullptr && *options_.write_fault) (*options_.write_fault)(path, 0);
    if (::rename(staged.c_str(), path.c_str()) != 0) base::fail_errno(path, "cannot be written");
  } catch (...) {
    ::unlink(staged.c_str());
    throw;
  }
}

std::unique_ptr<RecordStore> RecordStore::open(const std::string& path, std::string* about,
                                               base::MemoryCounter* memory) {
  auto store = std::make_unique<RecordStore>(Options{{}, 0, memory, nullptr});
  store->path_ = path;
  store->descriptor_ = open_to_read(path);
  const auto bytes = static_cast<int64_t>(::lseek(store->descriptor_, 0, SEEK_END));
  auto at = static_cast<int64_t>(kMagic.size());
  if (bytes < at || read_at(store->descriptor_, 0, kMagic.size(), path) != kMagic)
    fail_damaged(path, "it does not begin with the expected bytes");
  for (;;) {
    const Header header = header_of(read_at(store->descriptor_, at, sizeof(Header), path), path);
    const int64_t size = static_cast<int64_t>(sizeof header) + header.packed;
    if (size > bytes - at) fail_damaged(path, "it ends early");
    const std::string block = read_at(store->descriptor_, at, static_cast<size_t>(size), path);
    if (header.records == 0) {
      *about = unpack_block(block, path);
      if (at + size != bytes) fail_damaged(path, "it continues past its end");
      break;
    }
    if (checksum(header, std::string_view(block).substr(sizeof header)) != header.xxh3)
      fail_damaged(path, "a block was changed after it was written");
    store->blocks_.push_back({store->size_, at, static_cast<uint32_t>(size)});
    store->size_ += header.records;
    at += size;
  }
  store->tail_first_ = store->size_;
  return store;
}

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
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) { return a.used < b.used; });
  for (const Entry& entry : entries) {
    if (total <= limit_bytes_) return;
    if (entry.path == newest) continue;
    ::unlink(entry.path.c_str());
    total -= entry.bytes;
  }
}

}  // namespace trl::data
