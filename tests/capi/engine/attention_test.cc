// attn_implementation through the C API and the command: what the log says, a plug-in that trains, and
// plug-ins that are refused before anything is taken.
#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

std::string plugin(const std::string& name) { return "plugin:" TRL_TEST_PLUGINS "/" + name + ".so"; }
std::string plugin_file(const std::string& name) { return plugin(name).substr(7); }

constexpr const char* kDawnAndDusk = "{\"text\": \"It opens at dawn\"}\n{\"text\": \"and shuts at dusk\"}\n";

struct ComponentLog {
  std::string_view component;
  std::vector<std::string> lines;
  static void on_log(void* user_data, int32_t, const char* component, const char* text, size_t size) {
    auto* const log = static_cast<ComponentLog*>(user_data);
    if (component == log->component) log->lines.emplace_back(text, size);
  }
};

// What is said of the attention, or by another component, when a trainer is created.
std::vector<std::string> said(const host::Settings& more, std::string_view component = "attention") {
  const host::Scratch scratch;
  const auto runtime = host::runtime();
  ComponentLog log{component, {}};
  Error error;
  EXPECT_EQ(trl_runtime_set_log(runtime.get(), ComponentLog::on_log, &log, nullptr, error), TRL_OK);
  const auto rows = host::rows(kDawnAndDusk);
  const auto trainer =
      host::trainer(host::with(host::tiny(scratch / "out"), more), rows.get(), nullptr, runtime.get());
  EXPECT_NE(trainer, nullptr);
  return log.lines;
}

TEST(AttentionLog, SaysWhatEachNameStandsFor) {
  NEED_MODEL();
  const std::string built_in = said({}).at(0);
  EXPECT_EQ(built_in.substr(0, 37), "attention: built-in flash attention (");
  for (const char* name : {"eager", "sdpa", "flash_attention_2", "flash_attention_3", "flash_attention_4",
                           "flex_attention", "kernels-community/flash-attn2", "kernels-community/flash-attn3",
                           "kernels-community/vllm-flash-attn3", "kernels-community/paged-attention"}) {
    const std::string line = "attention: " + std::string(name) + " -> " + built_in.substr(11);
    EXPECT_EQ(said({{"attn_implementation", name}}), std::vector<std::string>{line});
    EXPECT_EQ(said({{"model_init_kwargs", "{attn_implementation: " + std::string(name) + "}"}}),
              std::vector<std::string>{line});
  }
  EXPECT_EQ(said({{"fused_kernels", "off"}}),
            std::vector<std::string>{"attention: plain attention (fused_kernels: off)"});
  EXPECT_EQ(
      said({{"fused_kernels", "off"}}, "kernels"),
      std::vector<std::string>{"libtorch's own operators compute this run, because fused_kernels is off"});
  EXPECT_EQ(said({}, "kernels"), std::vector<std::string>{});
  const auto lines = said({{"attn_implementation", plugin("attention")}});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].find("attention: " + plugin("attention") +
                          " -> plain example, which agrees with the built-in attention to "),
            0u)
      << lines[0];
}

struct Outcome {
  trl_status status;
  std::string message, key;
  int32_t code = 0;
  int64_t steps = 0;
};

Outcome outcome(const std::string& attention, const host::Settings& more = {}) {
  const host::Scratch scratch;
  const auto rows = host::rows(kDawnAndDusk);
  const auto settings = host::with(
      host::with(host::tiny(scratch / "out"), {{"attn_implementation", attention}, {"max_steps", "4"}}),
      more);
  trl_trainer* trainer = nullptr;
  Error error;
  Outcome out{trl_trainer_create(nullptr, host::config(settings).get(), rows.get(), nullptr, &trainer, error),
              {},
              {}};
  const host::Trainer owned(trainer);
  EXPECT_EQ(trainer != nullptr, out.status == TRL_OK);
  if (trainer != nullptr) {
    out.status = trl_trainer_train(trainer, nullptr, nullptr, error);
    out.steps = host::state(trainer)["global_step"];
  }
  if (out.status == TRL_OK) return out;
  out.message = error.message();
  out.key = error.key();
  out.code = trl_error_callback_code(error.get());
  return out;
}

