// Parquet files as Arrow streams, if the build has Apache Arrow's C++ library (TRL_ARROW_DIR).
#pragma once
#include <memory>
#include <string>

#include "io/arrow_abi.h"

namespace trl::io {

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
