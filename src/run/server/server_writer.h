// vllm_mode: server: completions that a vLLM server writes, or one that speaks as it does.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "config/training_arguments.h"
#include "run/complete/request_options.h"
#include "run/environment.h"
#include "run/rollout/completion_source.h"
#include "run/server/exchange.h"
#include "run/server/vllm_server.h"
#include "run/server/weights_out.h"

namespace trl::run {

class ServerWriter final : public CompletionSource {
 public:
  // The completions of a mode.
  struct Mode {
    RequestOptions request;
    size_t n = 1;        // completions of a prompt
    bool apart = false;  // RowGroups
  };

  // options, model: outlive this. vocabulary: ids of the model. Throws Error if a key is wrong or the module
  // is missing; no server is asked.
  ServerWriter(Environment& environment, const config::RunOptions& options, engine::Model& model,
               int64_t vocabulary);
  // Throws Error(invalid_config) for options that no server is asked for. mode: train or eval.
  void set(const std::string& mode, Mode how);
  void sync(int64_t step) override;
  // Finds the server, unless that is done. Throws Error(io) for kServerKey.
  void connect();
  std::vector<engine::Completion> write(const WantedCompletions& wanted) override;
  std::string_view name() const override { return "the server's completions"; }
  std::string_view key() const override { return kServerKey; }

 private:
  std::unique_ptr<WeightsOut> tensors_out();
  // Calls body, which asks the server. After an error of a server another one may answer the next time.
  template <class Body>
  auto ask(const Body& body);
  base::LogSink& log_;
  base::ThreadPool& pool_;
  engine::Model& model_;
  const config::ServerArguments& arguments_;
  const int64_t vocabulary_;
  Exchange exchange_;
  std::optional<VllmServer> server_;
  std::unique_ptr<WeightsOut> weights_;
  std::map<std::string, Mode, std::less<>> modes_;
};

}  // namespace trl::run
