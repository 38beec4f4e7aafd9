// The prompts of a generation and how tokens are chosen, as the body of a request for completions.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "engine/rollout.h"
#include "run/complete/request_options.h"
#include "run/server/vllm_server.h"

namespace trl::run {

// Rows with the same prompt, of which a server gets one. The row of completion j of prompt i is i * n + j, or
// i + j * prompts if they are apart.
struct RowGroups {
  size_t prompts = 0, n = 1;
  bool apart = false;

  size_t row(size_t prompt, size_t completion) const {
    return apart ? prompt + completion * prompts : prompt * n + completion;
  }
};

// Returns the groups of n rows if the prompts have such, else those of one row each.
RowGroups groups_of_rows(const engine::PromptRows& prompts, size_t n, bool apart);

// Throws Error(invalid_config) for options that no server is asked for.
void check_request(const RequestOptions& request);

// All that a request for completions says. groups: of the prompts.
struct CompletionRequest {
  const VllmServer& server;
  const RequestOptions& options;
  const engine::PromptRows& prompts;
  RowGroups groups;
  std::string_view model;     // that completes: the server's, or an adapter
  uint64_t first_stream = 0;  // of draws, for a server of ours
  int64_t vocabulary = 0;     // ids of the model

  // The prompts as they are asked for. A server of ours draws completion j of prompt i with the stream
  // first_stream + i * n + j, so there rows that are apart are prompts of their own.
  RowGroups asked() const { return server.ours && groups.apart ? RowGroups{prompts.ids.size()} : groups; }
  // Greedy completions of a prompt are equal: one of them is asked for.
  size_t count() const { return options.sampling.temperature == 0 ? 1 : asked().n; }
  const char* path() const;
  base::Json body() const;
};

}  // namespace trl::run
