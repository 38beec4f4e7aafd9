// A model and a server of it in this process, on any free port.
#pragma once
#include <trl/serve.h>

#include <string>
#include <vector>

#include "support/runs.h"

namespace trl::bench {

class Served {
 public:
  // options: of the server, by key. dtype: of the weights; empty: the files'.
  Served(const std::string& model, int threads, const Json& options, const std::string& dtype = {});
  ~Served();
  Served(const Served&) = delete;
  Served& operator=(const Served&) = delete;

  trl_model* model() const { return model_; }
  trl_server* server() const { return server_; }
  int port() const { return port_; }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int64_t vocabulary() const { return vocabulary_; }

 private:
  trl_runtime* runtime_ = nullptr;
  trl_model* model_ = nullptr;
  trl_server* server_ = nullptr;
  int port_ = 0;
  int64_t vocabulary_ = 0;
};

using Prompt = std::vector<int32_t>;
// Draws so many prompts, other ones for each number.
std::vector<Prompt> random_prompts(int64_t count, int64_t tokens, int64_t vocabulary, int number);

// Bodies of /v1/completions that stream, one for each prompt.
Json stream_bodies(const std::vector<Prompt>& prompts, int64_t new_tokens);

// The reads of streams that a process of its own makes: as read_streams() says.
Json run_streams(int port, const Json& bodies);

// Completions that run in the server now.
int64_t running_in(trl_server* server);

// Returns the median and the 99th percentile, in milliseconds.
Json percentiles(const Json& seconds);

}  // namespace trl::bench
