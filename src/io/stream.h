// Byte streams: a file or a buffer, decompressed (gzip, zstd) as it is read. The first bytes determine the
// compression, not the name. Memory is bounded for any input length.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trl::io {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Reads up to size bytes; 0: the end. Throws Error(io) if reading fails, Error(format) if a compressed
  // stream is damaged or ends early.
  virtual size_t read(char* out, size_t size) = 0;
  virtual void rewind() = 0;
  virtual const std::string& name() const = 0;  // for messages
};

// Identifies a file and its version, to notice when it was replaced or changed.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  int64_t changed = 0;  // nanoseconds since 1970
  bool operator==(const FileStamp&) const = default;
};
FileStamp file_stamp(const std::string& path);  // throws not_found, io
// Returns whether path is a pipe, terminal or other device, whose bytes can be read only once.
bool is_read_once(const std::string& path);

// A stream whose bytes can be read from any position.
class SeekableStream : public ByteStream {
 public:
  virtual void seek(int64_t offset) = 0;
  virtual FileStamp stamp() const = 0;  // the current one; for a buffer only the size
};

enum class Compression : uint8_t { none, gzip, zstd };
// Determines the compression by the first bytes; raw is rewound. Throws Error(format) if they are missing and
// the name demands them.
Compression compression_of(ByteStream& raw);

// Opens without decoding. A file that changes while it is being read is Error(io). pipe.h opens files that
// can be read only once.
std::unique_ptr<SeekableStream> open_raw_file(const std::string& path);  // throws not_found, io (a directory)
std::unique_ptr<SeekableStream> open_raw_memory(std::shared_ptr<const std::string> bytes, std::string name);
// Decodes a stream.
std::unique_ptr<ByteStream> decode(std::unique_ptr<ByteStream> raw);
std::unique_ptr<ByteStream> open_file_stream(const std::string& path);
std::unique_ptr<ByteStream> open_memory_stream(std::string bytes, std::string name);

}  // namespace trl::io
