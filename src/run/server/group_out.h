// Sends all weights to a vLLM server over a group of processes, as TRL 1.16 does: this process is rank 0, and
// announces each message over HTTP. Every wait has a limit.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model.h"
#include "run/server/exchange.h"
#include "run/server/weights_out.h"

namespace trl::run {

// A group of processes over which bytes go from this one to all others, such as NCCL's.
class Communicator {
 public:
  struct Group {
    std::string address;  // of this process, as the others reach it
    int64_t port = 0, size = 0;
  };
  virtual ~Communicator() = default;
  // Throw Error, at the latest when the seconds are over. join: this process is rank 0.
  virtual void join(const Group& group, double seconds) = 0;
  virtual void broadcast(std::string_view bytes, double seconds) = 0;
  virtual void close() noexcept = 0;  // any thread: a call that waits throws; join() may follow
};

class GroupOut final : public WeightsOut {
 public:
  // The arguments outlive this. group.size is found out. served: the name of the server's model. seconds:
  // vllm_server_timeout.
  GroupOut(engine::Model& model, Exchange& exchange, Communicator& communicator, Communicator::Group group,
           std::string served, double seconds);
  ~GroupOut() override { forget(); }
  // After an error the group is closed. One while tensors are sent leaves the server with some of them.
  std::string send(int64_t step) override;
  void forget() override;

 private:
  void together(std::string_view path, const base::Json& body, const std::function<void()>& own);
  void post(std::string_view path, const base::Json& body);
  void join();
  void send_all();

  engine::Model& model_;
  Exchange& exchange_;
  Communicator& communicator_;
  Communicator::Group group_;
  const std::string served_;
  const double seconds_;
  bool joined_ = false;
  std::optional<int64_t> sent_;  // the step whose weights the server has
};

}  // namespace trl::run
