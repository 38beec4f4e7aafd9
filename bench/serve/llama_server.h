// llama.cpp's server as a child, on float16 weights.
#pragma once
#include <sys/types.h>

#include "serve/settings.h"
#include "support/scratch.h"

namespace trl::bench {

class LlamaServer {
 public:
  // Converts the model, starts the server and waits until it answers. Throws.
  LlamaServer(const ServeSettings& s, const Scratch& scratch);
  ~LlamaServer();
  LlamaServer(const LlamaServer&) = delete;
  LlamaServer& operator=(const LlamaServer&) = delete;
  int port() const { return port_; }

 private:
  int port_ = 0;
  pid_t child_ = -1;
};

}  // namespace trl::bench
