// Every route with each status that it may have, in tables, against a fake library.
#include <chrono>
#include <thread>

#include "fake_library.h"
#include "running_server.h"

namespace trl::serve::test {
namespace {

constexpr const char* kCompletions = "/v1/completions";
constexpr const char* kChat = "/v1/chat/completions";
constexpr const char* kUser = R"("messages": [{"role": "user", "content": "Hi"}])";

struct Case {
  const char *method, *path;
  std::string body;
  int status;
  std::string names = {};  // what the answer says, among other things
};

std::string chat_with(const std::string& more) { return "{" + std::string(kUser) + more + "}"; }

Response ask(RunningServer& server, const Case& one) {
  Client client(server.port());
  client.send(request(one.method, one.path, one.body));
  return client.read();
}

// Asks all, and looks whether the error object says its own status.
void expect_all(RunningServer& server, std::initializer_list<Case> cases) {
  for (const Case& one : cases) {
    const Response response = ask(server, one);
    const std::string what = std::string(one.method) + " " + one.path + " " + one.body + "\n" + response.body;
    EXPECT_EQ(response.status, one.status) << what;
    EXPECT_NE(response.body.find(one.names), std::string::npos) << what;
    if (response.status < 400 || response.status == 422) continue;
    const Json error = Json::parse(response.body, nullptr, false)["error"];
    EXPECT_EQ(error.value("code", 0), one.status) << what;
    EXPECT_FALSE(error.value("message", "").empty()) << what;
    EXPECT_FALSE(error.value("type", "").empty()) << what;
  }
}

TEST(Statuses, OfRoutesThatAreThere) {
  RunningServer server;
  expect_all(server,
             {{"GET", "/health", "", 200},
              {"GET", "/health/", "", 200, "ok"},
              {"GET", "/version", "", 200, "version"},
              {"GET", "/version/", "", 200, "version"},
              {"GET", "/server_info", "", 200, "vllm_config"},
              {"GET", "/get_world_size", "", 200, "world_size"},
              {"GET", "/get_tensor_parallel_size/", "", 200, "tensor_parallel_size"},
              {"GET", "/metrics", "", 200, "vllm:num_requests_running"},
              {"GET", "/v1/models/", "", 200, "tiny"},
              {"GET", "/is_sleeping", "", 200, "false"},
              {"POST", "/reset_prefix_cache", "", 200, "success"},
              {"POST", kCompletions, R"({"prompt": "a"})", 200, "text_completion"},
              {"POST", "/v1/completions/", R"({"prompt": "a"})", 200, "text_completion"},
              {"POST", kChat, chat_with(""), 200, "chat.completion"},
              {"POST", "/tokenize", R"({"prompt": "a"})", 200, "count"},
              {"POST", "/detokenize", R"({"tokens": [97]})", 200, "prompt"},
              {"POST", "/generate/", R"({"prompts": ["a"]})", 200, "completion_ids"},
              {"POST", "/generate", R"({"prompts": ["a"], "images": [null]})", 200, "completion_ids"},
              {"POST", "/chat/", "{\"messages\": [[{\"role\": \"user\", \"content\": \"a\"}]]}", 200}});
}

TEST(Statuses, OfOtherMethodsAndPaths) {
  RunningServer server;
  for (const char* path : {"/health", "/version", "/server_info", "/get_world_size", "/metrics", "/v1/models",
                           "/is_sleeping", "/health/", "/get_world_size/", "/get_tensor_parallel_size/"}) {
    const Response response = ask(server, {"POST", path, "{}", 0});
    EXPECT_EQ(response.status, 405) << path;
    EXPECT_EQ(response.fields.at("allow"), "GET") << path;
  }
  for (const char* path :
       {kCompletions, kChat, "/tokenize", "/detokenize", "/generate/", "/chat/", "/reset_prefix_cache",
        "/reset_prefix_cache/", "/sleep", "/wake_up", "/v1/load_lora_adapter", "/v1/unload_lora_adapter"}) {
    const Response response = ask(server, {"GET", path, "", 0});
    EXPECT_EQ(response.status, 405) << path;
    EXPECT_EQ(response.fields.at("allow"), "POST") << path;
  }
  for (const char* path : {"/v1/embeddings", "/v1/responses", "/v1/audio/transcriptions", "/v1/rerank",
                           "/score", "/pooling", "/v1/messages", "/pause", "/abort_requests"})
    expect_all(server, {{"POST", path, "{}", 501, path}, {"GET", path, "", 501, path}});
  expect_all(server,
             {{"GET", "/", "", 404}, {"POST", "/v1", "{}", 404}, {"GET", "/v1/models/other", "", 404}});
}

// Content types, and bodies that are not JSON objects, on every route that takes one.
TEST(Statuses, OfBodiesThatAreNotJson) {
  RunningServer server;
  for (const char* path : {kCompletions, kChat, "/tokenize", "/detokenize", "/v1/load_lora_adapter"}) {
    for (const char* body : {"{", "[]", "null", "5", "{\"a\": }", "\xff"})
      expect_all(server, {{"POST", path, body, 400, "BadRequestError"}});
  }
  for (const char* path : {"/generate/", "/chat/"})
    for (const char* body : {"{", "[]", "null"}) expect_all(server, {{"POST", path, body, 422, "detail"}});
  const auto of_type = [&](const std::string& type) {
    Client client(server.port());
    client.send("POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: " + type +
                "\r\nContent-Length: 15\r\n\r\n{\"prompt\": \"a\"}");
    return client.read().status;
  };
  for (const char* good : {"application/json", "Application/JSON", "application/json; charset=utf-8",
                           "application/json ;charset=utf-8"})
    EXPECT_EQ(of_type(good), 200) << good;
  for (const char* bad : {"text/plain", "application/jsonx", "application/x-www-form-urlencoded", "json"})
    EXPECT_EQ(of_type(bad), 415) << bad;
}

// Clients differ in which of two values of one name they mean.
TEST(Statuses, OfNamesThatAreThereTwice) {
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", "/"}});
  const std::string twice = "the name is there twice in one object; give it once";
  for (const char* path : {kCompletions, kChat, "/tokenize", "/detokenize", "/v1/load_lora_adapter",
                           "/v1/unload_lora_adapter", "/trl/weights/shared", "/trl/weights/commit"})
    expect_all(server,
               {{"POST", path, R"({"model": "tiny", "model": "tiny"})", 400, "body: model: " + twice}});
  for (const char* path : {"/generate/", "/chat/", "/get_sequence_logprobs/"})
    expect_all(server, {{"POST", path, R"({"n": 1, "n": 2})", 422, "body: n: " + twice}});
  expect_all(
      server,
      {{"POST", kCompletions, R"({"prompt": "a", "logit_bias": {"5": 1, "6": 1, "5": 2}})", 400,
        R"("param":"logit_bias.5")"},
       {"POST", kCompletions, R"({"prompt": "a", "stream": true, "stream": false})", 400,
        R"("param":"stream")"},
       {"POST", kChat, R"({"messages": [{"role": "user", "content": "a", "role": "system"}]})", 400,
        "body: messages.role: " + twice},
       {"POST", kCompletions,
        R"j({"prompt": "a", "structured_outputs": {"json": "{\"type\": \"null\", \"type\": 1}"}})j", 400,
        "structured_outputs.json: type: " + twice},
       {"POST", kCompletions, R"({"prompt": "a", "\u0061": 1, "a": 2})", 400, "body: a: " + twice},
       {"POST", kCompletions, R"({"prompt": "a", "user": {"b": 1}, "stream_options": null, "b": 1})", 200}});
}

