// The versions of an adapter that one thread trains, as another thread computes with them: copies in another
// model of the same weights (Model::twin), each of one step.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "model/model.h"

namespace trl::model {

class AdapterVersions {
 public:
  // Adds `count` copies to the twin, and publishes the values as they are. Throws Error(invalid_config) for
  // an adapter that changes more than projections. Both outlive this.
  AdapterVersions(Model& twin, const Adapter& trained, int64_t count, int64_t version);

  // On the thread that trains, between two changes of the values: copies them, unless they are those of the
  // last call. Values that are not finite are left out; the first time in a row it throws Error.
  void publish(int64_t version);

  // All below: on threads that compute with the twin, one at a time. Takes over what was published last, if
  // there is a copy that nobody uses, and returns the newest copy.
  const Adapter& newest(const std::function<bool(const Adapter&)>& in_use);
  // The version that a copy has; -1: it is another adapter.
  int64_t version_of(const Adapter* adapter) const;
  const std::string& name() const { return trained_.name(); }  // of the adapter that is trained

 private:
  struct Snapshot {
    int64_t version = 0;
    std::vector<at::Tensor> values;
  };
  struct Copy {
    Adapter* adapter;
    int64_t version;
  };
  std::shared_ptr<Snapshot> spare() const;

  const Adapter& trained_;
  uint64_t seen_;             // the trained adapter's version() at the last publish()
  bool is_broken_ = false;    // its values were not finite then
  std::vector<Copy> copies_;  // the newest is the first
  std::mutex mutex_;          // of the following
  std::shared_ptr<Snapshot> published_, before_;
  bool taken_ = true;  // published_ is in copies_
};

}  // namespace trl::model
