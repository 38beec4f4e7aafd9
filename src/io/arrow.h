// Reads rows of an Arrow stream (the C stream interface of Apache Arrow) as JSON objects, one at a time.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/json/json.h"
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

// Parquet files as Arrow streams, and this and write_parquet() only if the build has Apache Arrow's C++
// library (TRL_ARROW_DIR).
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

// Writes objects as the rows of a Parquet file that appears whole. Columns come in the order in which their
// names first do. A column has the type of its values: bool, int64, double, text, a list or a struct of such;
// values of several types are written as the text of their JSON. Throws Error(io).
void write_parquet(const std::string& path, std::span<const base::Json> rows);

}  // namespace trl::io
