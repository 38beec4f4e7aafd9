// Runs against this library's own server: all weights go to it after each update, and its completions are
// those of colocate.
#include <trl/serve.h>

#include "run/server/engine/served_run.h"

namespace {

using host::Error;
using host::Json;
using host::Ran;
using host::Rewarded;
using host::run_of;
using host::served;
using host::Settings;

// A server of one model, on any free port.
class OwnServer {
 public:
  explicit OwnServer(const std::string& path, const Settings& options = {})
      : model_(host::open_model(path, options)) {
    Error error;
    const auto config = host::config({{"serve.port", "0"}});
    EXPECT_EQ(trl_server_create(nullptr, config.get(), &server_, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_server_add_model(server_, "tiny", model_.get(), nullptr, nullptr, error), TRL_OK)
        << error.message();
    EXPECT_EQ(trl_server_start(server_, error), TRL_OK) << error.message();
  }
  ~OwnServer() { trl_server_destroy(server_); }
  OwnServer(const OwnServer&) = delete;
  OwnServer& operator=(const OwnServer&) = delete;
  Json describe() const {
    const char* json = nullptr;
    EXPECT_EQ(trl_server_describe(server_, &json, nullptr), TRL_OK);
    return host::parse(json);
  }
  std::string url() const { return "http://127.0.0.1:" + describe()["port"].dump(); }
  int64_t version() const { return describe()["models"][0]["weights_version"].get<int64_t>(); }

 private:
  host::Model model_;
  trl_server* server_ = nullptr;
};

TEST(OwnServerRun, AllWeightsAreThoseOfColocate) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  for (const char* method : {"grpo", "online_dpo"}) {
    SCOPED_TRACE(method);
    const host::Scratch scratch;
    const auto settings = [&](const char* folder) {
      const std::string out = scratch / folder;
      const Settings more = {{"use_vllm", "true"}, {"output_dir", out}, {"learning_rate", "0.05"}};
      return host::with(method == std::string("grpo") ? host::grpo(out) : host::online_dpo(out), more);
    };
    const Ran colocate = run_of(settings("colocate"), scratch / "colocate/model.safetensors");
    OwnServer server(host::golden("models/qwen2"));
    const Ran other = run_of(served(settings("server"), server.url()), scratch / "server/model.safetensors");
    EXPECT_FALSE(colocate.ids.empty());
    EXPECT_EQ(other.ids, colocate.ids);
    EXPECT_EQ(other.losses, colocate.losses);
    EXPECT_EQ(other.weights, colocate.weights);
    EXPECT_EQ(server.version(), 2);  // it had those of the first step
  }
}

TEST(OwnServerRun, TellsHowLongWeightsTakeToTheServer) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const host::Scratch scratch;
  OwnServer server(host::golden("models/qwen2"));
  const Settings more = {{"use_vllm", "true"}, {"profile_parts", "true"}, {"logging_steps", "1"}};
  Rewarded own(served(host::grpo(scratch / "out", more), server.url()), host::reward_all);
  ASSERT_EQ(own.train(), TRL_OK) << own.error.message();
  int steps = 0;
  for (const Json& step : own.last()) {
    if (!step.contains("loss")) continue;
    ++steps;
    EXPECT_GT(step.value("profile/sync", 0.0), 0.0) << step;
  }
  EXPECT_EQ(steps, 3);
}

TEST(OwnServerRun, AnotherModelIsRefused) {
  NEED_GOLDEN("models/llama/model.safetensors");
  const host::Scratch scratch;
  OwnServer server(host::golden("models/llama"));
  Rewarded own(served(host::grpo(scratch / "out", {{"use_vllm", "true"}}), server.url()), host::reward_all);
  EXPECT_EQ(own.train(), TRL_E_IO);
  EXPECT_TRUE(own.error.names("the server has another model: ")) << own.error.message();
  EXPECT_EQ(server.version(), 0);
}

}  // namespace
