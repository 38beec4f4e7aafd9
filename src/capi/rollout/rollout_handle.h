// Rows of a generation as a handle, and functions of the host that reward or write completions.
#pragma once
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "capi/callback.h"
#include "capi/handle.h"
#include "reward/batch.h"
#include "run/rollout/host_rollout.h"
#include "trl/trl.h"

namespace trl::capi {

// A rollout that a function of the host was given, until its call is over.
class Rollout {
 public:
  struct Open {
    explicit Open(std::shared_ptr<run::HostRollout> of) : rows(std::move(of)) {}
    const std::shared_ptr<run::HostRollout> rows;
    KeptTexts texts;
  };

  // trainer: the one that asks.
  Rollout(std::shared_ptr<run::HostRollout> rows, const void* trainer)
      : trainer_(trainer), open_(std::make_shared<Open>(std::move(rows))) {}
  // Throws Error(invalid_argument) when it is over.
  std::shared_ptr<Open> open() const;
  void end();
  // Whether this thread has opened a rollout of that trainer which is not finished: its answer may depend on
  // this thread.
  static bool is_answered_here(const void* trainer);

 private:
  const void* const trainer_;
  mutable std::mutex mutex_;
  std::shared_ptr<Open> open_;
};

}  // namespace trl::capi

struct trl_rollout : trl::capi::Handle<trl::capi::Rollout, trl::capi::Tag::rollout> {
  using Handle::Handle;
};

namespace trl::capi {

// A function of the host, which may answer later.
class HostFunction {
 public:
  // trainer: the one that asks it.
  HostFunction(trl_rollout_fn function, UserData user_data, const void* trainer)
      : callback_{function, std::move(user_data)}, trainer_(trainer) {}
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
  using Given = std::unique_ptr<trl_rollout>;
  void end(std::vector<Given>::iterator given);

  const Callback<trl_rollout_fn> callback_;
  const void* const trainer_;
  // Handles stay valid for a host that answers after its time, and the newest ones for one that answers
  // twice.
  std::vector<Given> open_;
  std::deque<Given> over_;
};

// Returns a reward of that name. seconds: reward_timeout.
std::unique_ptr<reward::Reward> host_reward(std::string name, std::unique_ptr<HostFunction> function,
                                            std::optional<double> seconds);

}  // namespace trl::capi
