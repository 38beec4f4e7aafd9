// Reads rows of an Arrow stream (the C stream interface of Apache Arrow) as JSON objects, one at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "io/arrow_abi.h"

namespace trl::io {

class ArrowRows {
 public:
  // Takes ownership of the stream, even if it throws: stream->release is null then. Throws Error(format) for
  // a column of an unsupported type, naming it and its format string; Error(callback) with the code of a
  // stream that fails.
  explicit ArrowRows(ArrowArrayStream* stream);
  ~ArrowRows();
  ArrowRows(const ArrowRows&) = delete;
  ArrowRows& operator=(const ArrowRows&) = delete;

  // Reads the next row as a JSON object; false: the end. NaN and the infinities become null. Throws
  // Error(format) for text that is not UTF-8.
  bool next(std::string& json);

 private:
  [[noreturn]] void fail_stream(const char* what, int code);
  void release_batch() noexcept;

  ArrowArrayStream stream_;
  ArrowSchema schema_{};
  ArrowArray batch_{};
  int64_t at_ = 0;     // in the batch
  int64_t index_ = 0;  // rows before it
};

// Parquet files as Arrow streams, if the build has Apache Arrow's C++ library (TRL_ARROW_DIR).
class ParquetFile {
 public:
  explicit ParquetFile(const std::string& path);  // throws not_found, io, format
  ~ParquetFile();
  ParquetFile(const ParquetFile&) = delete;
  ParquetFile& operator=(const ParquetFile&) = delete;
  void read(ArrowArrayStream* out);  // all rows from the first on; the file outlives the stream

 private:
  struct Reader;
  std::unique_ptr<Reader> reader_;
};

}  // namespace trl::io
