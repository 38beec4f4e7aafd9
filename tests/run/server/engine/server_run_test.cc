// Runs whose completions a server writes: they are those of colocate, and outlive a server that is lost.
#include "run/server/engine/engine_server.h"

#include <set>

#include "run/server/engine/served_run.h"

namespace {

using host::EngineServer;
using host::Error;
using host::Json;
using host::Ran;
using host::Rewarded;
using host::served;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

const Settings kAdapter = {{"use_peft", "true"},
                           {"lora_r", "4"},
                           {"lora_dropout", "0"},
                           {"use_vllm", "true"},
                           {"learning_rate", "0.05"}};

// folder: of the adapter at the end.
Ran run(const Settings& settings, const std::string& folder) {
  return host::run_of(settings, folder + "/adapter_model.safetensors");
}

TEST(ServerRun, HasTheTokensAndWeightsOfColocate) {
  NEED_MODEL();
  for (const char* method : {"grpo", "rloo", "online_dpo"}) {
    SCOPED_TRACE(method);
    const host::Scratch scratch;
    const auto settings = [&](const char* folder) {
      const std::string out = scratch / folder;
      const Settings own = {{"method", method}};
      return host::with(
          host::with(method == std::string("online_dpo") ? host::online_dpo(out) : host::grpo(out, own),
                     kAdapter),
          {{"output_dir", out}});
    };
    const Ran colocate = run(settings("colocate"), scratch / "colocate");
    EngineServer server(host::golden("models/qwen2"));
    const Ran other = run(served(settings("server"), server.url()), scratch / "server");
    EXPECT_FALSE(colocate.ids.empty());
    EXPECT_EQ(other.ids, colocate.ids);
    EXPECT_EQ(other.losses, colocate.losses);
    EXPECT_EQ(other.weights, colocate.weights);
    // Each update has an adapter of its own, and the one before goes.
    EXPECT_EQ(server.asked().size(), 3u);
    EXPECT_EQ(server.adapters().size(), 5u);
    EXPECT_NE(server.asked()[0]["model"], server.asked()[1]["model"]);
  }
}

// The weights on their way to the server are a part of the step, and of no other part: `other` and `update`
// would be below zero.
TEST(ServerRun, TellsHowLongWeightsTakeToTheServer) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings profiled =
      host::with(host::grpo(scratch / "out", kAdapter), {{"profile_parts", "true"}, {"logging_steps", "1"}});
  const auto steps = [](const Settings& settings) {
    Rewarded own(settings, host::reward_all);
    EXPECT_EQ(own.train(), TRL_OK) << own.error.message();
    Json all = own.last();
    std::erase_if(all.get_ref<Json::array_t&>(), [](const Json& step) { return !step.contains("loss"); });
    EXPECT_EQ(all.size(), 3u);
    return all;
  };
  for (const Json& step : steps(profiled)) EXPECT_FALSE(step.contains("profile/sync")) << step;
  EngineServer server(host::golden("models/qwen2"));
  server.load_takes = std::chrono::milliseconds(300);
  for (const Json& step : steps(served(profiled, server.url()))) {
    EXPECT_GE(step.value("profile/sync", 0.0), 0.3) << step;
    for (const char* other : {"profile/other", "profile/update", "profile/generate"})
      EXPECT_GE(step.value(other, -1.0), 0.0) << other << step;
  }
}

TEST(ServerRun, KeepsCompletionsToAPattern) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings by_regex = host::with(kAdapter, {{"vllm_structured_outputs_regex", "[a-z ]+"}});
  const Ran colocate = run(host::grpo(scratch / "colocate", by_regex), scratch / "colocate");
  EngineServer server(host::golden("models/qwen2"));
  const Ran other = run(served(host::grpo(scratch / "server", by_regex), server.url()), scratch / "server");
  EXPECT_EQ(server.asked().at(0)["structured_outputs"].dump(), R"({"regex":"[a-z ]+"})");
  EXPECT_EQ(other.ids, colocate.ids);
  EXPECT_EQ(other.weights, colocate.weights);
}

// A server is asked for each prompt once, and told how many completions it has.
TEST(ServerRun, AsksForEachPromptOnce) {
  NEED_MODEL();
  const host::Scratch scratch;
  EngineServer server(host::golden("models/qwen2"));
  run(served(host::grpo(scratch / "out", kAdapter), server.url()), scratch / "out");
  const Json first = server.asked().at(0);
  EXPECT_EQ(first["n"], 2);
  EXPECT_EQ(first["prompt"].size(), 2u);
  EXPECT_EQ(first["max_tokens"], 5);
}

TEST(ServerRun, IsSavedWhenTheServerFailsAndGoesOnWithAnother) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings whole = host::grpo(scratch / "whole", kAdapter);
  const Ran colocate = run(whole, scratch / "whole");
  const Settings cut = host::grpo(scratch / "cut", kAdapter);
  const std::filesystem::path adapters = scratch / "cut" / "server_adapters";
  {
    EngineServer server(host::golden("models/qwen2"));
    server.refuses_from = 2;
    Rewarded own(served(cut, server.url()), host::reward_all);
    EXPECT_EQ(own.train(), TRL_E_IO);
    EXPECT_EQ(own.error.key(), "vllm_server_base_url");
    EXPECT_TRUE(own.error.names("Request failed: 400, no more")) << own.error.message();
    EXPECT_TRUE(own.error.names("/cut/checkpoint-2: start a server and resume from it"))
        << own.error.message();
    // As if it had ended between two adapters; another run has the same folder.
    const std::string name = server.asked().at(0)["model"];
    std::filesystem::create_directory(adapters / (name.substr(0, name.rfind('-')) + "-99"));
    std::filesystem::create_directory(adapters / "trl-00000000-1");
  }
  EngineServer server(host::golden("models/qwen2"));
  const std::string saved = scratch / "cut" / "checkpoint-2";
  const Ran resumed =
      run(host::with(served(cut, server.url()), {{"resume_from_checkpoint", saved}}), scratch / "cut");
  EXPECT_EQ(server.asked().size(), 1u);
  EXPECT_EQ(resumed.weights, colocate.weights);
  std::set<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(adapters))
    left.insert(entry.path().filename().string());
  EXPECT_EQ(left,
            (std::set<std::string>{"trl-00000000-1", server.asked().at(0)["model"].get<std::string>()}));
}

// Before its first update a run has nothing to save.
TEST(ServerRun, EndsIfThereIsNoServer) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings settings = host::with(served(host::grpo(scratch / "out", kAdapter), "http://127.0.0.1:1"),
                                       {{"vllm_server_timeout", "0"}});
  Rewarded own(settings, host::reward_all);
  EXPECT_EQ(own.train(), TRL_E_IO);
  EXPECT_TRUE(own.error.names("http://127.0.0.1:1/health: ")) << own.error.message();
  EXPECT_TRUE(own.error.names("(vllm_server_timeout): start the server")) << own.error.message();
  EXPECT_FALSE(std::filesystem::exists(scratch / "out" / "checkpoint-0"));
}

}  // namespace