TEST(Statuses, OfAnObjectWithTooManyNames) {
  RunningServer server({{"serve.max_body_bytes", "10000000"}});
  const auto with = [](int count) {
    std::string names;
    for (int i = 0; i < count; ++i) names += ", \"x" + std::to_string(i) + "\": 1";
    return "{\"prompt\": \"a\"" + names + "}";
  };
  expect_all(server, {{"POST", kCompletions, with(4000), 200},
                      {"POST", kCompletions, with(4096), 400, "the object has more than 4096 names"}});
}

// The limits of a request together.
TEST(Statuses, OfRequestsForTooMuch) {
  RunningServer server;  // 64 completions, 3000 tokens
  std::string prompts = "\"a\"";
  for (int i = 1; i < 16; ++i) prompts += ", \"a\"";
  const auto with = [&](const std::string& more) { return "{\"prompt\": [" + prompts + "], " + more + "}"; };
  expect_all(
      server,
      {{"POST", kCompletions, with(R"("n": 4, "max_tokens": 2)"), 200},
       {"POST", kCompletions, with(R"("n": 5, "max_tokens": 2)"), 400,
        "16 prompts with n = 5 are 80 completions; ask for at most 64 in a request (serve.max_completions)"},
       {"POST", kCompletions, with(R"("n": 2, "max_tokens": 93)"), 200},
       {"POST", kCompletions, with(R"("n": 2, "max_tokens": 94)"), 400, "give max_tokens of at most 93"},
       {"POST", "/generate/", R"({"prompts": ["a", "a"], "n": 8, "max_tokens": 188})", 422,
        "serve.max_request_tokens"},
       {"POST", kCompletions, R"({"prompt": "a", "n": 8, "temperature": 0, "max_tokens": 190})", 200},
       {"POST", kChat, chat_with(R"(, "n": 8)"), 200}});
}

