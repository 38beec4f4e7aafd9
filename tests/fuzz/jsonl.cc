// Any bytes as JSON Lines or a JSON array (compressed ones too, by their magic): rows, or one error of the
// format; and what can be read in any order is what is read from the start.
#include <algorithm>
#include <cstdlib>
#include <numeric>

#include "base/error.h"
#include "data/source/table.h"

namespace {

using namespace trl;

void require(bool condition) {
  if (!condition) std::abort();
}

// The rows as text, up to the first error.
struct Rows {
  std::vector<std::string> rows;
  std::string error;
};

template <class Body>
void guarded(Rows& rows, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    require(error.status() == Status::format && !error.message().empty());
    rows.error = error.message();
  }
}

Rows streamed(const std::shared_ptr<const std::string>& bytes) {
  Rows out;
  guarded(out, [&] {
    const auto source = data::open_memory_source("jsonl", bytes, "f");
    for (data::RowText text; source->next_text(text);) {
      const data::Row row = data::parse_row(text);
      require(row.value.is_object());
      out.rows.push_back(row.where.text() + row.value.dump());
    }
  });
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::make_shared<const std::string>(reinterpret_cast<const char*>(data), size);
  const Rows want = streamed(bytes);
  Rows got;
  guarded(got, [&] {
    const auto table = data::open_memory_table("jsonl", bytes, "f", {});
    std::vector<int64_t> order(static_cast<size_t>(table->size()));
    std::iota(order.rbegin(), order.rend(), 0);
    std::vector<data::RowText> texts;
    table->fetch(order, texts);
    std::reverse(texts.begin(), texts.end());
    for (const data::RowText& text : texts) {
      const data::Row row = data::parse_row(text);
      got.rows.push_back(row.where.text() + row.value.dump());
    }
  });
  // What is wrong further on may be found first where all rows are cut before one is read.
  require(want.error.empty() == got.error.empty());
  require(got.rows == want.rows || !got.error.empty());
  require(got.rows.size() <= want.rows.size());
  return 0;
}
