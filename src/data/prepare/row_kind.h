// Turns the rows of a dataset into records of a RecordStore: one kind for each method.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/prepare/counts.h"

namespace trl::data {

// Concurrent on const.
class RowKind {
 public:
  virtual ~RowKind() = default;
  // Describes as text everything that its records depend on in addition to the rows, tokenizer and options of
  // the data.
  virtual std::string identity() const = 0;
  // Says whether a row is one record unless it is dropped, and whether only that row decides if it is
  // dropped.
  virtual bool row_by_row() const = 0;
  // A row whose JSON has fewer bytes is never dropped; SIZE_MAX: no row is. Only if row_by_row().
  virtual size_t least_bytes_to_drop() const = 0;
  // Returns the counts of a row that is dropped; nullopt: it is kept. Only if row_by_row().
  virtual std::optional<Counts> drops(const RowText& text) const = 0;

  // Makes the records of these texts, which have these numbers in the source: on all threads of the pool, in
  // the order of the source. keep_all: their places are already fixed, so no row is dropped any more.
  virtual std::vector<std::string> records(const std::vector<RowText>& texts,
                                           std::span<const int64_t> source_rows, bool keep_all,
                                           Counts& counts) const = 0;
  // Makes the record of one row, whose place is already fixed, on the calling thread.
  virtual std::string record(const RowText& text, int64_t source_row) const = 0;

  // Throws Error(format) if no row or nothing to train is left.
  virtual void check(const Counts& counts, std::string_view name) const = 0;
  virtual void report(const Counts& counts, std::string_view name) const = 0;
};

}  // namespace trl::data
