// Rows of a generation as a handle, and functions of the host that reward or write completions.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "capi/callback.h"
#include "capi/handle.h"
#include "reward/batch.h"
#include "run/rollout/host_rollout.h"
#include "trl/trl.h"

namespace trl::capi {

struct Rollout {
  explicit Rollout(std::shared_ptr<run::HostRollout> of) : rows(std::move(of)) {}
  const std::shared_ptr<run::HostRollout> rows;
  KeptTexts texts;
};

}  // namespace trl::capi

struct trl_rollout : trl::capi::Handle<trl::capi::Rollout, trl::capi::Tag::rollout> {
  using Handle::Handle;
};

namespace trl::capi {

// A function of the host, which may answer later.
class HostFunction {
 public:
  HostFunction(trl_rollout_fn function, UserData user_data) : callback_{function, std::move(user_data)} {}
  // Calls it with these rows. which: "reward NAME", for messages. Throws Error(callback).
  void begin(const std::string& which, const std::shared_ptr<run::HostRollout>& rows);
  // Waits for the answer to a call. Throws Error(callback).
  void finish(const std::string& which, run::HostRollout& rows, std::optional<double> seconds);
  void call(const std::string& which, const std::shared_ptr<run::HostRollout>& rows,
            std::optional<double> seconds) {
    begin(which, rows);
    finish(which, *rows, seconds);
  }

 private:
  const Callback<trl_rollout_fn> callback_;
  // Handles stay valid for a host that answers after its time.
  std::vector<std::unique_ptr<trl_rollout>> open_;
};

// Returns a reward of that name. seconds: reward_timeout.
std::unique_ptr<reward::Reward> host_reward(std::string name, std::unique_ptr<HostFunction> function,
                                            std::optional<double> seconds);

}  // namespace trl::capi
