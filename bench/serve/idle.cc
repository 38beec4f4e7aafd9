#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "serve/client.h"
#include "serve/parts.h"
#include "serve/served.h"

namespace trl::bench {

namespace {

constexpr double kMostIdle = 20e6;  // bytes of 1,000 connections

// A bare answer of /health on an open connection.
void ask_health(int connection) {
  const std::string bytes = http_request("/health", "");
  char piece[512];
  pollfd wait{connection, POLLIN, 0};
  if (::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL) <= 0 || ::poll(&wait, 1, 10000) <= 0 ||
      ::recv(connection, piece, sizeof piece, 0) <= 0)
    throw std::runtime_error("idle: a connection is not answered");
}

void allow_descriptors(int64_t count) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = std::min(limit.rlim_max, std::max(limit.rlim_cur, static_cast<rlim_t>(count)));
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

// The clients are sockets of this process: all that they keep is a number each.
bool measure_idle(const ServeSettings& s, const Scratch&) {
  allow_descriptors(2 * s.connections + 100);
  const Served served(s.model, s.threads, Json::object());
  run_streams(served.port(), stream_bodies(random_prompts(1, 8, served.vocabulary(), 1), 2));
  std::vector<int> connections(static_cast<size_t>(s.connections));
  ask_health(connections[0] = connect_to(served.port()));
  ::close(connections[0]);
  const long before = status_bytes("VmRSS");
  for (int& connection : connections) connection = connect_to(served.port());
  ask_health(connections.back());  // so that all are accepted
  const long opened = status_bytes("VmRSS") - before;
  for (const int connection : connections) ask_health(connection);
  const long asked = status_bytes("VmRSS") - before;
  for (const int connection : connections) ::close(connection);
  const double most = static_cast<double>(std::max(opened, asked));
  print({{"bench", "idle"},
         {"connections", s.connections},
         {"bytes_opened", opened},
         {"bytes_after_a_request_each", asked},
         {"bytes_of_one", most / static_cast<double>(s.connections)}});
  return most * 1000 / static_cast<double>(s.connections) < kMostIdle;
}

}  // namespace trl::bench
