// Adapters of requests: names and versions, directories that may be named, and completions that end with the
// version that they began with.
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "fake_library.h"
#include "running_server.h"

namespace trl::serve::test {
namespace {

namespace fs = std::filesystem;

// A folder with directories of adapters, and one beside it.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "trl_adapters_XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    top_ = fs::canonical(pattern);
    fs::create_directory(top_ / "in");
    for (const char* name : {"in/Ann", "in/Bob", "in/Wrong", "Out"}) make(name, R"({"r": 8})");
  }
  ~Folder() { fs::remove_all(top_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  void make(const std::string& name, const std::string& config) const {
    fs::create_directory(top_ / name);
    std::ofstream(top_ / name / "adapter_config.json") << config;
    std::ofstream(top_ / name / "adapter_model.safetensors") << "weights";
  }
  std::string path(const std::string& name) const { return (top_ / name).string(); }
  std::string in() const { return path("in"); }

 private:
  fs::path top_;
};

std::string load(const std::string& name, const std::string& path, bool inplace = false) {
  return Json({{"lora_name", name}, {"lora_path", path}, {"load_inplace", inplace}}).dump();
}

std::string text_of(RunningServer& server, const std::string& model) {
  return server.ask("/v1/completions",
                    {{"model", model}, {"prompt", "Hi"}, {"max_tokens", 3}})["choices"][0]["text"];
}

// Waits until the model has so many adapters.
bool comes_to(size_t count) {
  for (int i = 0; i < 500 && fake().adapter_count() != count; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return fake().adapter_count() == count;
}

// Whether the metrics have these labels of requests with adapters.
bool tells(RunningServer& server, const std::string& labels) {
  return server.get("/metrics").body.find("\nvllm:lora_requests_info" + labels) != std::string::npos;
}

TEST(Adapters, AreLoadedNamedReplacedAndRemoved) {
  const Folder folder;
  const std::string in = folder.in();
  {
    RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}});
    const Response loaded = server.post("/v1/load_lora_adapter", load("one", "Ann"));
    EXPECT_EQ(loaded.status, 200) << loaded.body;
    EXPECT_EQ(loaded.body, "Success: LoRA adapter 'one' added successfully.");
    EXPECT_EQ(text_of(server, "one"), "AAA");
    EXPECT_EQ(text_of(server, "tiny"), "abc");
    EXPECT_TRUE(tells(server, R"({max_lora="3",waiting_lora_adapters="",running_lora_adapters=""} )"));

    const Json models = Json::parse(server.get("/v1/models").body)["data"];
    ASSERT_EQ(models.size(), 2u);
    EXPECT_EQ(models[1]["id"], "one");
    EXPECT_EQ(models[1]["parent"], "tiny");
    EXPECT_EQ(models[1]["root"], folder.path("in/Ann"));
    EXPECT_EQ(Json::parse(server.get("/v1/models/one").body), models[1]);

    const Response again = server.post("/v1/load_lora_adapter", load("one", "Bob"));
    EXPECT_EQ(again.status, 400);
    EXPECT_NE(again.body.find("load_inplace"), std::string::npos);
    EXPECT_EQ(text_of(server, "one"), "AAA");
    EXPECT_EQ(server.post("/v1/load_lora_adapter", load("one", folder.path("in/Bob"), true)).status, 200);
    EXPECT_EQ(text_of(server, "one"), "BBB");
    EXPECT_TRUE(comes_to(1));
    const Json described = server.describe()["models"][0];
    EXPECT_EQ(described["weights_version"], 2);
    EXPECT_EQ(described["adapters"].dump(), R"([{"name":"one","version":2}])");
    const Response with =
        server.post("/v1/completions", R"({"model": "one", "prompt": "a", "max_tokens": 1})");
    EXPECT_EQ(with.fields.at("x-trl-weights-version"), "2");
    EXPECT_EQ(Json::parse(with.body)["model"], "one");
    const Response chat =
        server.post("/v1/chat/completions",
                    R"({"model": "one", "max_tokens": 1, "messages": [{"role": "user", "content": "a"}]})");
    EXPECT_EQ(chat.status, 200) << chat.body;
    EXPECT_EQ(Json::parse(chat.body)["model"], "one");

    EXPECT_EQ(server.post("/v1/unload_lora_adapter", R"({"lora_name": "one"})").status, 200);
    EXPECT_EQ(server.post("/v1/unload_lora_adapter", R"({"lora_name": "one"})").status, 404);
    EXPECT_EQ(server.post("/v1/completions", R"({"model": "one", "prompt": "a"})").status, 404);
    EXPECT_TRUE(comes_to(0));
    EXPECT_EQ(server.post("/v1/load_lora_adapter", load("two", "Ann")).status, 200);
  }
  EXPECT_EQ(fake().adapter_count(), 0u);  // the model is as the host gave it
}

