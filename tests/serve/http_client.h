// A client over a plain socket, which sends bytes as they are given.
#pragma once
#include <map>
#include <string>
#include <string_view>

namespace trl::serve::test {

struct Response {
  int status = 0;                             // 0: none came
  std::map<std::string, std::string> fields;  // names in small letters
  std::string body;                           // chunks joined
};

class Client {
 public:
  explicit Client(int port);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(std::string_view bytes);
  // Reads one answer, for `seconds` at most.
  Response read(double seconds = 10);
  // Reads up to a text; returns whether it came.
  bool read_until(std::string_view text, double seconds = 10);
  bool closed(double seconds = 5);                     // the server has closed it
  void reset();                                        // ends with RST
  const std::string& bytes() const { return bytes_; }  // that were read and not used

  Response get(const std::string& path, const std::string& fields = "");
  Response post(const std::string& path, const std::string& json, const std::string& fields = "");

 private:
  bool more(double seconds);
  int socket_ = -1;
  std::string bytes_;
};

// A request's bytes.
std::string request(const std::string& method, const std::string& path, const std::string& body = "",
                    const std::string& fields = "");

}  // namespace trl::serve::test
