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
  // Opens the rows at their start, for the life of the source. Rows of a callback have one reader at a time:
  // Error(busy).
  virtual std::unique_ptr<data::Source> source(const data::Spool& spool) const = 0;
  // Opens the same rows, each file as a separate source.
  virtual std::vector<std::unique_ptr<data::Source>> shards(const data::Spool& spool) const = 0;
  // Returns rows that can be read repeatedly in any order; the same table as long as the files are the same.
  // The rows of a callback and of an Arrow stream are read here, on the calling thread.
  virtual std::shared_ptr<const data::Table> table(const data::Spool& spool) const = 0;
  // Returns config with the dataset's own values of its keys (dataset_columns ...).
  virtual config::Config apply_options(config::Config config) const = 0;
  virtual bool shareable() const = 0;  // several threads may read the rows at once
  virtual Environment& environment() const = 0;

 protected:
  ~Rows() = default;
};

}  // namespace trl::run
