// Origins that are derived from others: parts of splits, mixtures, and a part set aside, by the rules of the
// formats that do so: TRL's datasets (get_dataset), open-r1's dataset_mixture and alignment-handbook's
// dataset_mixer.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/threads/polled_lock.h"
#include "config/dataset/datasets.h"
#include "data/source/origin.h"

namespace trl::data {

// Its table is rebuilt whenever a table of its bases is.
class DerivedOrigin : public Origin {
 public:
  explicit DerivedOrigin(std::vector<std::shared_ptr<const Origin>> bases) : bases_(std::move(bases)) {}
  std::shared_ptr<const Table> table(const Spool& spool) const final {
    const auto lock = base::polled_lock(mutex_);
    std::vector<std::shared_ptr<const Table>> tables;
    for (const auto& base : bases_) tables.push_back(base->table(spool));
    if (table_ == nullptr || tables != tables_) {
      table_.reset();
      table_ = derive(tables);
      tables_ = std::move(tables);
    }
    return table_;
  }

 protected:
  const std::vector<std::shared_ptr<const Origin>> bases_;

 private:
  virtual std::shared_ptr<const Table> derive(
      const std::vector<std::shared_ptr<const Table>>& tables) const = 0;

  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Table>> tables_;
  mutable std::shared_ptr<const Table> table_;
};

// Parts of a split, and several splits one after another (config/dataset/datasets.h). bases: for each part,
// the whole split that it is cut from. key: the option to name in errors.
std::shared_ptr<const Origin> parts_origin(std::vector<std::shared_ptr<const Origin>> bases,
                                           std::vector<config::SplitPart> parts, std::string key);

// bases: one for each entry. log outlives the mixture.
std::shared_ptr<const Origin> mixture_origin(std::vector<std::shared_ptr<const Origin>> bases,
                                             const config::DatasetArguments& arguments,
                                             std::vector<config::DatasetEntry> entries, base::LogSink& log);
// datasets' train_test_split; size: rows to test on, or below 1 their share. test: selects the test part.
std::shared_ptr<const Origin> split_origin(std::shared_ptr<const Origin> base, double size, uint64_t seed,
                                           bool test);

}  // namespace trl::data
