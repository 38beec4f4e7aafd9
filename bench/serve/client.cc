#include "serve/client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <string_view>

namespace trl::bench {

namespace {

class Stream {
 public:
  Stream(int port, const std::string& path, const std::string& body)
      : socket_(connect_to(port)), request_(http_request(path, body)) {}
  ~Stream() { ::close(socket_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void send() {
    for (size_t sent = 0; sent < request_.size();) {
      const ssize_t got = ::send(socket_, request_.data() + sent, request_.size() - sent, MSG_NOSIGNAL);
      if (got <= 0) throw std::runtime_error("a request cannot be sent");
      sent += static_cast<size_t>(got);
    }
  }
  int socket() const { return socket_; }
  bool done() const { return done_; }

  // Reads what is there.
  void read() {
    char piece[65536];
    const ssize_t got = ::recv(socket_, piece, sizeof piece, 0);
    if (got <= 0) throw std::runtime_error("a stream ended early: " + bytes_);
    time_ = now();
    bytes_.append(piece, static_cast<size_t>(got));
    if (!begun_) read_head();
    if (begun_) read_chunks();
  }

  std::vector<double> times;  // of the events with tokens
  int64_t tokens = 0;         // as the server tells

 private:
  void read_head() {
    const size_t end = bytes_.find("\r\n\r\n");
    if (end == bytes_.npos) return;
    if (bytes_.find(" 200 ") > bytes_.find("\r\n")) throw std::runtime_error("not answered: " + bytes_);
    bytes_.erase(0, end + 4);
    begun_ = true;
  }

  void read_chunks() {
    for (;;) {
      const size_t line = bytes_.find("\r\n");
      if (line == bytes_.npos) return;
      const size_t size = std::strtoul(bytes_.c_str(), nullptr, 16), begin = line + 2;
      if (bytes_.size() < begin + size + 2) return;
      events_.append(bytes_, begin, size);
      bytes_.erase(0, begin + size + 2);
      if (size == 0) done_ = true;
      for (size_t end; (end = events_.find("\n\n")) != events_.npos;) {
        read_event(std::string_view(events_).substr(0, end));
        events_.erase(0, end + 2);
      }
    }
  }

  void read_event(std::string_view event) {
    if (event.find("\"error\"") != event.npos) throw std::runtime_error(std::string(event));
    const size_t usage = event.find("\"completion_tokens\":");
    if (usage != event.npos) tokens = std::strtol(event.data() + usage + 20, nullptr, 10);
    if (event.find("\"choices\":[{") != event.npos) times.push_back(time_);
  }

  const int socket_;
  const std::string request_;
  std::string bytes_, events_;
  bool begun_ = false, done_ = false;
  double time_ = 0;
};

}  // namespace

int connect_to(int port) {
  const int out = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (out < 0 || ::connect(out, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    if (out >= 0) ::close(out);
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
  }
  const int one = 1;
  ::setsockopt(out, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return out;
}

std::string http_request(const std::string& path, const std::string& json) {
  const std::string first = json.empty() ? "GET " : "POST ";
  std::string head = first + path + " HTTP/1.1\r\nHost: localhost\r\n";
  if (!json.empty())
    head += "Content-Type: application/json\r\nContent-Length: " + std::to_string(json.size()) + "\r\n";
  return head + "\r\n" + json;
}

std::string get_body(int port, const std::string& path) {
  const std::string head = http_request(path, "");
  const std::string request = head.substr(0, head.size() - 2) + "Connection: close\r\n\r\n";
  const int connection = connect_to(port);
  std::string answer;
  char piece[65536];
  ssize_t got = ::send(connection, request.data(), request.size(), MSG_NOSIGNAL);
  while (got > 0 && (got = ::recv(connection, piece, sizeof piece, 0)) > 0)
    answer.append(piece, static_cast<size_t>(got));
  ::close(connection);
  const size_t end = answer.find("\r\n\r\n");
  if (!answer.starts_with("HTTP/1.1 200 ") || end == answer.npos)
    throw std::runtime_error(path + ": " + answer);
  return answer.substr(end + 4);
}

Json read_streams(const Json& work) {
  std::vector<std::unique_ptr<Stream>> streams;
  for (const Json& body : work.at("bodies"))
    streams.push_back(std::make_unique<Stream>(work.at("port"), work.at("path"), body.dump()));
  const double begin = now();
  for (const auto& stream : streams) stream->send();
  for (;;) {
    std::vector<pollfd> waits;
    for (const auto& stream : streams) waits.push_back({stream->done() ? -1 : stream->socket(), POLLIN, 0});
    const auto open = [](const pollfd& one) { return one.fd >= 0; };
    if (std::none_of(waits.begin(), waits.end(), open)) break;
    if (::poll(waits.data(), waits.size(), 600000) <= 0) throw std::runtime_error("no answer");
    for (size_t i = 0; i < streams.size(); ++i)
      if (waits[i].revents != 0) streams[i]->read();
  }
  const double end = now();
  std::vector<double> first, between;
  int64_t tokens = 0, events = 0;
  for (const auto& stream : streams) {
    const std::vector<double>& times = stream->times;
    events += static_cast<int64_t>(times.size());
    tokens += stream->tokens > 0 ? stream->tokens : static_cast<int64_t>(times.size());
    if (!times.empty()) first.push_back(times[0] - begin);
    for (size_t i = 1; i < times.size(); ++i) between.push_back(times[i] - times[i - 1]);
  }
  return {{"seconds", end - begin},
          {"tokens", tokens},
          {"events", events},
          {"first", first},
          {"between", between}};
}

}  // namespace trl::bench
