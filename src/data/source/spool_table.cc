// Rows that were read once from a source and are kept as records.
#include <deque>
#include <utility>

#include "base/files/hash.h"
#include "base/interrupt.h"
#include "data/prepare/record_store.h"
#include "data/source/table.h"

namespace trl::data {

namespace {

// The beginning of a record; the row's JSON follows.
struct SpooledPlace {
  int64_t line;
  int64_t column;
  int64_t index;
  uint32_t origin;
  uint16_t in_array;
  uint8_t untyped;
  uint8_t short_row;
};

class SpoolTable final : public Table {
 public:
  SpoolTable(std::string name, const Spool& spool)
      : store_({spool.directory, spool.memory_bytes, spool.memory}), name_(std::move(name)) {}

  // Reads the source to its end, from the place where the last call was cancelled.
  void read(Source& source) {
    RowText text;
    std::string record;
    base::progress("rows", store_.size(), -1);  // the first row of a pipe may take long
    for (;;) {
      base::poll();
      within_row_ = true;
      if (!source.next_text(text)) break;
      within_row_ = false;
      remember_origin(text);
      const SpooledPlace place{text.line,
                               text.column,
                               text.index,
                               static_cast<uint32_t>(origins_.size() - 1),
                               static_cast<uint16_t>(text.in_array),
                               static_cast<uint8_t>(text.untyped),
                               static_cast<uint8_t>(text.short_row)};
      record.assign(reinterpret_cast<const char*>(&place), sizeof place);
      record += text.json;
      store_.append(record);
      base::progress("rows", store_.size(), -1);
      hash_.update(text.json);
      hash_.update("\n");
      total_bytes_ += static_cast<int64_t>(text.json.size());
    }
    for (const Origin& origin : origins_)
      for (const std::string& column : origin.columns) hash_.update(column + "\n");
    digest_ = hash_.digest();
  }

  bool within_row() const { return within_row_; }  // the source cannot be used after an error

  int64_t size() const override { return store_.size(); }
  int64_t total_bytes() const override { return total_bytes_; }
  uint64_t digest() const override { return digest_; }
  const std::string& name() const override { return name_; }

  void read_texts(std::span<const int64_t> rows, std::vector<RowText>& out) const override {
    out.resize(rows.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      std::string record = store_.read(rows[i]);
      SpooledPlace place;
      std::memcpy(&place, record.data(), sizeof place);
      record.erase(0, sizeof place);
      const Origin& origin = origins_[place.origin];
      out[i] = {std::move(record),  origin.file,          place.line,
                place.column,       place.index,          place.in_array != 0,
                place.untyped != 0, place.short_row != 0, origin.selects ? &origin.columns : nullptr};
    }
  }

 private:
  struct Origin {
    std::string file;
    std::vector<std::string> columns;
    bool selects = false;
  };
  void remember_origin(const RowText& text) {
    const bool selects = text.columns != nullptr;
    if (!origins_.empty()) {
      const Origin& last = origins_.back();
      if (last.file == text.file && last.selects == selects && (!selects || last.columns == *text.columns))
        return;
    }
    origins_.push_back(
        {std::string(text.file), selects ? *text.columns : std::vector<std::string>(), selects});
  }

  RecordStore store_;
  const std::string name_;
  std::deque<Origin> origins_;  // which never move
  base::Xxh3 hash_;
  bool within_row_ = false;
  int64_t total_bytes_ = 0;
  uint64_t digest_ = 0;
};

}  // namespace

std::shared_ptr<const Table> spool_rows(Source& source, const Spool& spool) {
  std::shared_ptr<const Table> begun;
  return spool_rows(source, spool, begun);
}

std::shared_ptr<const Table> spool_rows(Source& source, const Spool& spool,
                                        std::shared_ptr<const Table>& begun) {
  if (begun == nullptr) begun = std::make_shared<SpoolTable>(source.name(), spool);
  const auto table = std::const_pointer_cast<SpoolTable>(std::static_pointer_cast<const SpoolTable>(begun));
  try {
    table->read(source);
  } catch (...) {
    if (table->within_row()) begun.reset();
    throw;
  }
  return table;
}

}  // namespace trl::data
