// Any bytes as a file of prepared rows, as one row, and as their counts: what they are, or one error of the
// format.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "base/error.h"
#include "data/prepare/counts.h"
#include "data/prepare/example.h"
#include "data/prepare/record_store.h"

namespace {

using namespace trl;

template <class Body>
void guarded(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    if (error.status() != Status::format || error.message().empty()) std::abort();
  }
}

// A row that can be read is written as it was.
void check(std::string_view bytes) {
  const data::Example example = data::decode_example(bytes);
  const data::Example again = data::decode_example(data::encode(example));
  if (again.input_ids != example.input_ids || again.labels != example.labels ||
      again.seq_lengths != example.seq_lengths || again.source_rows != example.source_rows)
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  guarded([&] { check(bytes); });
  guarded([&] { data::Counts::from_json(base::parse_json(bytes, "counts")); });
  static const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("trl-fuzz-{}", ::getpid())).string();
  base::write_file(path, bytes);
  guarded([&] {
    std::string about;
    const auto rows = data::RecordStore::open(path, &about, nullptr);
    for (int64_t row = 0; row < rows->size(); ++row) check(rows->read(row));
    data::Counts::from_json(base::parse_json(about, "counts"));
  });
  std::filesystem::remove(path);
  return 0;
}
