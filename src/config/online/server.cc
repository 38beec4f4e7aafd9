// vllm_mode: server.
#include "base/error.h"
#include "base/files/host_files.h"
#include "config/online/parts.h"
#include "config/sizes_and_paths.h"

namespace trl::config {

namespace {

constexpr const char *kUrl = "vllm_server_base_url", *kWeights = "vllm_server_weights";

ServerWeights weights_of(const Config& config) {
  const std::string way = config.get(kWeights);
  if (way == "none") return ServerWeights::none;
  if (way == "nccl")
    fail_key(kWeights, "{}: nccl is refused: this build has no NCCL: give adapter with use_peft, or tensors",
             kWeights);
  const bool adapter = config.get_bool("use_peft");
  if (way == "adapter" && !adapter)
    fail_key(kWeights, "{}: adapter is refused without use_peft: give use_peft: true, or tensors", kWeights);
  if (way == "tensors" && adapter)
    fail_key(kWeights, "{}: tensors is refused with use_peft, which trains an adapter: give adapter",
             kWeights);
  return adapter ? ServerWeights::adapter : ServerWeights::tensors;
}

// Refuses what a server cannot do, or this build does not ask it for.
void refuse_beside_server(const Config& config, const OnlineArguments& out) {
  const auto refuse = [&](const char* key, const char* why) {
    fail_key(key, "{}: {} is refused with vllm_mode: server: {}", key, config.get(key), why);
  };
  if (!out.replay_rollouts.empty()) refuse("replay_rollouts", "completions come from one of both");
  if (config.get_bool("generation_exact")) refuse("generation_exact", "a server gives no entropies");
  if (out.tools.empty()) return;
  const char* const tools = config.is_set("tools") ? "tools" : "environments";
  fail_key(tools,
           "{}: refused with vllm_mode: server, which this build asks for one turn of a completion: give "
           "vllm_mode: colocate",
           tools);
}

}  // namespace

std::string server_url(const Config& config) {
  const std::optional<std::string> given = config.get_text(kUrl);
  std::string url =
      given.value_or("http://" + config.get("vllm_server_host") + ":" + config.get("vllm_server_port"));
  if (!url.starts_with("http://") && !url.starts_with("https://"))
    fail_key(kUrl, "{}: '{}' is not accepted: give a URL of http or https", kUrl, url);
  while (url.ends_with('/')) url.pop_back();
  return url;
}

void read_online_server(const Config& config, OnlineArguments& out) {
  if (!out.use_vllm || config.get("vllm_mode") != "server") return;
  ServerArguments& server = out.server.emplace();
  server.url = server_url(config);
  server.timeout = config.get_double("vllm_server_timeout");
  server.weights = weights_of(config);
  server.adapter_dir = directory(config, "vllm_server_adapter_dir", "");
  server.api_key_file = directory(config, "vllm_server_api_key_file", "");
  refuse_beside_server(config, out);
  const std::string folder =
      server.adapter_dir.empty() ? config.get_text("output_dir").value_or("") : server.adapter_dir;
  if (server.weights == ServerWeights::adapter && base::is_host_path(folder))
    fail_key("vllm_server_adapter_dir",
             "vllm_server_adapter_dir: {} is the host's own: give a folder that the server sees", folder);
}

}  // namespace trl::config
