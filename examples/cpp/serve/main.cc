// Serves a model over HTTP from within a program: serve MODEL [--stay] [KEY=VALUE ...]. MODEL is a Hugging
// Face directory or a GGUF file; keys are those of the groups `serve` and `generate`. The program asks its
// own server; with --stay it then serves until Ctrl-C. The language is C++11.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>
#include <trl/serve.hpp>

namespace {

trl_server* interrupted = nullptr;  // what Ctrl-C stops

// Called on this thread, within calls of the server such as start and wait.
void on_log(std::int32_t, trl::TextView component, trl::TextView text) {
  std::cerr << component << ": " << text << "\n";
}

// Requests that run may end; a second Ctrl-C ends them.
void on_signal(int) { trl_server_cancel(interrupted); }

// The port of a running server, from its description.
int port_of(const trl::Server& server) {
  const std::string json = server.describe(), name = "\"port\":";
  return std::stoi(json.substr(json.find(name) + name.size()));
}

// Posts JSON and returns the answer, as any HTTP client does.
std::string post(int port, const std::string& path, const std::string& json) {
  const std::string request = "POST " + path +
                              " HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
                              "Content-Type: application/json\r\nContent-Length: " +
                              std::to_string(json.size()) + "\r\n\r\n" + json;
  sockaddr_in address = sockaddr_in();
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  std::string answer;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      send(connection, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    char part[4096];
    for (ssize_t size = 0; (size = recv(connection, part, sizeof part, 0)) > 0;)
      answer.append(part, static_cast<std::size_t>(size));
  }
  close(connection);
  const std::size_t head = answer.find("\r\n\r\n");
  if (head == std::string::npos) throw std::runtime_error("the server does not answer");
  return answer.substr(9, 3) + " " + answer.substr(head + 4);
}

void run(const std::string& path, bool stay, const trl::Config& config) {
  trl::Runtime runtime(config);
  runtime.set_log(on_log);
  const trl::Model model(path, config, &runtime);
  trl::Server server(config, &runtime);
  server.add_model("tiny", model);
  server.start();
  const char request[] = R"({"model": "tiny", "prompt": "The kernel", "max_tokens": 16})";
  const int port = port_of(server);
  std::cout << post(port, "/v1/completions", request) << "\n";
  server.sleep();  // the memory of keys and values goes back to the system
  std::cout << post(port, "/v1/completions", request) << "\n";
  server.wake_up();
  if (stay) {
    interrupted = server.get();
    std::signal(SIGINT, on_signal);
    server.wait();
  }
  server.stop();  // requests that run may end
  std::cout << "stopped\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: " << argv[0] << " MODEL [--stay] [KEY=VALUE ...]\n";
    return 2;
  }
  try {
    trl::Config config{{"serve.port", 0}};  // any that is free
    bool stay = false;
    for (int i = 2; i < argc; ++i) {
      const std::string argument = argv[i];
      const std::size_t equals = argument.find('=');
      if (argument == "--stay")
        stay = true;
      else if (equals != std::string::npos)
        config.set(argument.substr(0, equals), argument.substr(equals + 1));
      else
        throw std::invalid_argument("KEY=VALUE is needed, not " + argument);
    }
    run(argv[1], stay, config);
    return 0;
  } catch (const trl::Error& error) {
    std::cerr << "error " << error.status() << ": " << error.what() << "\n";
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
  }
  return 1;
}
