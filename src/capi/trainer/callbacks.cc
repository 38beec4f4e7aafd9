// trl_trainer_add_reward, trl_trainer_set_rollout, trl_trainer_set_tools: functions of the host that a run
// calls.
#include <memory>
#include <string>

#include "base/error.h"
#include "capi/callback.h"
#include "capi/guard.h"
#include "capi/trainer/trainer_handle.h"

namespace trl::capi {

void Trainer::add_reward(const std::string& name, std::unique_ptr<HostFunction> function) {
  exclusively([&] {
    if (name.empty()) fail(Status::invalid_argument, "name is empty: give the name of the reward's metrics");
    const auto seconds = run_->online().reward_timeout;
    run_->rollouts().rewards().add(host_reward(name, std::move(function), seconds));
  });
}

void Trainer::set_rollout(std::shared_ptr<HostFunction> function) {
  exclusively([&] {
    const auto seconds = run_->online().reward_timeout;
    const auto write = [this, function, seconds](const std::shared_ptr<run::HostRollout>& rows) {
      OpenRollout::Scope open(open_rollout_, rows, interrupt_);
      {
        const RolloutScope asked;
        function->begin("rollout", rows);
      }
      function->finish("rollout", *rows, seconds);
      open.close();
    };
    run_->rollouts().write_by(write, [this] { open_rollout_.release_memory(); });
  });
}

void Trainer::set_tools(std::shared_ptr<HostFunction> function) {
  exclusively([&] {
    const auto seconds = run_->online().reward_timeout;
    run_->rollouts().call_tools_by([function, seconds](const std::shared_ptr<run::HostRollout>& rows) {
      function->call("tools", rows, seconds);
    });
  });
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_trainer_add_reward(trl_trainer* trainer, const char* name, trl_rollout_fn function,
                                  void* user_data, trl_destroy_fn destroy, trl_error** error) noexcept {
  return guard(error, [&, owned = UserData(user_data, destroy)]() mutable {
    if (function == nullptr) fail_null("function");
    const std::string given(text(name, "name"));
    const auto shared = get(trainer, "trainer");
    shared->add_reward(given, std::make_unique<HostFunction>(function, std::move(owned), shared.get()));
  });
}

trl_status trl_trainer_set_rollout(trl_trainer* trainer, trl_rollout_fn rollout, void* user_data,
                                   trl_destroy_fn destroy, trl_error** error) noexcept {
  return guard(error, [&, owned = UserData(user_data, destroy)]() mutable {
    if (rollout == nullptr) fail_null("rollout");
    const auto shared = get(trainer, "trainer");
    shared->set_rollout(std::make_shared<HostFunction>(rollout, std::move(owned), shared.get()));
  });
}

trl_status trl_trainer_set_tools(trl_trainer* trainer, trl_rollout_fn tools, void* user_data,
                                 trl_destroy_fn destroy, trl_error** error) noexcept {
  return guard(error, [&, owned = UserData(user_data, destroy)]() mutable {
    if (tools == nullptr) fail_null("tools");
    const auto shared = get(trainer, "trainer");
    shared->set_tools(std::make_shared<HostFunction>(tools, std::move(owned), shared.get()));
  });
}
