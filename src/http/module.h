// The interface of the private module libtrl_http.so: requests over HTTP by libcurl, which a program that
// asks no server never loads, behind a plain C interface.
#pragma once
#include <cstddef>
#include <cstdint>

namespace trl::http {

inline constexpr const char* kModuleFile = "libtrl_http.so";
inline constexpr const char* kEntryName = "trl_http_module";
inline constexpr int32_t kModuleVersion = 2;

// How a request ended. answered: with whatever status. unreached: no connection was made. broken: it ended
// before the whole answer had come. stopped: Reply::goes_on said so. unusable: the address is none, or
// libcurl failed. too_large: the body has more bytes than are wanted.
enum class Outcome : int32_t { answered, unreached, broken, stopped, unusable, too_large };

struct Request {
  const char* method;          // GET or POST
  const char* url;             // http:// or https://
  const char* const* headers;  // "Name: value"
  size_t header_count;
  const char* body;  // of POST
  size_t body_size;
  int32_t connect_milliseconds;  // to make the connection; an answer may take any time
  size_t most_bytes;             // of the answer's body
};

struct Reply {
  void* to;
  void (*put)(void* to, const char* bytes, size_t size);  // the next bytes of the body
  bool (*goes_on)(void* to);  // asked several times a second; it may wait. false: the request ends
  void (*fail)(void* to, const char* text, size_t size);  // the reason of another outcome than answered
};

// concurrent. No proxy, no redirect, nothing of the environment is used.
struct Module {
  int32_t version;
  Outcome (*exchange)(const Request* request, const Reply* reply, int32_t* status);
};

}  // namespace trl::http
