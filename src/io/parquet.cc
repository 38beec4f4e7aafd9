// Arrow decodes; the result is the C stream that a host might have given.
#ifdef TRL_ARROW
#include "io/arrow.h"

#include <arrow/c/bridge.h>
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <parquet/arrow/reader.h>

#include "base/error.h"
#include "io/stream.h"

namespace trl::io {

struct ParquetFile::Reader {
  std::string path;
  std::unique_ptr<parquet::arrow::FileReader> file;
};

namespace {
constexpr int64_t kBatchRows = 1024;

void check(const std::string& path, const arrow::Status& status) {
  if (!status.ok()) fail(Status::format, "{}: not read as Parquet: {}", Place{path}, status.message());
}
}  // namespace

ParquetFile::ParquetFile(const std::string& path) : reader_(std::make_unique<Reader>()) {
  reader_->path = path;
  open_raw_file(path);  // throws the reason if it cannot be opened
  auto opened = arrow::io::ReadableFile::Open(path, arrow::system_memory_pool());
  check(path, opened.status());
  parquet::arrow::FileReaderBuilder builder;
  check(path, builder.Open(*opened));
  auto built = builder.memory_pool(arrow::system_memory_pool())->Build();
  check(path, built.status());
  reader_->file = std::move(*built);
  reader_->file->set_batch_size(kBatchRows);
}

ParquetFile::~ParquetFile() = default;

void ParquetFile::read(ArrowArrayStream* out) {
  auto batches = reader_->file->GetRecordBatchReader();
  check(reader_->path, batches.status());
  check(reader_->path, arrow::ExportRecordBatchReader(std::move(*batches), out));
}

}  // namespace trl::io
#endif
