// Rows that training can read in any order and as often as wanted without holding them in memory. A Source
// (source.h) is the same rows read once from their start. Immutable: concurrent on const.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory/memory.h"
#include "data/source/source.h"

namespace trl::data {

class Table {
 public:
  Table() = default;
  virtual ~Table() = default;
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  virtual int64_t size() const = 0;
  // Fetches the texts of these rows, in this order; neighbours are read together. Throws Error(io) if a file
  // has changed since it was opened.
  void fetch(std::span<const int64_t> rows, std::vector<RowText>& out) const;
  virtual int64_t total_bytes() const = 0;  // approximate bytes of text of all rows
  virtual uint64_t digest() const = 0;  // of everything that is read: files' bytes and the selection of rows
  virtual const std::string& name() const = 0;

 private:
  virtual void read_texts(std::span<const int64_t> rows, std::vector<RowText>& out) const = 0;
};

Row first_row(const Table& table);  // throws Error(format) if the table is empty

// Storage for rows that cannot be read from their source again (compressed files, CSV, a host's rows).
struct Spool {
  std::string directory;  // of the file for rows beyond memory_bytes; empty: memory takes all
  size_t memory_bytes = size_t{32} << 20;
  base::MemoryCounter* memory = nullptr;
};

std::shared_ptr<const Table> open_table(const RowFile& file, const Spool& spool);
std::shared_ptr<const Table> open_tables(const std::vector<RowFile>& files, const Spool& spool);
std::shared_ptr<const Table> open_file_table(const std::string& path,
                                             const Spool& spool);  // all that find_files finds
std::shared_ptr<const Table> open_memory_table(std::string_view format,
                                               const std::shared_ptr<const std::string>& bytes,
                                               const std::string& name, const Spool& spool);
std::shared_ptr<const Table> spool_rows(Source& source, const Spool& spool);  // reads it from start to end
// The same for a source that can be read once: `begun` keeps the rows that a cancelled call has read, and the
// next call continues after them. It is null if the call ended within a row.
std::shared_ptr<const Table> spool_rows(Source& source, const Spool& spool,
                                        std::shared_ptr<const Table>& begun);

// Rows of other tables: concatenated; or those of `rows` in that order.
struct Part {
  std::shared_ptr<const Table> table;
  int64_t take = 0;                  // the number of rows
  std::vector<std::string> columns;  // the columns that are read; empty: all
  int64_t skip = 0;                  // the number of its first row
};
std::shared_ptr<const Table> concatenate(std::vector<Part> parts);
std::shared_ptr<const Table> select_rows(std::shared_ptr<const Table> table, std::vector<uint32_t> rows);
std::unique_ptr<Source> read_table(std::shared_ptr<const Table> table);  // its rows in order

}  // namespace trl::data
