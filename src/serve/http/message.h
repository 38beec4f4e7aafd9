// A request and an answer as plain values: what the routes see of HTTP.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trl::serve {

using HeaderFields = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method, path, query;  // path: decoded; query: as it came, without the question mark
  HeaderFields fields;              // names in small letters
  std::string body;
  std::string peer;                       // its address, without the port
  std::shared_ptr<const void> held;       // is the request's until its answer is made
  std::shared_ptr<const void> body_held;  // counts the body while it is there

  std::string_view field(std::string_view name) const;                       // empty: not there
  std::vector<std::string> parameters(std::string_view name) const;          // decoded values of the query
  std::string parameter(std::string_view name, std::string fallback) const;  // the last one
};

struct Answer {
  int status = 200;
  std::string body{};
  std::string type = "application/json";
  HeaderFields fields{};
};

// Decodes %XX, and with plus_is_space "+". A % without two digits stays.
std::string decode_url(std::string_view text, bool plus_is_space);

}  // namespace trl::serve
