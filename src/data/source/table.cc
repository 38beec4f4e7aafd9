// Tables that consist of tables.
#include "data/source/table.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/files/hash.h"

namespace trl::data {

namespace {

void update_number(base::Xxh3& hash, uint64_t value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  hash.update({bytes, sizeof bytes});
}

// Returns the approximate bytes of text of this many rows of a table.
int64_t share_of_bytes(const Table& table, int64_t rows) {
  if (rows == table.size()) return table.total_bytes();
  return static_cast<int64_t>(static_cast<double>(table.total_bytes()) * static_cast<double>(rows) /
                              static_cast<double>(std::max<int64_t>(table.size(), 1)));
}

class ConcatenatedTable final : public Table {
 public:
  explicit ConcatenatedTable(std::vector<Part> parts) : parts_(std::move(parts)) {
    base::Xxh3 hash;
    for (const Part& part : parts_) {
      size_ += part.take;
      ends_.push_back(size_);
      total_bytes_ += share_of_bytes(*part.table, part.take);
      update_number(hash, part.table->digest());
      update_number(hash, static_cast<uint64_t>(part.take));
      update_number(hash, static_cast<uint64_t>(part.skip));
      for (const std::string& column : part.columns) hash.update(column + "\n");
    }
    digest_ = hash.digest();
    name_ = parts_.empty() ? "" : parts_.front().table->name();
    if (parts_.size() > 1) name_ += fmt::format(" and {} more", parts_.size() - 1);
  }

  int64_t size() const override { return size_; }
  int64_t total_bytes() const override { return total_bytes_; }
  uint64_t digest() const override { return digest_; }
  const std::string& name() const override { return name_; }

  void read_texts(std::span<const int64_t> rows, std::vector<RowText>& out) const override {
    std::vector<std::vector<size_t>> wanted(parts_.size());  // of each part: places in rows
    for (size_t i = 0; i < rows.size(); ++i) wanted[part_of(rows[i])].push_back(i);
    out.resize(rows.size());
    std::vector<int64_t> own;
    std::vector<RowText> texts;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (wanted[p].empty()) continue;
      const Part& part = parts_[p];
      own.clear();
      for (const size_t i : wanted[p]) own.push_back(part.skip + rows[i] - (ends_[p] - part.take));
      part.table->fetch(own, texts);
      for (size_t i = 0; i < texts.size(); ++i) {
        if (!part.columns.empty()) texts[i].columns = &part.columns;
        out[wanted[p][i]] = std::move(texts[i]);
      }
    }
  }

 private:
  size_t part_of(int64_t row) const {
    return static_cast<size_t>(std::ranges::upper_bound(ends_, row) - ends_.begin());
  }

  const std::vector<Part> parts_;
  std::vector<int64_t> ends_;
  std::string name_;
  int64_t size_ = 0;
  int64_t total_bytes_ = 0;
  uint64_t digest_ = 0;
};

class SelectedTable final : public Table {
 public:
  SelectedTable(std::shared_ptr<const Table> table, std::vector<uint32_t> rows)
      : table_(std::move(table)), rows_(std::move(rows)) {
    base::Xxh3 hash;
    update_number(hash, table_->digest());
    hash.update({reinterpret_cast<const char*>(rows_.data()), rows_.size() * sizeof(uint32_t)});
    digest_ = hash.digest();
  }

  int64_t size() const override { return static_cast<int64_t>(rows_.size()); }
  int64_t total_bytes() const override { return share_of_bytes(*table_, size()); }
  uint64_t digest() const override { return digest_; }
  const std::string& name() const override { return table_->name(); }

  void read_texts(std::span<const int64_t> rows, std::vector<RowText>& out) const override {
    std::vector<int64_t> own(rows.size());
    std::ranges::transform(rows, own.begin(), [&](int64_t row) { return rows_[static_cast<size_t>(row)]; });
    table_->fetch(own, out);
  }

 private:
  const std::shared_ptr<const Table> table_;
  const std::vector<uint32_t> rows_;
  uint64_t digest_ = 0;
};

class TableSource final : public Source {
 public:
  explicit TableSource(std::shared_ptr<const Table> table) : table_(std::move(table)) {}

  bool read_text(RowText& text) override {
    if (at_ == texts_.size()) {
      std::vector<int64_t> rows(static_cast<size_t>(std::min<int64_t>(kRowsAhead, table_->size() - read_)));
      if (rows.empty()) return false;
      std::iota(rows.begin(), rows.end(), read_);
      table_->fetch(rows, texts_);
      read_ += static_cast<int64_t>(rows.size());
      at_ = 0;
    }
    text = std::move(texts_[at_++]);
    return true;
  }
  void start_over() override {
    texts_.clear();
    at_ = 0;
    read_ = 0;
  }
  const std::string& name() const override { return table_->name(); }

 private:
  static constexpr int64_t kRowsAhead = 64;
  const std::shared_ptr<const Table> table_;
  std::vector<RowText> texts_;
  size_t at_ = 0;
  int64_t read_ = 0;
};

}  // namespace

void Table::fetch(std::span<const int64_t> rows, std::vector<RowText>& out) const {
  read_texts(rows, out);
  for (size_t i = 0; i < rows.size(); ++i) out[i].row = rows[i];
}

std::shared_ptr<const Table> concatenate(std::vector<Part> parts) {
  if (parts.size() == 1 && parts.front().take == parts.front().table->size() && parts.front().columns.empty())
    return std::move(parts.front().table);
  return std::make_shared<ConcatenatedTable>(std::move(parts));
}

std::shared_ptr<const Table> select_rows(std::shared_ptr<const Table> table, std::vector<uint32_t> rows) {
  return std::make_shared<SelectedTable>(std::move(table), std::move(rows));
}

std::unique_ptr<Source> read_table(std::shared_ptr<const Table> table) {
  return std::make_unique<TableSource>(std::move(table));
}

Row first_row(const Table& table) {
  if (table.size() == 0) fail(Status::format, "{}: holds no rows", Place{table.name()});
  const int64_t first = 0;
  std::vector<RowText> texts;
  table.fetch({&first, 1}, texts);
  return parse_row(texts.front());
}

}  // namespace trl::data
