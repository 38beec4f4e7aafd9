#include "data/prepare/sft.h"

#include "data/prepare/sft_tokens.h"

namespace trl::data {

namespace {

// completion_only: becomes the decision of these rows.
std::unique_ptr<const RowKind> sft_kind(const Table& table, const PrepareContext& context,
                                        bool& completion_only) {
  auto tokens = std::make_unique<const SftTokens>(context, first_row(table));
  completion_only = tokens->completion_only_loss();
  return tokens;
}

}  // namespace

Examples::Examples(const std::shared_ptr<const Table>& table, const PrepareContext& context)
    : rows_(table, context, sft_kind(*table, context, completion_only_)) {}

std::vector<uint32_t> Examples::lengths() {
  rows_.wait();
  std::vector<uint32_t> out(static_cast<size_t>(size()));
  for (size_t row = 0; row < out.size(); ++row)
    out[row] = static_cast<uint32_t>(example_length(rows_.read(static_cast<int64_t>(row))));
  return out;
}

std::unique_ptr<Examples> prepare_sft(const std::shared_ptr<const Table>& table,
                                      const PrepareContext& context) {
  return std::make_unique<Examples>(table, context);
}

std::unique_ptr<Examples> prepare_sft(Source& source, const PrepareContext& context) {
  source.rewind();
  return prepare_sft(spool_rows(source, {context.directory, size_t{32} << 20, context.memory}), context);
}

}  // namespace trl::data
