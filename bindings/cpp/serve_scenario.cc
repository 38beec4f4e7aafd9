// The scenario of bindings/serve_scenario.json in C++11: serve_scenario SCENARIO MODEL ADAPTER.
// bindings/README.md says what it does and prints; every language prints the same text.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <trl/serve.hpp>
#include <utility>

namespace {

using Json = nlohmann::json;

// Sends a request to a port of this machine, and returns all that comes until the connection is closed.
std::string exchange(int port, const std::string& request) {
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = sockaddr_in();
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      send(connection, request.data(), request.size(), MSG_NOSIGNAL) ==
          static_cast<ssize_t>(request.size())) {
    char part[4096];
    for (ssize_t size = 0; (size = recv(connection, part, sizeof part, 0)) > 0;)
      answer.append(part, static_cast<std::size_t>(size));
  }
  close(connection);
  return answer;
}

trl::Config config_of(const Json& keys) {
  trl::Config config;
  for (const auto& item : keys.items()) config.set(item.key(), item.value().get<std::string>());
  return config;
}

class Host {
  const Json& scenario_;
  std::string log_;
  trl::Runtime runtime_;

 public:
  trl::Server server;

  Host(const Json& scenario, const std::string& model)
      : scenario_(scenario), server(config_of(scenario.at("options")), &runtime_) {
    runtime_.set_log([this](std::int32_t, trl::TextView, const std::string& text) { log_ += text + "\n"; });
    server.add_model(text("model"), trl::Model(model, {}, &runtime_));
  }

  std::string text(const char* name) const { return scenario_.at(name).get<std::string>(); }
  Json described() const { return Json::parse(server.describe()); }
  Json served() const { return described().at("models").at(0); }
  void print_state() const { std::printf("server %s\n", described().at("state").get<std::string>().c_str()); }
  void print_model() const { std::printf("model %s\n", served().at("state").get<std::string>().c_str()); }

  // The status and the JSON of an answer.
  std::pair<int, Json> request(const std::string& method, const std::string& path,
                               const std::string& body) const {
    const Json at = described();
    const std::string answer =
        exchange(at.at("port").get<int>(),
                 method + " " + path + " HTTP/1.1\r\nHost: " + at.at("address").get<std::string>() +
                     "\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " +
                     std::to_string(body.size()) + "\r\n\r\n" + body);
    const std::size_t head = answer.find("\r\n\r\n");
    if (head == std::string::npos) throw std::runtime_error("the server has not answered");
    return {std::stoi(answer.substr(9, 3)), Json::parse(answer.substr(head + 4))};
  }
  void complete(const char* name) const {
    const std::pair<int, Json> answer = request("POST", "/v1/completions", text(name));
    const Json& said = answer.first == 200 ? answer.second.at("choices").at(0).at("text")
                                           : answer.second.at("error").at("type");
    std::printf("completion %d %s\n", answer.first, said.get<std::string>().c_str());
  }
  void start() {
    log_.clear();
    server.start();
    const std::string address = described().at("address").get<std::string>();
    std::printf("log %d\n", log_.find(address) != std::string::npos);
    print_state();
  }
};

void adapters(Host& host, const std::string& path) {
  host.server.set_adapter(host.text("adapter"), path);
  const Json served = host.served();
  for (const Json& adapter : served.at("adapters"))
    std::printf("adapter %s version %d\n", adapter.at("name").get<std::string>().c_str(),
                adapter.at("version").get<int>());
  host.complete("adapted_request");
  host.server.set_adapter(host.text("adapter"), nullptr);
  std::printf("adapters %d\n", static_cast<int>(host.served().at("adapters").size()));
  host.complete("adapted_request");
}

void sleep(Host& host) {
  host.server.sleep();
  host.print_model();
  host.complete("request");
  host.server.wake_up();
  host.print_model();
  host.complete("request");
}

void run(const Json& scenario, const std::string& model, const std::string& adapter) {
  try {
    const trl::Server refused({{scenario.at("refused_key").get<std::string>().c_str(),
                                scenario.at("refused_value").get<std::string>()}});
  } catch (const trl::Error& error) {
    std::printf("refused %s status %d\n", error.key().c_str(), error.status());
  }

  Host host(scenario, model);
  try {
    host.server.add_model(host.text("model"), trl::Model(model));
  } catch (const trl::Error& error) {
    std::printf("added twice, status %d\n", error.status());
  }
  host.print_state();
  host.start();
  std::printf("stopped %d\n", host.server.wait(0));

  const std::pair<int, Json> models = host.request("GET", "/v1/models", "");
  std::printf("models %d %s\n", models.first,
              models.second.at("data").at(0).at("id").get<std::string>().c_str());
  host.complete("request");
  adapters(host, adapter);
  try {
    host.server.set_adapter(host.text("adapter"), model);
  } catch (const trl::Error& error) {
    std::printf("no adapter, status %d\n", error.status());
  }
  sleep(host);
  std::printf("requests %d\n", host.served().at("requests").get<int>());

  host.server.cancel();
  std::printf("stopped %d\n", host.server.wait());
  host.print_state();
  host.start();
  host.server.stop(0);
  host.print_state();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    std::ifstream file(argv[1]);
    run(Json::parse(file), argv[2], argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
