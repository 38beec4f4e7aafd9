// Rows of a JSON file or buffer that are not copied: it is read once to find where rows begin, then only for
// the rows requested. One position is kept every few bytes, and the rows after it are cut again.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/interrupt.h"
#include "data/source/formats.h"
#include "data/source/table.h"
#include "io/jsonl.h"

namespace trl::data {

namespace {

using OpenStream = std::function<std::unique_ptr<io::SeekableStream>()>;
using JsonPlace = io::JsonRows::Place;

constexpr int64_t kPlaceEvery = 16 << 10;   // the least distance of two kept places;
constexpr int64_t kMostPlaces = 256 << 10;  // and the largest number of places: 8 MB

class HashedStream final : public io::ByteStream {
 public:
  HashedStream(io::SeekableStream& stream, base::Xxh3& hash) : stream_(stream), hash_(hash) {}
  size_t read(char* out, size_t size) override {
    const size_t count = stream_.read(out, size);
    hash_.update({out, count});
    return count;
  }
  void rewind() override { stream_.rewind(); }
  const std::string& name() const override { return stream_.name(); }

 private:
  io::SeekableStream& stream_;
  base::Xxh3& hash_;
};

// Reads no more than a block until the end of that block: its neighbours are rarely wanted.
class BlockStream final : public io::ByteStream {
 public:
  explicit BlockStream(std::unique_ptr<io::SeekableStream> stream) : stream_(std::move(stream)) {}
  void seek(int64_t offset, int64_t bytes) {
    stream_->seek(offset);
    left_ = static_cast<size_t>(bytes);
  }
  size_t read(char* out, size_t size) override {
    const size_t count = stream_->read(out, left_ > 0 ? std::min(left_, size) : size);
    left_ -= std::min(left_, count);
    return count;
  }
  void rewind() override { stream_->rewind(); }
  const std::string& name() const override { return stream_->name(); }

 private:
  std::unique_ptr<io::SeekableStream> stream_;
  size_t left_ = 0;
};

class FileTable final : public Table {
 public:
  FileTable(OpenStream open, base::MemoryCounter* memory) : open_(std::move(open)), memory_(memory) {
    const auto stream = open_();
    name_ = stream->name();
    stamp_ = stream->stamp();
    find_rows(*stream);
    blocks_.shrink_to_fit();
    if (memory_ != nullptr) memory_->charge(base::MemoryKind::data, held());
  }
  ~FileTable() override {
    if (memory_ != nullptr) memory_->release(base::MemoryKind::data, held());
  }

  int64_t size() const override { return size_; }
  int64_t total_bytes() const override { return stamp_.size; }
  uint64_t digest() const override { return digest_; }
  const std::string& name() const override { return name_; }

  void read_texts(std::span<const int64_t> rows, std::vector<RowText>& out) const override {
    std::vector<size_t> order(rows.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, [&](size_t a, size_t b) { return rows[a] < rows[b]; });
    out.resize(rows.size());
    auto opened = std::make_unique<BlockStream>(reopen());
    BlockStream& stream = *opened;
    io::JsonRows cut(std::move(opened));
    int64_t at = -1;  // the row that is cut next
    for (const size_t i : order) {
      const Block& block = block_of(rows[i]);
      if (at < block.row || at > rows[i]) {
        stream.seek(block.place.offset, bytes_of(block));
        cut.resume(block.place, in_array_);
        at = block.row;
      }
      io::JsonRows::Text text;
      for (; at < rows[i]; ++at) require(cut.skip(text.place));
      require(cut.next(text));
      out[i] = {std::move(text.bytes), name_, text.place.line, text.place.column(), ++at, in_array_};
    }
  }

 private:
  struct Block {
    JsonPlace place;  // of its first row
    int64_t row;
  };

  void find_rows(io::SeekableStream& stream) {
    const int64_t apart = std::max(kPlaceEvery, stamp_.size / kMostPlaces);
    blocks_.reserve(static_cast<size_t>(stamp_.size / apart + 1));
    base::Xxh3 hash;
    io::JsonRows cut(std::make_unique<HashedStream>(stream, hash));
    for (JsonPlace place; cut.skip(place); base::progress("rows", ++size_, -1))
      if (blocks_.empty() || place.offset - blocks_.back().place.offset >= apart)
        blocks_.push_back({place, size_});
    in_array_ = cut.is_array();
    digest_ = hash.digest();
  }

  std::unique_ptr<io::SeekableStream> reopen() const {
    try {
      auto stream = open_();
      require(stream->stamp() == stamp_);
      return stream;
    } catch (const Error& error) {
      if (error.status() != Status::not_found) throw;
      fail(Status::io, "{}: the file is gone: its rows are read from it during the run", Place::in(name_));
    }
  }
  void require(bool unchanged) const {
    if (unchanged) return;
    fail(Status::io, "{}: the file has changed since it was opened: its rows are read from it during the run",
         Place::in(name_));
  }

  const Block& block_of(int64_t row) const {
    return *(std::ranges::upper_bound(blocks_, row, {}, &Block::row) - 1);
  }
  int64_t bytes_of(const Block& block) const {
    const bool last = &block == &blocks_.back();
    return (last ? stamp_.size : (&block)[1].place.offset) - block.place.offset;
  }
  int64_t held() const { return static_cast<int64_t>(blocks_.capacity() * sizeof(Block)); }

  const OpenStream open_;
  base::MemoryCounter* const memory_;
  std::string name_;
  io::FileStamp stamp_;
  std::vector<Block> blocks_;
  int64_t size_ = 0;
  uint64_t digest_ = 0;
  bool in_array_ = false;
};

}  // namespace

std::shared_ptr<const Table> open_table(const RowFile& file, const Spool& spool) {
  if (file.format != FileFormat::json ||
      io::compression_of(*io::open_raw_file(file.path)) != io::Compression::none)
    return spool_rows(*open_source(file), spool);
  return std::make_shared<FileTable>([path = file.path] { return io::open_raw_file(path); }, spool.memory);
}

std::shared_ptr<const Table> open_tables(const std::vector<RowFile>& files, const Spool& spool) {
  std::vector<Part> parts;
  int64_t rows = 0;
  for (const RowFile& file : files) {
    try {
      auto table = open_table(file, spool);
      rows += table->size();
      parts.push_back({table, table->size(), {}});
    } catch (const Error& error) {
      if (error.place().row < 0) throw;
      Place place = error.place();
      place.row += rows;
      throw error.at(std::move(place));
    }
  }
  return concatenate(std::move(parts));
}

std::shared_ptr<const Table> open_file_table(const std::string& path, const Spool& spool) {
  return open_tables(find_files(path), spool);
}

std::shared_ptr<const Table> open_memory_table(std::string_view format,
                                               const std::shared_ptr<const std::string>& bytes,
                                               const std::string& name, const Spool& spool) {
  const auto open = [bytes, name] { return io::open_raw_memory(bytes, name); };
  if (memory_format(format) != FileFormat::json || io::compression_of(*open()) != io::Compression::none)
    return spool_rows(*open_memory_source(format, bytes, name), spool);
  return std::make_shared<FileTable>(open, spool.memory);
}

}  // namespace trl::data
