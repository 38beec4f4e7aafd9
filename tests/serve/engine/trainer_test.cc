// A server with a trainer: requests are answered while it trains, and say with which step's adapter.
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "running_server.h"

namespace trl::serve::test {
namespace {

constexpr char kRows[] = R"({"text": "The kernel waits for the lock."}
{"text": "The kernel wakes the driver."}
{"text": "The driver reads the disk."}
{"text": "The scheduler picks a task."}
)";

class WithATrainer : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "trl-serve-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    trl_server_destroy(server_);
    trl_trainer_destroy(trainer_);
    trl_dataset_destroy(rows_);
    std::filesystem::remove_all(folder_);
  }
  void open(const char* more) {
    const std::string settings = std::string("{model_name_or_path: '" TRL_SOURCE_DIR
                                             "/tests/golden/models/qwen2', bf16: false, output_dir: '") +
                                 (folder_ / "out").string() +
                                 "', learning_rate: 1e-2, max_steps: 4, per_device_train_batch_size: 4, "
                                 "save_strategy: 'no', report_to: none, serve.port: 0, " +
                                 more + "}";
    trl_config* config = nullptr;
    trl_error* error = nullptr;
    const auto ok = [&](trl_status status) {
      EXPECT_EQ(status, TRL_OK) << trl_error_message(error);
      return status == TRL_OK;
    };
    ASSERT_TRUE(
        ok(trl_config_create(&config, &error)) &&
        ok(trl_config_load_text(config, settings.data(), settings.size(), &error)) &&
        ok(trl_dataset_from_buffer(nullptr, "jsonl", kRows, sizeof kRows - 1, nullptr, &rows_, &error)) &&
        ok(trl_trainer_create(nullptr, config, rows_, nullptr, &trainer_, &error)) &&
        ok(trl_server_create(nullptr, config, &server_, &error)) &&
        ok(trl_server_add_trainer(server_, "tiny", trainer_, nullptr, &error)) &&
        ok(trl_server_start(server_, &error)));
    trl_config_destroy(config);
    port_ = describe().value("port", 0);
  }
  Json describe() {
    const char* json = nullptr;
    EXPECT_EQ(trl_server_describe(server_, &json, nullptr), TRL_OK);
    return Json::parse(json);
  }
  Json choice(const char* route = "/v1/completions") {
    Json body = {{"max_tokens", 6}, {"temperature", 0}, {"ignore_eos", true}};
    if (std::string_view(route) == "/v1/completions")
      body["prompt"] = "The kernel";
    else
      body["messages"] = Json::parse(R"([{"role": "user", "content": "The kernel"}])");
    const Response response = Client(port_).post(route, body.dump());
    EXPECT_EQ(response.status, 200) << response.body;
    const auto version = response.fields.find("x-trl-weights-version");
    version_ = version == response.fields.end() ? "" : version->second;
    const Json all = Json::parse(response.body, nullptr, false);
    return all.is_object() ? all["choices"][0] : Json();
  }

  std::filesystem::path folder_;
  trl_dataset* rows_ = nullptr;
  trl_trainer* trainer_ = nullptr;
  trl_server* server_ = nullptr;
  int port_ = 0;
  std::string version_;  // that the last answer's header names
};

TEST_F(WithATrainer, AnswersNameTheStepOfTheirAdapter) {
  open("use_peft: true, serve_share: 0.5");
  const Json before = choice();
  EXPECT_EQ(before["weights"], Json::parse(R"({"adapter": "default", "version": 0, "last_version": 0})"));
  EXPECT_EQ(version_, "0");
  std::atomic<bool> over{false};
  std::atomic<int> answered{0};
  std::thread asking([&] {
    int64_t last = 0;
    while (!over) {
      const int64_t version = choice()["weights"].value("version", int64_t{-1});
      EXPECT_GE(version, last);
      last = version;
      ++answered;
    }
  });
  EXPECT_EQ(trl_trainer_train(trainer_, nullptr, nullptr, nullptr), TRL_OK);
  over = true;
  asking.join();
  EXPECT_GT(answered, 0);
  EXPECT_EQ(choice()["weights"]["version"], 4);
  EXPECT_EQ(choice("/v1/chat/completions")["weights"]["version"], 4);
  EXPECT_EQ(version_, "4");
  EXPECT_EQ(describe()["models"][0]["trained_version"], 4);
}

TEST_F(WithATrainer, StreamsEndWithTheirVersions) {
  open("use_peft: true, serve_share: 0.5");
  const Json body = {{"prompt", "The kernel"}, {"max_tokens", 3}, {"stream", true}, {"ignore_eos", true}};
  const std::vector<Json> events = events_of(Client(port_).post("/v1/completions", body.dump()).body);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back()["choices"][0]["weights"]["version"], 0);
}

TEST_F(WithATrainer, OneThatTrainsAllWeightsTakesTurns) {
  open("use_peft: false");
  EXPECT_FALSE(choice().contains("weights"));
  EXPECT_TRUE(describe()["models"][0]["trained_version"].is_null());
}

TEST(WithoutATrainer, TheMissingHandleIsNamed) {
  trl_server* server = nullptr;
  ASSERT_EQ(trl_server_create(nullptr, nullptr, &server, nullptr), TRL_OK);
  trl_error* error = nullptr;
  EXPECT_EQ(trl_server_add_trainer(server, "x", nullptr, nullptr, &error), TRL_E_INVALID_ARGUMENT);
  EXPECT_NE(std::string(trl_error_message(error)).find("trainer"), std::string::npos);
  trl_error_destroy(error);
  trl_server_destroy(server);
}

}  // namespace
}  // namespace trl::serve::test
