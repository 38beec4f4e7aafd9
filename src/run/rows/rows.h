// The rows of a run, opened as often as needed.
#pragma once
#include <memory>
#include <vector>

#include "config/config.h"
#include "data/source/source.h"
#include "data/source/table.h"
#include "run/environment.h"

namespace trl::run {

class Rows {
 public:
  // The rows at their start, for as long as the source lives. Rows of a callback have one reader at a time:
  // Error(busy).
  virtual std::unique_ptr<data::Source> source(const data::Spool& spool) const = 0;
  // The same rows, each file as a separate source.
  virtual std::vector<std::unique_ptr<data::Source>> shards(const data::Spool& spool) const = 0;
  // Rows that can be read again in any order; the same table as long as the files are the same. The rows of a
  // callback and of an Arrow stream are read here, on the calling thread.
  virtual std::shared_ptr<const data::Table> table(const data::Spool& spool) const = 0;
  // config with the keys of a dataset (dataset_columns ...) that this one was given of its own.
  virtual config::Config apply_options(config::Config config) const = 0;
  virtual bool shareable() const = 0;  // several threads may read the rows at once
  virtual Environment& environment() const = 0;

 protected:
  ~Rows() = default;
};

}  // namespace trl::run