TEST(Adapters, AreLoggedAsOneLine) {
  const Folder folder;
  const std::string in = folder.in();
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}});
  ASSERT_EQ(server.post("/v1/load_lora_adapter", load("one\ntwo", "Ann")).status, 200);
  const std::lock_guard lock(fake().mutex);
  EXPECT_EQ(fake().lines.back(), "adapter one two of tiny comes from " + folder.path("in/Ann"));
}

TEST(Adapters, ARequestEndsWithTheVersionThatItBeganWith) {
  const Folder folder;
  const std::string in = folder.in();
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}});
  ASSERT_EQ(server.post("/v1/load_lora_adapter", load("one", "Ann")).status, 200);
  fake().step_milliseconds = 20;
  Client stream(server.port());
  stream.send(request("POST", "/v1/completions",
                      R"({"model": "one", "prompt": "Hi", "max_tokens": 100, "stream": true})"));
  ASSERT_TRUE(stream.read_until("\"text\":\"A"));
  EXPECT_TRUE(tells(server, R"({max_lora="3",waiting_lora_adapters="",running_lora_adapters="one"} )"));
  ASSERT_EQ(server.post("/v1/load_lora_adapter", load("one", "Bob", true)).status, 200);
  EXPECT_EQ(fake().adapter_count(), 2u);
  EXPECT_EQ(text_of(server, "one"), "BBB");
  ASSERT_TRUE(stream.read_until("[DONE]", 20));
  EXPECT_EQ(stream.bytes().find("\"text\":\"B"), std::string::npos);
  EXPECT_TRUE(comes_to(1));  // the first version has gone
  fake().step_milliseconds = 0;
}

TEST(Adapters, OnlyThoseBelowTheFolderAreLoaded) {
  const Folder folder;
  const std::string in = folder.in();
  fs::create_directory_symlink(folder.path("Out"), folder.path("in/link"));
  fs::create_directory(folder.path("in/files"));
  fs::create_symlink(folder.path("Out/adapter_config.json"), folder.path("in/files/adapter_config.json"));
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}});
  const auto status = [&](const std::string& path) {
    return server.post("/v1/load_lora_adapter", load("one", path)).status;
  };
  EXPECT_EQ(status("nowhere"), 404);
  EXPECT_EQ(status("Ann/adapter_config.json"), 404);
  for (const std::string& path :
       {std::string("../Out"), folder.path("Out"), folder.path("missing"), std::string("/etc"),
        std::string("Ann/../../Out"), std::string("../missing"), std::string("link"), std::string("files"),
        std::string("."), in})
    EXPECT_EQ(status(path), 403) << path;
  EXPECT_EQ(fake().adapter_count(), 0u);
}

