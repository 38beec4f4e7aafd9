// A dataset handle: how to read the rows from their start, as often as it takes. Nothing is read before it is
// needed.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "base/json.h"
#include "capi/handle.h"
#include "capi/runtime.h"
#include "data/table.h"
#include "trl/trl.h"

namespace trl::capi {

class Dataset {
 public:
  using Open = std::function<std::unique_ptr<data::Source>()>;
  Dataset(std::shared_ptr<Runtime> runtime, config::Config options, bool shareable, Open open);
  // Calls body with the rows at their start. Rows of a callback take one reader at a time: Error(busy).
  void read(const std::function<void(data::Source&)>& body) const;
  // Its rows in any order. Rows of a callback are read now, on this thread.
  std::shared_ptr<const data::Table> table(const data::Spool& spool) const;
  // Its rows at their start, for as long as the source lives.
  std::unique_ptr<data::Source> source() const;
  // config with the keys of a dataset (dataset_columns ...) that this one was given of its own.
  config::Config apply_options(config::Config config) const;
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }
  // A text that lives as long as this dataset.
  const char* keep(std::string text) const {
    const std::lock_guard lock(kept_mutex_);
    return kept_.insert(std::move(text)).first->c_str();
  }

 private:
  const std::shared_ptr<Runtime> runtime_;
  const Open open_;
  const bool shareable_;
  const config::Config options_;
  mutable std::mutex reading_;
  mutable std::mutex kept_mutex_;
  mutable std::set<std::string> kept_;
};

}  // namespace trl::capi

struct trl_dataset : trl::capi::Handle<trl::capi::Dataset, trl::capi::Tag::dataset> {
  using Handle::Handle;
};

// One row under way, on the stack of the reader.
struct trl_record : trl::capi::Head {
  explicit trl_record(trl::base::Json& into) : Head(trl::capi::Tag::record), row(into) {}
  ~trl_record() { retire(); }
  trl::base::Json& row;
};
