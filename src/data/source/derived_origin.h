// An origin that is derived from others.
#pragma once
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "base/threads/polled_lock.h"
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

}  // namespace trl::data
