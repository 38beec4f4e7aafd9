// Every row of a table turned into zero or more things: in blocks of as many rows as TRL's batched map takes,
// each block on the pool, kept in source order. So memory is bounded, and nothing depends on the number of
// threads.
#pragma once
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/thread_pool.h"
#include "data/table.h"

namespace trl::data {

inline constexpr int64_t kMapBlockRows = 1000;

template <class T>
struct Mapped {
  std::string where;  // of the row
  std::vector<T> made;
};

// make(Row&, std::vector<T>&) runs on any thread; keep(first row, std::vector<Mapped<T>>&) once a block, on
// the caller's. Where rows fail, the error is that of the first one.
template <class T, class Make, class Keep>
void map_rows(const Table& table, base::ThreadPool& pool, const base::CancelToken* cancel, const Make& make,
              const Keep& keep) {
  constexpr int64_t kGrain = 8;
  std::vector<int64_t> rows;
  std::vector<RowText> texts;
  std::vector<Mapped<T>> block;
  for (int64_t first = 0; first < table.size(); first += kMapBlockRows) {
    rows.resize(static_cast<size_t>(std::min(kMapBlockRows, table.size() - first)));
    std::iota(rows.begin(), rows.end(), first);
    table.fetch(rows, texts);
    block.assign(rows.size(), {});
    pool.parallel_for(static_cast<int64_t>(rows.size()), kGrain, [&](int64_t begin, int64_t end) {
      for (size_t i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
        if (cancel != nullptr) cancel->check();
        Row row = parse_row(texts[i]);
        make(row, block[i].made);
        block[i].where = std::move(row.where);
      }
    });
    keep(first, block);
  }
}

}  // namespace trl::data
