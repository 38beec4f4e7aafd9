#include "serve/routes.h"

#include <fmt/format.h>

#include "serve/api/adapters.h"
#include "serve/api/chat.h"
#include "serve/api/completions.h"
#include "serve/api/metrics.h"
#include "serve/api/models.h"
#include "serve/api/sleep.h"
#include "serve/api/state.h"
#include "serve/api/tokenize.h"
#include "serve/api/trl_generate.h"
#include "serve/api/trl_logprobs.h"
#include "serve/api/weights.h"

namespace trl::serve {

namespace {

constexpr Route kRoutes[] = {
    {"GET", "/health", health},
    {"GET", "/health/", old_health},
    {"GET", "/version", version},
    {"GET", "/server_info", server_info},
    {"GET", "/get_world_size", world_size},
    {"GET", "/get_world_size/", world_size},
    {"GET", "/get_tensor_parallel_size/", tensor_parallel_size},
    {"POST", "/reset_prefix_cache", reset_prefix_cache},
    {"POST", "/reset_prefix_cache/", old_reset_prefix_cache},
    {"GET", "/metrics", metrics},
    {"GET", "/v1/models", models},
    {"GET", "/v1/models/*", one_model},
    {"POST", "/v1/completions", completions},
    {"POST", "/v1/chat/completions", chat_completions},
    {"POST", "/tokenize", tokenize},
    {"POST", "/detokenize", detokenize},
    {"POST", "/generate/", trl_generate, old_answer_of},
    {"POST", "/chat/", trl_chat, old_answer_of},
    {"POST", "/get_sequence_logprobs/", trl_sequence_logprobs, old_answer_of},
    {"POST", "/v1/load_lora_adapter", load_lora_adapter},
    {"POST", "/v1/unload_lora_adapter", unload_lora_adapter},
    {"POST", "/sleep", sleep_model},
    {"POST", "/wake_up", wake_up_model},
    {"GET", "/is_sleeping", is_sleeping},
    {"GET", "/trl/weights", list_weights},
    {"POST", "/trl/weights", replace_weights, answer_of, BodyForm::tensors, claim_weights},
    {"POST", "/init_weight_transfer_engine", refuse_group},
    {"POST", "/start_weight_update", refuse_group},
    {"POST", "/update_weights", refuse_group},
    {"POST", "/finish_weight_update", refuse_group},
    {"POST", "/init_communicator/", refuse_group},
    {"POST", "/update_named_param/", refuse_group},
    {"POST", "/close_communicator/", refuse_group},
    {"POST", "/trl/weights/shared", share_weights},
    {"POST", "/trl/weights/commit", commit_weights},
};

// Paths of OpenAI's and vLLM's servers that this one does not have.
constexpr std::string_view kOthers[] = {"/v1/embeddings",
                                        "/v1/responses",
                                        "/v1/audio/transcriptions",
                                        "/v1/audio/translations",
                                        "/v1/rerank",
                                        "/v1/score",
                                        "/score",
                                        "/rerank",
                                        "/pooling",
                                        "/classify",
                                        "/v1/messages",
                                        "/pause",
                                        "/resume",
                                        "/is_paused",
                                        "/abort_requests"};

bool same_but_slash(std::string_view a, std::string_view b) {
  if (a.ends_with('*')) return b.size() >= a.size() && b.starts_with(a.substr(0, a.size() - 1));
  const auto plain = [](std::string_view path) {
    return path.size() > 1 && path.ends_with('/') ? path.substr(0, path.size() - 1) : path;
  };
  return plain(a) == plain(b);
}

// Returns whether the path is one of the table as it is written.
bool is_exact(std::string_view path) {
  for (const Route& route : kRoutes)
    if (route.path == path) return true;
  return false;
}

}  // namespace

std::span<const Route> routes() { return kRoutes; }

const Route& find_route(std::string_view method, std::string_view path, std::string& allow) {
  const bool exact = is_exact(path);
  for (const Route& route : kRoutes) {
    if (exact ? route.path != path : !same_but_slash(route.path, path)) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) return route;
    if (allow.find(route.method) == allow.npos)
      allow += (allow.empty() ? "" : ", ") + std::string(route.method);
  }
  if (!allow.empty()) throw Refusal(405, fmt::format("{}: {} is not allowed; use {}", path, method, allow));
  for (const std::string_view other : kOthers)
    if (same_but_slash(other, path))
      throw Refusal(501, fmt::format("{}: this version of the server does not have it", path));
  throw Refusal(
      404,
      fmt::format("{}: there is no such path; /v1/models, /v1/completions, /health and others are", path));
}

}  // namespace trl::serve
