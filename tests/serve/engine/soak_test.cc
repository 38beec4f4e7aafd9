// Requests of all kinds by a seed, from clients that leave, stumble and come back: each is answered or was
// left by its client, and nothing stays behind. TRL_TEST_REQUESTS says how many.
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>

#include "open_model.h"
#include "support/resident.h"

namespace trl::serve::test {
namespace {

using namespace std::chrono_literals;

constexpr int kClients = 4;
constexpr int64_t kMostGrowth = 4 << 20;  // bytes after the first tenth, a quarter of them keys and values
const std::string kAdapters = TRL_SOURCE_DIR "/tests/golden/trajectories/sft_lora";

struct Counts {
  std::atomic<int> answered{0}, left{0}, lost{0};
  std::mutex mutex;
  std::string first_lost;  // of a request, and what came
};

// One client: it keeps its connection until it leaves or loses it.
class Visitor {
 public:
  Visitor(int port, int seed, Counts& counts) : port_(port), random_(seed), counts_(counts) {}

  void ask_once() {
    if (!client_ || below(20) == 0) client_ = std::make_unique<Client>(port_);
    static constexpr void (Visitor::*kKinds[])() = {
        &Visitor::whole,    &Visitor::whole, &Visitor::stream,    &Visitor::stream, &Visitor::chat,
        &Visitor::chat,     &Visitor::old,   &Visitor::bad,       &Visitor::bytes,  &Visitor::texts,
        &Visitor::adapters, &Visitor::state, &Visitor::leave,     &Visitor::leave,  &Visitor::stumble,
        &Visitor::slow,     &Visitor::two,   &Visitor::sleep_once};
    (this->*kKinds[below(std::size(kKinds))])();
  }

 private:
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }
  bool one_in(size_t times) { return below(times) == 0; }

  // Fields of a completion.
  Json fields() {
    Json body = {{"max_tokens", 1 + below(24)}, {"ignore_eos", one_in(2)}};
    if (one_in(2)) body["temperature"] = static_cast<double>(below(3)) / 2;
    if (one_in(3)) body["n"] = 1 + below(4);
    if (one_in(3)) body["seed"] = below(1000);
    if (one_in(4)) body["stop"] = {"e", "the"};
    if (one_in(4)) body["top_p"] = 0.9;
    if (one_in(4)) body["presence_penalty"] = 0.5;
    if (one_in(5)) body["logit_bias"] = {{"5", 3}};
    if (one_in(4)) body["return_token_ids"] = true;
    if (one_in(4)) body["model"] = fmt::format("adapter-{}", below(3));
    return body;
  }
  Json completion() {
    Json body = fields();
    body["prompt"] = one_in(2) ? Json(fmt::format("It opens {}", below(50)))
                               : Json::array({Json::array({3, 4, below(400)}), Json::array({7})});
    if (one_in(3)) body["logprobs"] = below(4);
    return body;
  }
  Json conversation() {
    Json body = fields();
    body["messages"] = Json::array({{{"role", "user"}, {"content", fmt::format("Say {}", below(50))}}});
    if (one_in(3)) body["tools"] = Json::parse(R"([{"type": "function", "function": {"name": "f"}}])");
    if (one_in(3)) body.update({{"logprobs", true}, {"top_logprobs", below(3)}});
    return body;
  }

  // Counts an answer; good: what is accepted besides 200. An adapter may be gone, the model asleep.
  void count(const Response& response, const std::string& sent, std::initializer_list<int> good) {
    const bool known = response.status == 200 || std::ranges::find(good, response.status) != good.end();
    const auto encoding = response.fields.find("transfer-encoding");
    const bool stream = encoding != response.fields.end() && encoding->second == "chunked";
    const bool whole = !stream || response.body.ends_with("data: [DONE]\n\n");
    if (known && whole) {
      ++counts_.answered;
      if (response.fields.contains("connection")) client_.reset();
      return;
    }
    client_.reset();
    const std::lock_guard lock(counts_.mutex);
    if (counts_.lost++ == 0)
      counts_.first_lost = fmt::format("{}\n{} {}", sent, response.status, response.body);
  }
  void ask(const std::string& bytes, std::initializer_list<int> good) {
    client_->send(bytes);
    count(client_->read(60), bytes, good);
  }
  void post(const std::string& path, const Json& body, std::initializer_list<int> good = {404, 503}) {
    ask(request("POST", path, body.dump()), good);
  }

