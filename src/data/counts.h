// What preparation did to rows: told once, at its end, and kept beside prepared rows in the cache.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/log.h"
#include "config/data_arguments.h"
#include "data/row.h"

namespace trl::data {

struct Counts {
  int64_t read = 0;
  int64_t cut = 0;
  int64_t lost_tokens = 0;  // by cutting
  int64_t dropped = 0;
  std::string first_dropped;
  int64_t split = 0;  // rows whose prompt is no prefix of prompt and completion
  std::string first_split;
  int64_t short_rows = 0;  // of CSV: with fewer cells than the header has names
  std::string first_short;
  int64_t untrained = 0;  // rows that would have been dropped, had it been known in time
  int64_t kept = 0;       // prepared rows, packed ones too
  int64_t tokens = 0;     // in them
  bool any_trained = false;

  void add_row(const RowText& row);  // that was read
  base::Json to_json() const;
  static Counts from_json(const base::Json& json);  // throws Error(format)
  // Throws Error(format) where no row or nothing to train is left.
  void check(std::string_view name, const config::SftDataArguments& arguments) const;
  void report_short_rows(std::string_view name, base::LogSink& log) const;
  void report(std::string_view name, const config::SftDataArguments& arguments, base::LogSink& log) const;
};

}  // namespace trl::data
