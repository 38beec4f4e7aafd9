// Byte streams: a file or a buffer, gzip and zstd undone as they are read. Which compression it is, the first
// bytes say, not the name. Memory is bounded whatever the input's length.
#pragma once
#include <cstddef>
#include <memory>
#include <string>

namespace trl::io {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Up to size bytes; 0: the end. Throws Error(io) where reading fails, Error(format) where a compressed
  // stream is damaged or ends early.
  virtual size_t read(char* out, size_t size) = 0;
  virtual void rewind() = 0;
  virtual const std::string& name() const = 0;  // for messages
};

std::unique_ptr<ByteStream> open_file_stream(const std::string& path);  // throws not_found, io (a directory)
std::unique_ptr<ByteStream> open_memory_stream(std::string bytes, std::string name);

}  // namespace trl::io
