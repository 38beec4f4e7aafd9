// Rows -> prepared rows: texts become ids and labels on all threads, then are cut, dropped or packed, and
// what was done to them is counted.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "data/counts.h"
#include "data/sft.h"
#include "data/sft_rows.h"

namespace trl::data {

class SftTokens {
 public:
  // first: decides what holds for all rows.
  SftTokens(const PrepareContext& context, const Row& first);
  SftTokens(const SftTokens&) = delete;
  SftTokens& operator=(const SftTokens&) = delete;
  bool completion_only_loss() const { return rows_.completion_only_loss(); }
  bool reads_ids() const { return rows_.format() == Format::tokenized; }
  // A row whose JSON has fewer bytes than this is never dropped; SIZE_MAX: none ever is. Rows of ids aside.
  size_t least_bytes_to_drop() const { return least_bytes_to_drop_; }

  // The rows of these texts, which have these numbers in the source, as they are kept. keep_all: their places
  // are given away already, so none is dropped any more.
  std::vector<Example> prepare(const std::vector<RowText>& texts, std::span<const int64_t> source_rows,
                               bool keep_all, Counts& counts) const;
  // One row on the calling thread, whose number has been fixed: never dropped.
  Example prepare_one(const RowText& text, int64_t source_row) const;
  // Of a row that is dropped: how many of its tokens max_length cuts off. None: the row is kept.
  std::optional<int64_t> cut_from_dropped(const RowText& text) const;

 private:
  bool cuts() const;
  size_t find_least_bytes_to_drop(const Row& first) const;
  bool cut(Tokens& tokens) const;
  bool is_dropped(const Tokens& tokens) const;
  std::vector<Example> whole(std::vector<Tokens>& tokens, const std::vector<RowText>& texts,
                             std::span<const int64_t> source_rows, bool keep_all, Counts& counts) const;
  std::vector<Example> packed(const std::vector<Tokens>& tokens, std::span<const int64_t> source_rows,
                              Counts& counts) const;

  const config::SftDataArguments arguments_;
  const PrepareContext context_;
  const SftRows rows_;
  const size_t least_bytes_to_drop_;
};

}  // namespace trl::data