TEST(Adapters, WhatIsWrongIsRefused) {
  const Folder folder;
  const std::string in = folder.in();
  folder.make("in/Large", R"({"r": 4, "rank_pattern": {"q_proj": 64}})");
  folder.make("in/Odd", R"({"r": "8"})");
  folder.make("in/Text", "no JSON");
  fs::create_directory(folder.path("in/Empty"));
  RunningServer server(
      {{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}, {"serve.max_lora_rank", "8"}});
  const auto answer = [&](const std::string& body) { return server.post("/v1/load_lora_adapter", body); };
  EXPECT_EQ(answer(R"({"lora_name": "one"})").status, 400);
  EXPECT_EQ(answer(R"({"lora_path": "Ann"})").status, 400);
  EXPECT_EQ(answer(load("", "Ann")).status, 400);
  EXPECT_EQ(answer(load(std::string(257, 'a'), "Ann")).status, 400);
  EXPECT_EQ(answer(load("tiny", "Ann")).status, 400);  // the model's own name
  const Response large = answer(load("one", "Large"));
  EXPECT_EQ(large.status, 400);
  EXPECT_NE(large.body.find("64"), std::string::npos);
  EXPECT_EQ(answer(load("one", "Odd")).status, 400);
  EXPECT_EQ(answer(load("one", "Text")).status, 400);
  EXPECT_EQ(answer(load("one", "Empty")).status, 404);
  const Response wrong = answer(load("one", "Wrong"));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_NE(wrong.body.find("not of this model"), std::string::npos);
  EXPECT_EQ(server.describe()["models"][0]["weights_version"], 0);

  ASSERT_EQ(answer(load("one", "Ann")).status, 200);
  EXPECT_EQ(answer(load("one", "Wrong", true)).status, 400);
  EXPECT_EQ(text_of(server, "one"), "AAA");  // the old version stays
  ASSERT_EQ(answer(load("two", "Ann")).status, 200);
  ASSERT_EQ(answer(load("three", "Ann")).status, 200);
  EXPECT_NE(answer(load("four", "Ann")).body.find("serve.max_loras"), std::string::npos);
}

// Opening a pipe would keep the thread that reads it until somebody writes.
TEST(Adapters, FilesAreRegularFiles) {
  const Folder folder;
  const std::string in = folder.in();
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}});
  for (const char* file : {"adapter_config.json", "adapter_model.safetensors"}) {
    const std::string path = folder.path("in/Bob/") + file;
    fs::remove(path);
    ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
    const Response refused = server.post("/v1/load_lora_adapter", load("one", "Bob"));
    EXPECT_EQ(refused.status, 400) << refused.body;
    EXPECT_NE(refused.body.find(path + ": not a regular file"), std::string::npos) << refused.body;
    EXPECT_EQ(trl_server_set_adapter(server.get(), nullptr, "one", folder.path("in/Bob").c_str(), nullptr),
              TRL_E_INVALID_ARGUMENT);
    fs::remove(path);
    folder.make("in/Bob", R"({"r": 8})");
  }
  EXPECT_EQ(fake().adapter_count(), 0u);
  EXPECT_EQ(server.post("/v1/load_lora_adapter", load("one", "Bob")).status, 200);
}

TEST(Adapters, AreOffUnlessAsked) {
  const Folder folder;
  const std::string in = folder.in();
  RunningServer off({{"serve.adapter_dir", in.c_str()}});
  EXPECT_EQ(off.post("/v1/load_lora_adapter", load("one", "Ann")).status, 403);
  EXPECT_EQ(off.post("/v1/unload_lora_adapter", R"({"lora_name": "one"})").status, 403);
  RunningServer no_folder({{"serve.enable_lora", "true"}});
  const Response refused = no_folder.post("/v1/load_lora_adapter", load("one", folder.path("in/Ann")));
  EXPECT_EQ(refused.status, 403);
  EXPECT_NE(refused.body.find("serve.adapter_dir"), std::string::npos);
}

