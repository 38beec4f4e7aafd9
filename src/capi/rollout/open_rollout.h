// The rollout that a trainer has asked the host for. Until the host finishes it, generators of the trainer
// may work for it: in the function that is asked, and on any other thread, while the call that trains waits.
#pragma once
#include <memory>
#include <mutex>
#include <set>

#include "base/threads/turns.h"
#include "capi/process/call_interrupt.h"
#include "run/complete/requests.h"
#include "run/rollout/host_rollout.h"

namespace trl::capi {

class OpenRollout {
 public:
  // On the thread that trains: opens a rollout during its lifetime.
  class Scope {
   public:
    // of_trainer: ends the call of a generator that is under way when this ends without close().
    Scope(OpenRollout& open, std::shared_ptr<const run::HostRollout> rows, Interrupt& of_trainer);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    // Waits for the call of a generator that is under way; a later one finds no open rollout.
    void close();

   private:
    OpenRollout& open_;
    Interrupt& of_trainer_;
    bool closed_ = false;
  };

  // Returns the right to use a generator, which one thread has at a time: waits for it. Empty: no rollout is
  // open.
  std::unique_lock<std::mutex> enter();
  // The same, but empty too while another thread has it.
  std::unique_lock<std::mutex> try_enter();
  // With that right: says that these requests hold keys and values.
  void uses(const std::shared_ptr<run::Requests>& requests) { used_.insert(requests); }
  // Without an open rollout, on the thread that trains: gives the keys and values of all used requests back.
  void release_memory();

 private:
  using Used = std::weak_ptr<run::Requests>;
  bool is_open() const;
  void forget();

  mutable std::mutex mutex_;  // of rows_
  std::shared_ptr<const run::HostRollout> rows_;
  std::mutex in_use_;
  base::Turns order_;  // of those who wait for it
  std::set<Used, std::owner_less<Used>> used_;
};

}  // namespace trl::capi
