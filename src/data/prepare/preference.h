// Preparation of preference, unpaired and prompt-only datasets, by the same pass as SFT's.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/log.h"
#include "data/prepare/counts.h"
#include "data/prepare/preference_examples.h"
#include "data/prepare/preparation.h"
#include "data/prepare/prepare_context.h"
#include "data/prepare/row_kind.h"

namespace trl::data {

// Prepared rows, read in any order: exclusive, like Preparation.
template <class T>
class ExampleList {
 public:
  explicit ExampleList(std::unique_ptr<Preparation> rows) : rows_(std::move(rows)) {}
  Preparation& rows() const { return *rows_; }
  int64_t size() const { return rows_->size(); }
  T operator[](int64_t index) const { return example_of<T>(rows_->read(index)); }
  std::vector<T> gather(std::span<const int64_t> indices) const {
    std::vector<T> out;
    for (const int64_t index : indices) out.push_back((*this)[index]);
    return out;
  }

 private:
  const std::unique_ptr<Preparation> rows_;
};

using PreferenceList = ExampleList<PreferenceExample>;
using UnpairedList = ExampleList<UnpairedExample>;
using PromptList = ExampleList<PromptExample>;

// The kinds of rows; first: decides what holds for all rows. name: of the dataset, for messages.
std::unique_ptr<const RowKind> dpo_kind(const PrepareContext& context, const Row& first,
                                        std::string_view name);
std::unique_ptr<const RowKind> reward_kind(const PrepareContext& context, const Row& first,
                                           std::string_view name);
std::unique_ptr<const RowKind> kto_kind(const PrepareContext& context, const Row& first,
                                        std::string_view name);

// Throw Error(format) for a bad row, and if no row is left.
std::unique_ptr<PreferenceList> prepare_dpo(std::shared_ptr<const Table> table,
                                            const PrepareContext& context);
std::unique_ptr<PreferenceList> prepare_reward(std::shared_ptr<const Table> table,
                                               const PrepareContext& context);
// Turns paired rows into unpaired ones: in each block of 1000, first all chosen ones, then all rejected ones.
std::unique_ptr<UnpairedList> prepare_kto(std::shared_ptr<const Table> table, const PrepareContext& context);
std::unique_ptr<PromptList> prepare_prompts(std::shared_ptr<const Table> table,
                                            const PrepareContext& context);
// Each prompt has the completion of its row.
std::unique_ptr<PromptList> prepare_conversations(std::shared_ptr<const Table> table,
                                                  const PrepareContext& context);

}  // namespace trl::data
