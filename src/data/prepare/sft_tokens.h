// Turns rows into prepared rows: texts become ids and labels on all threads, then are cut, dropped or packed,
// and these events are counted.
#pragma once

#include "data/prepare/row_kind.h"
#include "data/prepare/sft.h"
#include "data/prepare/sft_rows.h"

namespace trl::data {

class SftTokens final : public RowKind {
 public:
  // first: decides what holds for all rows.
  SftTokens(const PrepareContext& context, const Row& first);
  SftTokens(const SftTokens&) = delete;
  SftTokens& operator=(const SftTokens&) = delete;
  bool completion_only_loss() const { return rows_.completion_only_loss(); }

  std::string identity() const override;
  bool row_by_row() const override { return context_.packing == Packing::none && !reads_ids(); }
  size_t least_bytes_to_drop() const override { return least_bytes_to_drop_; }
  std::optional<Counts> drops(const RowText& text) const override;
  std::vector<std::string> records(const std::vector<RowText>& texts, std::span<const int64_t> source_rows,
                                   bool keep_all, Counts& counts) const override;
  std::string record(const RowText& text, int64_t source_row) const override;
  void check(const Counts& counts, std::string_view name) const override;
  void report(const Counts& counts, std::string_view name) const override;

  // Makes the examples that the records hold.
  std::vector<Example> examples(const std::vector<RowText>& texts, std::span<const int64_t> source_rows,
                                bool keep_all, Counts& counts) const;

 private:
  bool reads_ids() const { return rows_.format() == Format::tokenized; }
  bool cuts() const;
  size_t find_least_bytes_to_drop(const Row& first) const;
  bool cut(Tokens& tokens) const;
  template <class Where>
  void cut(Tokens& tokens, const Where& where, Counts& counts) const;
  bool is_dropped(const Tokens& tokens) const;
  std::vector<Example> whole(std::vector<Tokens>& tokens, const std::vector<RowText>& texts,
                             std::span<const int64_t> source_rows, bool keep_all, Counts& counts) const;
  std::vector<Example> packed(const std::vector<Tokens>& tokens, std::span<const int64_t> source_rows,
                              Counts& counts) const;

  const config::DataArguments arguments_;
  const PrepareContext context_;
  const SftRows rows_;
  const size_t least_bytes_to_drop_;
};

}  // namespace trl::data
