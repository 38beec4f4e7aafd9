// A dataset handle: the origin of its rows. Nothing is read before it is needed.
#pragma once
#include <atomic>
#include <memory>
#include <string>

#include "base/json/json.h"
#include "capi/handle.h"
#include "capi/runtime/runtime.h"
#include "data/source/origin.h"
#include "run/rows/rows.h"
#include "trl/trl.h"

namespace trl::capi {

class Dataset final : public run::Rows, public KeptTexts {
 public:
  // shareable: several threads may read the rows at once.
  Dataset(std::shared_ptr<Runtime> runtime, config::Config options, bool shareable,
          std::shared_ptr<const data::Origin> rows);
  std::unique_ptr<data::Source> source(const data::Spool& spool) const override;
  std::vector<std::unique_ptr<data::Source>> shards(const data::Spool& spool) const override;
  std::shared_ptr<const data::Table> table(const data::Spool& spool) const override;
  config::Config apply_options(config::Config config) const override;
  bool shareable() const override { return shareable_; }
  run::Environment& environment() const override { return *runtime_; }
  const std::shared_ptr<Runtime>& runtime() const { return runtime_; }

 private:
  std::shared_ptr<void> start_reading() const;

  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<const data::Origin> rows_;
  const bool shareable_;
  const config::Config options_;
  // Says whether a reader of unshareable rows exists.
  const std::shared_ptr<std::atomic<bool>> reading_ = std::make_shared<std::atomic<bool>>(false);
};

}  // namespace trl::capi

struct trl_dataset : trl::capi::Handle<trl::capi::Dataset, trl::capi::Tag::dataset> {
  using Handle::Handle;
};

// One row being read, on the stack of the reader.
struct trl_record : trl::capi::Head {
  explicit trl_record(trl::base::Json& into) : Head(trl::capi::Tag::record), row(into) {}
  ~trl_record() { retire(); }
  trl::base::Json& row;
};