TEST(Statuses, OfModelsThatAreNotThere) {
  RunningServer server;
  expect_all(server,
             {{"POST", kCompletions, R"({"prompt": "a", "model": "other"})", 404, "`other` does not exist"},
              {"POST", kChat, chat_with(R"(, "model": "other")"), 404, "`other` does not exist"},
              {"POST", "/tokenize", R"({"prompt": "a", "model": "other"})", 404},
              {"POST", "/detokenize", R"({"tokens": [97], "model": "other"})", 404},
              {"POST", "/sleep?model=other", "", 404},
              {"POST", "/wake_up?model=other", "", 404},
              {"GET", "/is_sleeping?model=other", "", 404},
              {"POST", kCompletions, R"({"prompt": "a", "model": ""})", 200},
              {"POST", kCompletions, R"({"prompt": "a", "model": null})", 200},
              {"POST", kCompletions, R"({"prompt": "a", "model": 5})", 400, "model: 5"}});
}

// The limits of a request hold on each of the routes that write.
TEST(Statuses, OfLimits) {
  RunningServer server;
  const std::string stops = R"("stop": ["a", "b", "c", "d", "e"])";
  const auto many = [](const char* name, const char* one, int count) {
    std::string list = one;
    for (int i = 1; i < count; ++i) list += std::string(",") + one;
    return std::string("\"") + name + "\": [" + list + "]";
  };
  const std::string long_stop = R"("stop": ")" + std::string(5000, 'x') + "\"";
  std::string prompts = "1";
  for (int i = 0; i < 16; ++i) prompts += ", 1";
  std::string lists = "[1]";
  for (int i = 0; i < 16; ++i) lists += ", [1]";
  for (const auto& [path, first, status] :
       {std::tuple{kCompletions, std::string(R"("prompt": "a")"), 400},
        std::tuple{kChat, std::string(kUser), 400},
        std::tuple{"/generate/", std::string(R"("prompts": ["a"])"), 422},
        std::tuple{"/chat/", std::string(R"("messages": [[{"role": "user", "content": "a"}]])"), 422}}) {
    const auto with = [&, first = first](const std::string& more) { return "{" + first + ", " + more + "}"; };
    expect_all(server,
               {{"POST", path, with(R"("n": 0)"), status, "n: 0 is not accepted"},
                {"POST", path, with(R"("n": 9)"), status, "an integer from 1 to 8"},
                {"POST", path, with(R"("max_tokens": 0)"), status, "max_tokens: 0"},
                {"POST", path, with(R"("max_tokens": 5000)"), status, "maximum context length"},
                {"POST", path, with(stops), status, "stop: 5 texts; give at most 4"},
                {"POST", path, with(long_stop), status, "5000 bytes; give at most 4096"},
                {"POST", path, with(R"("temperature": -0.1)"), status, "temperature"},
                {"POST", path, with(R"("top_p": 1.1)"), status, "top_p"},
                {"POST", path, with(R"("min_p": -1)"), status, "min_p"},
                {"POST", path, with(R"("seed": 1.5)"), status, "seed"},
                {"POST", path, with(R"("bad_words": [""])"), status, "bad_words: a text is empty"},
                {"POST", path, with(many("bad_words", "\"a\"", 1025)), status, "bad_words: 1025 texts"},
                {"POST", path, with(many("stop_token_ids", "1", 1025)), status,
                 "stop_token_ids: 1025 ids; give at most 1024"},
                {"POST", path, with(R"("allowed_token_ids": [])"), status, "one token id at least"},
                {"POST", path, with(R"("logit_bias": {"5": "x"})"), status, "logit_bias"}});
  }
  expect_all(server,
             {{"POST", kCompletions, "{\"prompt\": [" + lists + "]}", 400, "17 prompts; give at most 16"},
              {"POST", "/generate/", "{\"prompts\": [" + lists + "]}", 422, "17 prompts"},
              {"POST", kCompletions, "{\"prompt\": [" + prompts + "]}", 200},
              {"POST", kCompletions, R"({"prompt": ")" + std::string(200, 'a') + "\"}", 400, "200 input"}});
}

