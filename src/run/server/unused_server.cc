#include "run/server/unused_server.h"

#include <chrono>

namespace trl::run {

void tell_unused_server(Exchange& exchange, base::LogSink& log) {
  constexpr auto kPatience = std::chrono::seconds(1);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  std::string why;
  if (exchange.status_of("/health", &why, [end] { return std::chrono::steady_clock::now() < end; }) != 200)
    return;
  log.info(
      "server",
      "a server answers at {} and is not used: with vllm_mode: colocate, the default, the run writes its "
      "completions itself; give vllm_mode: server to have the server write them",
      exchange.url());
}

}  // namespace trl::run
