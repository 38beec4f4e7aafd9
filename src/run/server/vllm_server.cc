#include "run/server/vllm_server.h"

#include <algorithm>
#include <chrono>

#include "base/error.h"

namespace trl::run {

namespace {

constexpr double kAskEachSeconds = 2;
constexpr const char* kModels = "/v1/models";
constexpr const char* kInfo = "/server_info?config_format=json";

void wait_for_health(Exchange& exchange, double seconds, base::LogSink& log) {
  const auto begin = std::chrono::steady_clock::now();
  for (bool told = false;; told = true) {
    std::string why, of_old;
    const int32_t status = exchange.status_of("/health", &why);
    if (status == 200 || (status != 0 && exchange.status_of("/health/", &of_old) == 200)) return;
    if (status == 401 || status == 403)
      exchange.fail_server("/health",
                           fmt::format("it answers {}, {}; if it needs a key, give vllm_server_api_key_file",
                                       status, Exchange::shown(exchange.get("/health"))));
    if (status != 0) why = fmt::format("it answers {}", status);
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - begin;
    if (waited.count() >= seconds)
      exchange.fail_server(
          "/health", fmt::format("{}, {:g} s long (vllm_server_timeout): start the server", why, seconds));
    if (!told) log.info("server", "waiting for {}: {}", exchange.url(), why);
    wait_seconds(std::min(kAskEachSeconds, seconds - waited.count()));
  }
}

std::string model_of(const Exchange& exchange, const base::Json& models) {
  const base::Json data = models.is_object() ? models.value("data", base::Json()) : base::Json();
  if (!data.is_array() || data.empty() || !data[0].is_object() || !data[0].contains("id") ||
      !data[0]["id"].is_string())
    exchange.fail_server(kModels, "the answer names no model");
  return data[0]["id"].get<std::string>();
}

void read_ours(const base::Json& ours, VllmServer& server) {
  if (!ours.is_object()) return;
  const base::Json weights = ours.value("weights", base::Json()), user = ours.value("uid", base::Json());
  if (weights.is_array())
    for (const base::Json& way : weights)
      if (way.is_string()) server.weights.push_back(way.get<std::string>());
  if (user.is_number_integer()) server.user = user.get<int64_t>();
}

// Learns who made the server, and warns if its log-probabilities are not those that tokens were drawn by.
void read_info(Exchange& exchange, VllmServer& server, base::LogSink& log) {
  const Answer answer = exchange.get(kInfo);
  if (answer.status == 404) {
    log.warning("server",
                "{} has no {}, which says whether its log-probabilities are those that tokens were drawn by: "
                "start it with VLLM_SERVER_DEV_MODE=1 and --logprobs-mode processed_logprobs",
                exchange.url(), kInfo);
    return;
  }
  const base::Json info = exchange.json_of(kInfo, answer);
  server.ours = info.is_object() && info.contains("libtrl");
  if (server.ours) read_ours(info["libtrl"], server);
  base::Json part = info;
  for (const char* name : {"vllm_config", "model_config", "logprobs_mode"})
    part = part.is_object() ? part.value(name, base::Json()) : base::Json();
  if (part != "processed_logprobs")
    log.warning("server",
                "{} gives log-probabilities of the mode {}, which differ from those that tokens were drawn "
                "by: start it with --logprobs-mode processed_logprobs",
                exchange.url(), part.dump());
}

}  // namespace

bool VllmServer::takes(std::string_view way) const {
  return std::ranges::find(weights, way) != weights.end();
}

VllmServer find_server(Exchange& exchange, double seconds, base::LogSink& log) {
  wait_for_health(exchange, seconds, log);
  VllmServer server;
  const Answer models = exchange.get(kModels);
  if (models.status == 404) {
    server.protocol = VllmServer::Protocol::old;
    return server;
  }
  server.model = model_of(exchange, exchange.json_of(kModels, models));
  read_info(exchange, server, log);
  return server;
}

}  // namespace trl::run
