// Every row of a table turned into zero or more things, on the pool and in source order: a piece of the table
// at a time, so that memory is bounded; nothing depends on the pieces or on the number of threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/interrupt.h"
#include "base/thread_pool.h"
#include "data/table.h"

namespace trl::data {

template <class T>
struct Mapped {
  std::string where;  // of the row
  std::vector<T> made;
};

// make(Row&, std::vector<T>&) runs on any thread; keep(row, Mapped<T>&) on the caller's, in order. Where rows
// fail, the error is that of the first one.
template <class T, class Make, class Keep>
void map_rows(const Table& table, base::ThreadPool& pool, const Make& make, const Keep& keep) {
  constexpr int64_t kGrain = 8, kPieceRows = 1024, kPieceBytes = int64_t{8} << 20;
  const int64_t row_bytes = table.total_bytes() / std::max<int64_t>(table.size(), 1) + 1;
  const int64_t piece_rows = std::clamp<int64_t>(kPieceBytes / row_bytes, 1, kPieceRows);
  std::vector<int64_t> rows;
  std::vector<RowText> texts;
  std::vector<Mapped<T>> piece;
  for (int64_t first = 0; first < table.size(); first += piece_rows) {
    rows.resize(static_cast<size_t>(std::min(piece_rows, table.size() - first)));
    std::iota(rows.begin(), rows.end(), first);
    table.fetch(rows, texts);
    piece.assign(rows.size(), {});
    pool.parallel_for(static_cast<int64_t>(rows.size()), kGrain, [&](int64_t begin, int64_t end) {
      for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        base::poll();
        Row row = parse_row(texts[i]);
        make(row, piece[i].made);
        piece[i].where = std::move(row.where);
      }
    });
    for (size_t i = 0; i < piece.size(); ++i) keep(rows[i], piece[i]);
  }
}

}  // namespace trl::data
