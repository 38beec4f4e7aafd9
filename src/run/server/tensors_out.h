// The tensors of a run go to a server of this library: those that differ from its own, in one message.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/threads/thread_pool.h"
#include "engine/model.h"
#include "run/server/exchange.h"
#include "run/server/message_memory.h"
#include "run/server/weights_out.h"

namespace trl::run {

class TensorsOut final : public WeightsOut {
 public:
  // The arguments outlive this. memory: where messages are written. served: the name of the server's model.
  TensorsOut(engine::Model& model, Exchange& exchange, base::ThreadPool& pool, base::LogSink& log,
             std::unique_ptr<MessageMemory> memory, std::string served);
  ~TensorsOut() override;
  std::string send(int64_t step) override;
  void forget() override;

 private:
  struct Tensor;  // of the server
  bool send_changed(int64_t step);
  std::vector<Tensor> tensors_of_server(int64_t* version);
  void compare(std::vector<Tensor>& tensors);
  void write(std::vector<Tensor*>& tensors, char* message);

  engine::Model& model_;
  Exchange& exchange_;
  base::ThreadPool& pool_;
  base::LogSink& log_;
  const std::unique_ptr<MessageMemory> memory_;
  const std::string served_;
  std::optional<int64_t> sent_;     // the step whose weights the server has
  std::set<std::string> changing_;  // tensors that differed the last time
};

}  // namespace trl::run