TEST(Statuses, OfOptionsThatDoNotGoTogether) {
  RunningServer server;
  expect_all(server,
             {{"POST", kCompletions, R"({"prompt": "a", "stream_options": {"include_usage": true}})", 400,
               "stream: true"},
              {"POST", kChat, chat_with(R"(, "stream": false, "stream_options": {})"), 400, "stream: true"},
              {"POST", kChat, chat_with(R"(, "top_logprobs": 1)"), 400, "`logprobs` must be set"},
              {"POST", kChat, chat_with(R"(, "tool_choice": "auto")"), 400, "`tools` must be set"},
              {"POST", kChat, chat_with(R"(, "add_generation_prompt": true, "continue_final_message": true)"),
               400, "Cannot set both"},
              {"POST", "/tokenize", R"({"prompt": "a", "messages": []})", 400, "either prompt or messages"},
              {"POST", "/tokenize", "{}", 400, "either prompt or messages"}});
}

// What the library itself refuses names the field of the request.
TEST(Statuses, OfWhatTheLibraryRefuses) {
  RunningServer server;
  for (const char* body : {R"({"prompt": [300]})", R"({"prompt": [300], "stream": true})"}) {
    const Response response = server.post(kCompletions, body);
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_EQ(Json::parse(response.body)["error"]["param"], "prompt") << response.body;
  }
  const Response tokens = server.post("/detokenize", R"({"tokens": [1, 900]})");
  EXPECT_EQ(Json::parse(tokens.body)["error"]["param"], "tokens") << tokens.body;
  EXPECT_NE(tokens.body.find("900 is not accepted"), std::string::npos) << tokens.body;
}

TEST(Statuses, WhileAModelSleeps) {
  RunningServer server;
  EXPECT_EQ(server.post("/sleep", "").status, 200);
  expect_all(server, {{"POST", kCompletions, R"({"prompt": "a"})", 503, "wake_up"},
                      {"POST", kCompletions, R"({"prompt": "a", "stream": true})", 503, "wake_up"},
                      {"POST", kChat, chat_with(""), 503, "wake_up"},
                      {"POST", "/generate/", R"({"prompts": ["a"]})", 503, "wake_up"},
                      {"POST", "/tokenize", R"({"prompt": "a"})", 200},
                      {"GET", "/health", "", 200},
                      {"GET", "/v1/models", "", 200},
                      {"GET", "/is_sleeping", "", 200, "true"},
                      {"POST", "/wake_up", "", 200},
                      {"POST", kCompletions, R"({"prompt": "a"})", 200}});
}

TEST(Statuses, WhileTheServerStops) {
  RunningServer server;
  fake().step_milliseconds = 20;
  Client running(server.port());
  running.send(request("POST", kCompletions, R"({"prompt": "Hi", "max_tokens": 100})"));
  for (int i = 0; i < 500 && server.describe()["models"][0]["running"] != 1; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  Client other(server.port());
  EXPECT_EQ(other.get("/health").status, 200);
  trl_server_cancel(server.get());
  for (int i = 0; i < 500 && other.get("/health").status != 503; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  expect_all(server, {{"GET", "/health", "", 503, "stopping"},
                      {"GET", "/health/", "", 503},
                      {"POST", kCompletions, R"({"prompt": "a"})", 503, "stopping"},
                      {"POST", kChat, chat_with(""), 503},
                      {"POST", "/generate/", R"({"prompts": ["a"]})", 503},
                      {"POST", "/tokenize", R"({"prompt": "a"})", 503},
                      {"POST", "/sleep", "", 503},
                      {"GET", "/metrics", "", 200},
                      {"GET", "/v1/models", "", 200}});
  fake().step_milliseconds = 0;
  EXPECT_EQ(running.read().status, 200);
}

}  // namespace
}  // namespace trl::serve::test