TEST(Adapters, OfTheOperatorAndOfTheHost) {
  const Folder folder;
  const std::string modules =
      Json::array({"one=" + folder.path("Out"),
                   {{"name", "two"}, {"path", folder.path("in/Ann")}, {"base_model_name", "tiny"}}})
          .dump();
  RunningServer server({{"serve.lora_modules", modules.c_str()}});
  EXPECT_EQ(text_of(server, "one"), "OOO");
  EXPECT_EQ(text_of(server, "two"), "AAA");
  const auto set = [&](const char* name, const char* path) {
    return trl_server_set_adapter(server.get(), nullptr, name, path, nullptr);
  };
  EXPECT_EQ(set("two", folder.path("in/Bob").c_str()), TRL_OK);
  EXPECT_EQ(text_of(server, "two"), "BBB");
  EXPECT_EQ(set("two", nullptr), TRL_OK);
  EXPECT_EQ(set("two", nullptr), TRL_E_NOT_FOUND);
  trl_error* error = nullptr;
  EXPECT_EQ(trl_server_set_adapter(server.get(), nullptr, "tiny", folder.path("in/Bob").c_str(), &error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(trl_error_message(error)).find("name: 'tiny' is"), 0u) << trl_error_message(error);
  trl_error_destroy(error);
  EXPECT_EQ(set("two", folder.path("in/Wrong").c_str()), TRL_E_FORMAT);
  EXPECT_EQ(trl_server_set_adapter(server.get(), "other", "two", "a", nullptr), TRL_E_NOT_FOUND);
  // Of a server that does not run.
  EXPECT_EQ(trl_server_stop(server.get(), 0, nullptr), TRL_OK);
  EXPECT_EQ(set("two", folder.path("in/Ann").c_str()), TRL_OK);
  EXPECT_EQ(set("two", folder.path("in/Bob").c_str()), TRL_OK);
  EXPECT_EQ(fake().adapter_count(), 2u);
  server.start();
  EXPECT_EQ(text_of(server, "two"), "BBB");
}

// Both threads for texts would wait for the step if a load waited there.
TEST(Adapters, LoadingKeepsNoOtherRequestWaiting) {
  const Folder folder;
  const std::string in = folder.in();
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}});
  fake().step_milliseconds = 1500;
  Client running(server.port()), first(server.port()), second(server.port());
  const int before = fake().steps;
  running.send(request("POST", "/v1/completions", R"({"prompt": "Hi", "max_tokens": 2})"));
  for (int i = 0; i < 500 && fake().steps == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  first.send(request("POST", "/v1/load_lora_adapter", load("one", "Ann")));
  second.send(request("POST", "/v1/load_lora_adapter", load("two", "Bob")));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(server.get("/v1/models").status, 200);
  EXPECT_EQ(server.post("/tokenize", R"({"prompt": "Hi"})").status, 200);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(700));
  fake().step_milliseconds = 0;
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(second.read().status, 200);
  EXPECT_EQ(running.read().status, 200);
}

// One name at once: only one of two loads can be the first.
TEST(Adapters, LoadsAtOnceAreOneAfterTheOther) {
  const Folder folder;
  const std::string in = folder.in();
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}});
  Client first(server.port()), second(server.port());
  first.send(request("POST", "/v1/load_lora_adapter", load("one", "Ann")));
  second.send(request("POST", "/v1/load_lora_adapter", load("one", "Bob")));
  EXPECT_EQ(first.read().status + second.read().status, 600);
  EXPECT_EQ(fake().adapter_count(), 1u);
}

TEST(Adapters, ManySwapsWhileRequestsRun) {
  const Folder folder;
  const std::string in = folder.in();
  RunningServer server({{"serve.enable_lora", "true"}, {"serve.adapter_dir", in.c_str()}});
  ASSERT_EQ(server.post("/v1/load_lora_adapter", load("one", "Ann")).status, 200);
  std::atomic<bool> ends{false};
  std::vector<std::thread> clients;
  for (int i = 0; i < 3; ++i)
    clients.emplace_back([&] {
      while (!ends) {
        const Response got =
            server.post("/v1/completions", R"({"model": "one", "prompt": "Hi", "max_tokens": 12})");
        ASSERT_EQ(got.status, 200) << got.body;
        const std::string text = Json::parse(got.body)["choices"][0]["text"];
        EXPECT_EQ(text, std::string(12, text[0]));
        // Odd versions are of the first directory.
        const int version = std::stoi(got.fields.at("x-trl-weights-version"));
        EXPECT_EQ(text[0], version % 2 == 1 ? 'A' : 'B');
      }
    });
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(server.post("/v1/load_lora_adapter", load("one", i % 2 == 0 ? "Bob" : "Ann", true)).status,
              200);
  ends = true;
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(comes_to(1));
}

}  // namespace
}  // namespace trl::serve::test
