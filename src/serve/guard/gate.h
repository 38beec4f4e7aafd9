// Looks at a request before its body is read: host, key, route, type and length of the body, in this order.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "serve/guard/key.h"
#include "serve/http/message.h"
#include "serve/options.h"

namespace trl::serve {

class Gate {
 public:
  // options outlives this.
  explicit Gate(const ServerOptions& options) : options_(options), keys_(options.keys) {}
  // address: that the server listens on, if it is loopback; else empty.
  void listens_on(std::string address) { address_ = std::move(address); }
  bool has_keys() const { return keys_.any(); }
  // bytes: of the longest message with tensors.
  void takes_tensors(size_t bytes) { tensor_bytes_ = bytes; }
  // Returns how many bytes the body of a request may have.
  size_t most_bytes(const Request& head) const;
  // Returns the answer of a request that is refused, or that needs no handler (OPTIONS).
  std::optional<Answer> look(const Request& head, std::optional<uint64_t> length) const;

 private:
  const ServerOptions& options_;
  const Keys keys_;
  std::string address_;
  size_t tensor_bytes_ = 0;
};

}  // namespace trl::serve
