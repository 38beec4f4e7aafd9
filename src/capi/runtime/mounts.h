// The files that the host mounts: names of the process, and the functions behind them.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/files/host_files.h"
#include "capi/callback.h"
#include "trl/trl.h"

namespace trl::capi {

// Lives as long as the runtimes that hold it.
struct Mount {
  trl_read_fn read;    // or null
  trl_write_fn write;  // or null
  UserData user_data;
};

class Mounts final : public base::HostFiles {
 public:
  // Throws Error(invalid_argument), and leaves mount as it is, for a name that is taken or none.
  std::shared_ptr<const Mount> add(const std::string& name, Mount& mount);

  Answer size(const std::string& path) noexcept override;
  Answer read(const std::string& path, uint64_t offset, void* buffer, size_t size) noexcept override;
  Answer write(base::HostWrite what, const std::string& path, uint64_t offset,
               std::string_view data) noexcept override;
  Answer charge(const std::string& path, int64_t bytes) noexcept override;
  void release(int64_t bytes) noexcept override;

 private:
  // file: the path below the mount's name; "" for the mount itself.
  using Body = std::function<int64_t(const Mount& mount, const std::string& file)>;
  Answer ask(const std::string& path, const Body& body) noexcept;
  std::shared_ptr<const Mount> find(const std::string& path, std::string* file);

  std::mutex mutex_;
  std::map<std::string, std::weak_ptr<const Mount>, std::less<>> mounts_;
};

Mounts& mounts();  // of the process

}  // namespace trl::capi
