// The origin of a dataset's rows, opened as often as needed: as rows in a stream, or as a table. any thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "config/dataset/datasets.h"
#include "data/source/source.h"
#include "data/source/table.h"

namespace trl::data {

class Origin {
 public:
  virtual ~Origin() = default;
  virtual const std::string& name() const = 0;
  // Returns its files; empty if the order of the rows is known only when all of them are.
  virtual std::vector<SourcePart> parts() const = 0;
  // Opens one file after another; null if parts() is empty.
  std::unique_ptr<Source> source() const;
  // Opens each file as a separate source.
  std::vector<std::unique_ptr<Source>> shards() const;
  // Returns the same table as long as the files are unchanged.
  virtual std::shared_ptr<const Table> table(const Spool& spool) const = 0;
};

// Concatenates files; if one of them can be read only once (a pipe), the rows of all are kept.
std::shared_ptr<const Origin> files_origin(std::vector<RowFile> files, std::string name);
// Rows that can be read only once, so they are kept; open is called once.
std::shared_ptr<const Origin> once_origin(std::function<std::unique_ptr<Source>()> open, std::string name);
std::shared_ptr<const Origin> memory_origin(std::string_view format, std::shared_ptr<const std::string> bytes,
                                            std::string name);

// The rows that a configuration names; log outlives them. eval: null if it names no evaluation rows. Throws
// Error(not_found), also with a key.
struct OpenedRows {
  std::shared_ptr<const Origin> train;
  std::shared_ptr<const Origin> eval;
};
OpenedRows open_rows(const config::DatasetArguments& arguments, base::LogSink& log);

}  // namespace trl::data