  void whole() { post("/v1/completions", completion()); }
  void stream() {
    Json body = completion();
    body["stream"] = true;
    if (one_in(2)) body["stream_options"] = {{"include_usage", true}};
    post("/v1/completions", body);
  }
  void chat() {
    Json body = conversation();
    body["stream"] = one_in(2);
    post("/v1/chat/completions", body);
  }
  void old() {
    Json body = {{"n", 1 + below(3)}, {"max_tokens", 1 + below(8)}};
    if (one_in(2)) body["logprobs"] = nullptr;
    if (one_in(2)) {
      body["prompts"] = {"It opens", "at noon"};
      post("/generate/", body);
    } else {
      body["messages"] = Json::array({Json::array({{{"role", "user"}, {"content", "Hi"}}})});
      post("/chat/", body);
    }
  }
  void bad() {
    static constexpr const char* kBodies[] = {"",
                                              "{",
                                              "[]",
                                              "null",
                                              R"({"prompt": "a", "n": 0})",
                                              R"({"prompt": [1, -2]})",
                                              R"({"prompt": "a"} x)",
                                              R"({"prompt": "a", "max_tokens": 100000})",
                                              R"({"prompt": [100000], "stream": true})",
                                              R"({"prompt": "a", "stop": [""]})",
                                              R"({"prompt": "a", "logit_bias": {"a": 1}})",
                                              "\xff\xfe"};
    ask(request("POST", "/v1/completions", kBodies[below(std::size(kBodies))]), {400, 503});
  }
  // What is not HTTP is refused and closed.
  void bytes() {
    static constexpr const char* kBytes[] = {"nonsense\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
                                             "GET /health HTTP/1.1\r\nHost: evil.example\r\n\r\n",
                                             "POST /tokenize HTTP/1.1\r\nContent-Length: x\r\n\r\n"};
    ask(kBytes[below(std::size(kBytes))], {400, 403, 505});
    client_.reset();
  }
  void texts() {
    if (one_in(2))
      post("/tokenize", {{"prompt", "It opens at noon"}});
    else
      post("/detokenize", {{"tokens", {3, 4, 5}}});
  }
  void adapters() {
    const std::string name = fmt::format("adapter-{}", below(3));
    if (one_in(3))
      post("/v1/unload_lora_adapter", {{"lora_name", name}});
    else
      post("/v1/load_lora_adapter",
           {{"lora_name", name},
            {"lora_path", one_in(2) ? "adapter_final" : "adapter_init"},
            {"load_inplace", true}},
           {400, 503});
  }
  void state() {
    static constexpr const char* kPaths[] = {"/metrics", "/health", "/v1/models", "/server_info", "/nowhere"};
    if (one_in(6))
      post("/reset_prefix_cache", Json::object());
    else
      ask(request("GET", kPaths[below(std::size(kPaths))]), {404});
  }
  // Goes while a request runs, at any point of its answer.
  void leave() {
    Json body = completion();
    body["max_tokens"] = 100;
    body["stream"] = one_in(2);
    client_->send(request("POST", "/v1/completions", body.dump()));
    client_->read_until(std::string(1, static_cast<char>('a' + below(26))),
                        static_cast<double>(below(3)) / 100);
    drop();
  }
  // Sends a part of a request.
  void stumble() {
    const std::string bytes = request("POST", "/v1/completions", completion().dump());
    client_->send(bytes.substr(0, 1 + below(bytes.size() - 1)));
    drop();
  }
  void drop() {
    if (one_in(2)) client_->reset();
    client_.reset();
    ++counts_.left;
  }
  void slow() {
    Json body = completion();
    body["stream"] = true;
    const std::string bytes = request("POST", "/v1/completions", body.dump());
    client_->send(bytes);
    for (int i = 0; i < 3; ++i) {
      client_->read_until(fmt::format("\"index\":{}", i), 0.005);
      std::this_thread::sleep_for(5ms);
    }
    count(client_->read(60), bytes, {404, 503});
  }
  // The second one comes before the first is answered.
  void two() {
    const std::string bytes = request("POST", "/v1/completions", completion().dump());
    client_->send(bytes + request("GET", "/health"));
    count(client_->read(60), bytes, {404, 503});
    if (client_) count(client_->read(60), "GET /health", {});
  }
  void sleep_once() {
    if (!one_in(4)) return whole();
    static constexpr const char* kModes[] = {"abort", "wait", "keep"};
    post(fmt::format("/sleep?level=1&mode={}", kModes[below(3)]), Json::object(),
         {409, 503});  // another call waits for requests to end
    if (client_) post("/wake_up", Json::object());
  }

