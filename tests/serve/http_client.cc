#include "http_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

namespace trl::serve::test {

namespace {

std::string small(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
  return text;
}

}  // namespace

std::string request(const std::string& method, const std::string& path, const std::string& body,
                    const std::string& fields) {
  std::string out = method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + fields;
  if (!body.empty() || method == "POST") {
    if (fields.find("Content-Type") == fields.npos) out += "Content-Type: application/json\r\n";
    out += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  }
  return out + "\r\n" + body;
}

Client::Client(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("cannot connect");
}

Client::~Client() {
  if (socket_ >= 0) ::close(socket_);
}

void Client::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

bool Client::more(double seconds) {
  pollfd waits{socket_, POLLIN, 0};
  if (::poll(&waits, 1, static_cast<int>(seconds * 1000)) <= 0) return false;
  char piece[65536];
  const ssize_t got = ::recv(socket_, piece, sizeof piece, 0);
  if (got <= 0) return false;
  bytes_.append(piece, static_cast<size_t>(got));
  return true;
}

bool Client::read_until(std::string_view text, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (bytes_.find(text) == bytes_.npos) {
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    if (left <= 0 || !more(left)) return false;
  }
  return true;
}

Response Client::read(double seconds) {
  Response out;
  if (!read_until("\r\n\r\n", seconds)) return out;
  const size_t end = bytes_.find("\r\n\r\n");
  const std::string head = bytes_.substr(0, end + 2);
  bytes_.erase(0, end + 4);
  out.status = std::atoi(head.c_str() + sizeof("HTTP/1.1"));
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t stop = head.find("\r\n", at), colon = head.find(':', at);
    if (stop == head.npos || colon > stop) break;
    out.fields[small(head.substr(at, colon - at))] = head.substr(colon + 2, stop - colon - 2);
    at = stop + 2;
  }
  if (out.fields["transfer-encoding"] == "chunked") {
    for (;;) {
      if (!read_until("\r\n", seconds)) return out;
      const size_t size = std::strtoul(bytes_.c_str(), nullptr, 16), begin = bytes_.find("\r\n") + 2;
      while (bytes_.size() < begin + size + 2)
        if (!more(seconds)) return out;
      out.body += bytes_.substr(begin, size);
      bytes_.erase(0, begin + size + 2);
      if (size == 0) return out;
    }
  }
  const size_t length = std::strtoul(out.fields["content-length"].c_str(), nullptr, 10);
  while (bytes_.size() < length)
    if (!more(seconds)) break;
  out.body = bytes_.substr(0, length);
  bytes_.erase(0, length);
  return out;
}

bool Client::closed(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  for (;;) {
    const double left = std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
    pollfd waits{socket_, POLLIN, 0};
    if (left <= 0 || ::poll(&waits, 1, static_cast<int>(left * 1000)) <= 0) return false;
    char piece[4096];
    if (::recv(socket_, piece, sizeof piece, 0) <= 0) return true;
  }
}

void Client::reset() {
  const linger at_once{1, 0};
  ::setsockopt(socket_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(socket_);
  socket_ = -1;
}

Response Client::get(const std::string& path, const std::string& fields) {
  send(request("GET", path, "", fields));
  return read();
}

Response Client::post(const std::string& path, const std::string& json, const std::string& fields) {
  send(request("POST", path, json, fields));
  return read();
}

}  // namespace trl::serve::test
