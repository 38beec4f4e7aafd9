#include "serve/llama_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <chrono>
#include <thread>

#include "serve/client.h"
#include "support/abi.h"

namespace trl::bench {

namespace {

// A port that nobody has now.
int free_port() {
  const int out = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool found = ::bind(out, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
                     ::getsockname(out, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  ::close(out);
  if (!found) throw std::runtime_error("no free port");
  return ntohs(address.sin_port);
}

bool answers(int port) {
  try {
    const int out = connect_to(port);
    const std::string bytes = http_request("/health", "");
    char piece[256] = {};
    const bool good = ::send(out, bytes.data(), bytes.size(), MSG_NOSIGNAL) > 0 &&
                      ::recv(out, piece, sizeof piece - 1, 0) > 0 &&
                      std::string(piece).find(" 200") != std::string::npos;
    ::close(out);
    return good;
  } catch (const std::runtime_error&) {
    return false;
  }
}

}  // namespace

LlamaServer::LlamaServer(const ServeSettings& s, const Scratch& scratch) : port_(free_port()) {
  const std::string file = scratch.file("f16.gguf");
  trl_config* const config = config_of({{"convert.type", "f16"}});
  TRL_CHECK(trl_model_convert(nullptr, s.model.c_str(), file.c_str(), config, &error));
  trl_config_destroy(config);
  const int64_t room = s.streams * (s.prompt + s.new_tokens + 8);
  const std::vector<std::string> words = {s.llama,
                                          "--model",
                                          file,
                                          "--port",
                                          std::to_string(port_),
                                          "--parallel",
                                          std::to_string(s.streams),
                                          "--ctx-size",
                                          std::to_string(room),
                                          "--threads",
                                          std::to_string(s.threads),
                                          "--threads-batch",
                                          std::to_string(s.threads)};
  child_ = ::fork();
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }
  for (int i = 0; i < 600; ++i) {
    if (answers(port_)) return;
    if (::waitpid(child_, nullptr, WNOHANG) == child_) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  throw std::runtime_error(s.llama + ": the server does not answer");
}

LlamaServer::~LlamaServer() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

}  // namespace trl::bench
