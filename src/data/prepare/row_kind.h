// What the rows of a dataset become: one kind for each method. Its records are what a RecordStore keeps.
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
  // All that its records depend on beside the rows, the tokenizer and the options of the data, as text.
  virtual std::string identity() const = 0;
  // Whether a row is one record unless it is dropped, and whether a row is dropped depends on that row alone.
  virtual bool row_by_row() const = 0;
  // A row whose JSON has fewer bytes than this is never dropped; SIZE_MAX: none ever is. Where row_by_row().
  virtual size_t least_bytes_to_drop() const = 0;
  // The counts of a row that is dropped; none: it is kept. Where row_by_row().
  virtual std::optional<Counts> drops(const RowText& text) const = 0;

  // The records of these texts, which have these numbers in the source: on all threads of the pool, in the
  // order of the source. keep_all: their places are already fixed, so none is dropped any more.
  virtual std::vector<std::string> records(const std::vector<RowText>& texts,
                                           std::span<const int64_t> source_rows, bool keep_all,
                                           Counts& counts) const = 0;
  // The record of one row, whose place is already fixed, on the calling thread.
  virtual std::string record(const RowText& text, int64_t source_row) const = 0;

  // Throws Error(format) where no row or nothing to train is left.
  virtual void check(const Counts& counts, std::string_view name) const = 0;
  virtual void report(const Counts& counts, std::string_view name) const = 0;
};

}  // namespace trl::data
