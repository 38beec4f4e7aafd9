// The adapters of a model: names that requests give, each with the version that it has now.
#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/handles.h"

namespace trl::serve {

class Worker;

struct AdapterVersion {
  std::string name, path;
  std::string key;  // its name in the model: generate.adapter
  int64_t version = 0;
  int64_t created = 0;  // seconds since 1970
};

class Adapters {
 public:
  // The arguments outlive this. model: null if it takes no adapters.
  Adapters(trl_model* model, Worker& worker, int64_t most);
  ~Adapters();
  Adapters(const Adapters&) = delete;
  Adapters& operator=(const Adapters&) = delete;

  // Loads an adapter between two steps. One of that name is replaced if that is wanted, and else refused:
  // jobs keep the version that they hold. done: called once, on any thread, with a Refusal or Error, and then
  // the old version stays; null: it is loaded. Throws Refusal.
  using Done = std::function<void(const std::exception_ptr& why)>;
  void load(const std::string& name, const std::string& path, bool replace, Done done);
  void unload(std::string_view name);  // throws Refusal(404)
  // Returns the version that a name has now, or null. Whoever holds it may compute with it.
  std::shared_ptr<const AdapterVersion> find(std::string_view name) const;
  std::vector<std::shared_ptr<const AdapterVersion>> all() const;
  int64_t version() const;  // grows with each change
  // Takes versions out of the model that no job holds any more; returns whether some are left. On the model's
  // thread.
  bool sweep() noexcept;

 private:
  using Version = std::shared_ptr<const AdapterVersion>;
  struct Load;
  void check(const Load& load) const;
  bool add(const Load& load);
  void publish(const Load& load);
  void sweep_soon() noexcept;
  trl_model* const model_;
  Worker& worker_;
  const size_t most_;
  mutable std::mutex mutex_;
  std::map<std::string, Version, std::less<>> versions_;
  std::vector<Version> retired_;
  int64_t version_ = 0, keys_ = 0;
};

}  // namespace trl::serve