  const int port_;
  std::mt19937_64 random_;
  Counts& counts_;
  std::unique_ptr<Client> client_;
};

void ask_all(int port, int first_seed, int count, Counts& counts) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kClients; ++i)
    threads.emplace_back([=, &counts] {
      Visitor visitor(port, first_seed + i, counts);
      for (int j = i; j < count; j += kClients) visitor.ask_once();
    });
  for (std::thread& thread : threads) thread.join();
}

// Bytes of this process without what was freed.
int64_t resident_now() {
  ::malloc_trim(0);
  return ::trl::test::resident("VmRSS");
}

// The value of a line of /metrics.
double metric(RunningServer& server, const std::string& name) {
  const std::string text = server.get("/metrics").body;
  const size_t line = text.find("\n" + name);
  return line == text.npos ? -1 : std::strtod(text.c_str() + text.find(' ', line), nullptr);
}

TEST(Soak, RequestsOfAllKindsLeaveNothingBehind) {
  const char* const variable = std::getenv("TRL_TEST_REQUESTS");
  const int count = variable == nullptr ? 300 : std::atoi(variable);
  // Just enough keys and values for all completions that may run, so that a block that is lost is missed.
  OpenModel model({{"kv_cache_memory", "1MiB"}});
  RunningServer server({{"serve.enable_lora", "true"},
                        {"serve.enable_sleep_mode", "true"},
                        {"serve.adapter_dir", kAdapters.c_str()},
                        {"serve.max_num_seqs", "8"},
                        {"serve.stream_buffer", "4096"}},
                       model.get());
  Counts counts;
  const int tenth = count / 10;
  ask_all(server.port(), 1, tenth, counts);
  const int64_t before = resident_now();
  ask_all(server.port(), 100, count - tenth, counts);
  const int64_t after = resident_now();
  EXPECT_EQ(server.post("/wake_up", "").status, 200);
  EXPECT_EQ(counts.lost, 0) << counts.first_lost;
  std::printf("%d answered, %d left, %lld bytes more\n", counts.answered.load(), counts.left.load(),
              static_cast<long long>(after - before));
#ifndef __SANITIZE_ADDRESS__  // which keeps what was freed
  if (count >= 2000) {
    EXPECT_LT(after, before + kMostGrowth);
  }
#endif
  // What has ended is noticed a little later.
  const auto becomes = [&](const char* name, double value) {
    for (int i = 0; i < 500 && metric(server, name) != value; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(metric(server, name), value) << name;
  };
  becomes("vllm:num_requests_running", 0);
  becomes("vllm:num_requests_waiting", 0);
  for (int i = 0; i < 500 && server.describe()["connections"] != 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(server.describe()["connections"], 0);
  // All blocks are there: as many whole contexts as may run.
  const Json all =
      server.ask("/v1/completions",
                 {{"prompt", Json::array({3, 4})}, {"n", 8}, {"max_tokens", 250}, {"ignore_eos", true}});
  for (const Json& choice : all["choices"]) EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(all["usage"]["completion_tokens"], 2000);
}

}  // namespace
}  // namespace trl::serve::test