TEST(AttentionPlugin, IsRefusedWithTheReason) {
  NEED_MODEL();
  struct Case {
    std::string attention;
    trl_status status;
    std::string message;
    host::Settings more = {};
  };
  const std::vector<Case> cases = {
      {"plugin:/nowhere/kernel.so", TRL_E_NOT_FOUND, "'/nowhere/kernel.so' does not exist"},
      {plugin("no_function"), TRL_E_UNSUPPORTED,
       "no_function.so does not export the function trl_kernel_attention"},
      {plugin("newer"), TRL_E_UNSUPPORTED, "newer.so has version 2 of trl/kernel.h, this build uses"},
      {plugin("only_float32"),
       TRL_E_UNSUPPORTED,
       "computes only in float32, and this run in bfloat16",
       {{"bf16", "true"}}},
      {plugin("wrong_scale"), TRL_E_UNSUPPORTED, "wrong_scale.so (broken) gives wrong numbers: out of token"},
      {plugin("wrong_dk"), TRL_E_UNSUPPORTED, "wrong_dk.so (broken) gives wrong numbers: dk of token 53, "},
      {plugin("nan_late"), TRL_E_UNSUPPORTED, "is nan, that of the built-in attention is "},
      {plugin("fails"), TRL_E_CALLBACK, "failed with 7: the accelerator is on fire"},
  };
  for (const Case& c : cases) {
    const Outcome refused = outcome(c.attention, c.more);
    EXPECT_EQ(refused.status, c.status) << c.attention;
    EXPECT_EQ(refused.key, "attn_implementation") << c.attention;
    EXPECT_EQ(refused.message.find("attn_implementation: "), 0u) << refused.message;
    EXPECT_NE(refused.message.find(c.message), std::string::npos) << refused.message;
    EXPECT_EQ(refused.code, c.status == TRL_E_CALLBACK ? 7 : 0);
  }
}

TEST(AttentionPlugin, AFailedCallFailsTheStep) {
  NEED_MODEL();
  const Outcome failed = outcome(plugin("fails_later"));
  EXPECT_EQ(failed.status, TRL_E_CALLBACK);
  EXPECT_EQ(failed.code, 7);
  EXPECT_EQ(failed.steps, 2);
  EXPECT_EQ(failed.message, "attn_implementation: forward of plug-in " + plugin_file("fails_later") +
                                " (broken) failed with 7: it gave no reason");
}

// A plug-in is refused before a row is prepared or a weight read: neither need be there.
TEST(AttentionPlugin, IsRefusedBeforeMemoryIsTaken) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto settings =
      host::with(host::tiny(scratch / "out"), {{"attn_implementation", plugin("wrong_dk")}});
  const auto rows = host::rows("{\"text\": 7}\n");
  trl_trainer* trainer = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(settings).get(), rows.get(), nullptr, &trainer, error),
            TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names("gives wrong numbers")) << error.message();
}

#ifdef TRL_COMMAND
// A relative path, as in a YAML file, lies under the current directory.
TEST(AttentionPlugin, TrainsThroughTheCommand) {
  NEED_GOLDEN("trajectories/sft_plain/case.json");
  const Json recorded = host::golden_json("trajectories/sft_plain/case.json");
  const host::Scratch scratch;
  std::filesystem::copy_file(plugin_file("attention"), scratch / "kernel.so");
  std::istringstream lines(host::read_file(host::golden(recorded["dataset"])));
  std::string rows, line;
  for (int i = 0; i < 64 && std::getline(lines, line); ++i) rows += line + "\n";
  ASSERT_EQ(recorded["rows"], "0..63");
  host::write_file(scratch / "rows.jsonl", rows);
  std::string yaml =
      "attn_implementation: plugin:kernel.so\ngradient_checkpointing: false\nmodel_name_or_path: " +
      host::golden(recorded["model"]) + "\ndataset_name: rows.jsonl\noutput_dir: out\n";
  for (const auto& [key, value] : recorded["args"].items()) yaml += key + ": " + value.dump() + "\n";
  host::write_file(scratch / "run.yaml", yaml);
  const std::string command =
      "cd '" + (scratch / ".").string() + "' && HOME=. " TRL_COMMAND " sft --config run.yaml >records 2>log";
  ASSERT_EQ(std::system(command.c_str()), 0) << host::read_file(scratch / "log");
  const std::string log = host::read_file(scratch / "log");
  EXPECT_NE(log.find("attention: plugin:kernel.so -> plain example, which agrees"), std::string::npos) << log;
  const Json got = host::parse(host::read_file(scratch / "out/trainer_state.json"))["log_history"];
  const Json& want = recorded["log_history"];
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    for (const char* name : {"loss", "grad_norm", "entropy", "train_loss"}) {
      if (!want[i].contains(name)) continue;
      EXPECT_TRUE(host::close(got[i][name], want[i][name], host::limits::record(name, 0)))
          << i << " " << name << ": " << got[i][name] << " instead of " << want[i][name];
    }
  }
}
#endif

}  // namespace
