#include "data/prepare/preparation.h"
#include "data/prepare/sft.h"
#include "data/prepare/sft_tokens.h"

namespace trl::data {

namespace {

class Prepared final : public Examples {
 public:
  Prepared(std::shared_ptr<const Table> table, const PrepareContext& context,
           std::unique_ptr<const SftTokens> tokens)
      : completion_only_(tokens->completion_only_loss()),
        rows_(std::move(table), context, std::move(tokens)) {}
  int64_t size() override { return rows_.size(); }
  Example read(int64_t row) override { return decode_example(rows_.read(row)); }
  std::vector<uint32_t> lengths() override {
    rows_.wait();
    std::vector<uint32_t> out(static_cast<size_t>(size()));
    for (size_t row = 0; row < out.size(); ++row)
      out[row] = static_cast<uint32_t>(example_length(rows_.read(static_cast<int64_t>(row))));
    return out;
  }
  int64_t total_tokens() override { return rows_.total_tokens(); }
  void tell() override { rows_.tell(); }
  uint64_t fingerprint() const override { return rows_.fingerprint(); }
  bool completion_only_loss() const override { return completion_only_; }

 private:
  const bool completion_only_;
  Preparation rows_;
};

}  // namespace

std::unique_ptr<Examples> prepare_sft(std::shared_ptr<const Table> table, const PrepareContext& context) {
  auto tokens = std::make_unique<const SftTokens>(context, first_row(*table));
  return std::make_unique<Prepared>(std::move(table), context, std::move(tokens));
}

std::unique_ptr<Examples> prepare_sft(Source& source, const PrepareContext& context) {
  source.rewind();
  return prepare_sft(spool_rows(source, {context.directory, size_t{32} << 20, context.memory}), context);
}

}  // namespace trl::data
