// trl_config_* and trl_option_*.
#include <cstring>
#include <set>
#include <thread>

#include "host.h"

namespace {

using host::Error;
using host::Json;

std::string get(const trl_config* config, const char* key) {
  const char* value = nullptr;
  Error error;
  EXPECT_EQ(trl_config_get(config, key, &value, error), TRL_OK) << error.message();
  return value != nullptr ? value : "";
}

Json describe(const trl_config* config) {
  const char* json = nullptr;
  EXPECT_EQ(trl_config_describe(config, &json, nullptr), TRL_OK);
  return host::parse(json);
}

TEST(Config, DefaultsAreTrls) {
  const auto config = host::config();
  EXPECT_EQ(get(config.get(), "learning_rate"), "2e-05");
  EXPECT_EQ(get(config.get(), "max_length"), "1024");
  EXPECT_EQ(get(config.get(), "gradient_checkpointing"), "true");
  EXPECT_EQ(get(config.get(), "output_dir"), "null");
  EXPECT_EQ(describe(config.get()), Json::object());
}

TEST(Config, SetIsReadBackUnderEveryName) {
  const auto config =
      host::config({{"max_seq_length", "77"}, {"learning_rate", "0.5"}, {"eval_strategy", "steps"}});
  EXPECT_EQ(get(config.get(), "max_length"), "77");
  EXPECT_EQ(get(config.get(), "max_seq_length"), "77");
  EXPECT_EQ(get(config.get(), "evaluation_strategy"), "steps");
  EXPECT_EQ(describe(config.get()),
            Json({{"eval_strategy", "steps"}, {"learning_rate", 0.5}, {"max_length", 77}}));
}

TEST(Config, RefusalsNameKeyAndWhatIsAccepted) {
  const auto config = host::config({{"learning_rate", "0.5"}});
  Error error;
  EXPECT_EQ(trl_config_set(config.get(), "learning_rat", "1", error), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("learning_rate")) << error.message();
  EXPECT_EQ(trl_config_set(config.get(), "learning_rate", "fast", error), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("fast")) << error.message();
  EXPECT_EQ(error.key(), "learning_rate");
  EXPECT_EQ(trl_config_set(config.get(), "per_device_train_batch_size", "0", error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "per_device_train_batch_size");
  EXPECT_EQ(trl_config_set(config.get(), "adam_beta1", "1.5", error), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("1.5")) << error.message();
  EXPECT_EQ(get(config.get(), "learning_rate"), "0.5");
  const char* value = "before";
  EXPECT_EQ(trl_config_get(config.get(), "nothing_like_it", &value, error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(value, nullptr);
}

TEST(Config, UnsetBringsTheDefaultBack) {
  const auto config = host::config({{"max_seq_length", "77"}, {"seed", "7"}});
  Error error;
  ASSERT_EQ(trl_config_unset(config.get(), "max_length", error), TRL_OK) << error.message();
  EXPECT_EQ(get(config.get(), "max_length"), "1024");
  const char* origin = nullptr;
  EXPECT_EQ(trl_config_get_origin(config.get(), "max_length", &origin, nullptr), TRL_OK);
  EXPECT_STREQ(origin, "default");
  EXPECT_EQ(describe(config.get()), Json({{"seed", 7}}));
  EXPECT_EQ(trl_config_unset(config.get(), "max_length", error), TRL_OK);
  EXPECT_EQ(trl_config_unset(config.get(), "sed", error), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("the nearest is seed")) << error.message();
  EXPECT_EQ(describe(config.get()), Json({{"seed", 7}}));
}

TEST(Config, InvalidUtf8IsRefused) {
  const auto config = host::config();
  Error error;
  EXPECT_EQ(trl_config_set(config.get(), "eos_token", "a\xff\xfe", error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(error.message(), "eos_token: value is not UTF-8: byte 1 is invalid");
  EXPECT_EQ(error.key(), "eos_token");
  EXPECT_EQ(trl_config_set(config.get(), "\xc0\x80", "1", error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_config_load_text(config.get(), "a: \xff", 4, error), TRL_E_FORMAT);
}

TEST(Config, LoadSetsAllOrNothing) {
  const auto config = host::config({{"max_length", "9"}});
  const std::string good = "learning_rate: 1.0e-3\nbf16: no\nseed: 7\n";
  ASSERT_EQ(trl_config_load_text(config.get(), good.data(), good.size(), nullptr), TRL_OK);
  EXPECT_EQ(get(config.get(), "learning_rate"), "0.001");
  EXPECT_EQ(get(config.get(), "bf16"), "false");
  const std::string bad = "seed: 8\nlearning_rate: 0.25\nno_such_key: 1\n";
  Error error;
  EXPECT_EQ(trl_config_load_text(config.get(), bad.data(), bad.size(), error), TRL_E_INVALID_CONFIG);
  EXPECT_TRUE(error.names("no_such_key")) << error.message();
  EXPECT_EQ(get(config.get(), "seed"), "7");
  EXPECT_EQ(get(config.get(), "learning_rate"), "0.001");

  const host::Scratch scratch;
  host::write_file(scratch / "run.yaml", "max_steps: 12\noptim: adamw_torch\n");
  ASSERT_EQ(trl_config_load(config.get(), (scratch / "run.yaml").c_str(), error), TRL_OK) << error.message();
  EXPECT_EQ(get(config.get(), "max_steps"), "12");
  EXPECT_EQ(trl_config_load(config.get(), (scratch / "none.yaml").c_str(), error), TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("none.yaml")) << error.message();
  host::write_file(scratch / "broken.yaml", "a: [1, 2\nb: }\n");
  EXPECT_EQ(trl_config_load(config.get(), (scratch / "broken.yaml").c_str(), error), TRL_E_FORMAT)
      << error.message();
}

TEST(Config, BorrowedTextLivesAsLongAsTheConfiguration) {
  const auto config = host::config({{"output_dir", "first"}});
  const char* first = nullptr;
  ASSERT_EQ(trl_config_get(config.get(), "output_dir", &first, nullptr), TRL_OK);
  for (int i = 0; i < 1000; ++i) {
    host::set(config.get(), {{"output_dir", "other" + std::to_string(i)}});
    get(config.get(), "output_dir");
  }
  EXPECT_STREQ(first, "first");
}

TEST(Config, GettersRunConcurrently) {
  const auto config = host::config({{"learning_rate", "0.5"}});
  std::vector<std::thread> readers;
  for (int t = 0; t < 4; ++t) {
    readers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) ASSERT_EQ(get(config.get(), "learning_rate"), "0.5");
    });
  }
  for (auto& reader : readers) reader.join();
}

TEST(Config, WarningsAreOfWhatWasSet) {
  const auto config = host::config({{"run_name", "a"}, {"project", "b"}});
  const std::string text = "seed: 1\nmax_steps: 2\nseed: 3\n";
  ASSERT_EQ(trl_config_load_text(config.get(), text.data(), text.size(), nullptr), TRL_OK);
  const char* json = nullptr;
  ASSERT_EQ(trl_config_get_warnings(config.get(), &json, nullptr), TRL_OK);
  const std::string warnings = json;
  EXPECT_NE(warnings.find("text:3: seed: the key is given twice, first in line 1; this one counts"),
            std::string::npos)
      << warnings;
  EXPECT_NE(warnings.find("run_name, project: "), std::string::npos) << warnings;
  EXPECT_EQ(get(config.get(), "seed"), "3");
  const auto none = host::config({});
  ASSERT_EQ(trl_config_get_warnings(none.get(), &json, nullptr), TRL_OK);
  EXPECT_STREQ(json, "[]");
}

TEST(Option, TheWalkCoversTheTable) {
  std::set<std::string> names;
  int trl = 0, ours = 0, sft = 0, refused = 0, ignored = 0;
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
    ASSERT_NE(trl_option_name(o), nullptr);
    EXPECT_TRUE(names.insert(trl_option_name(o)).second) << trl_option_name(o);
    const std::string origin = trl_option_origin(o);
    trl += origin == "trl";
    ours += origin == "ours";
    sft += std::string(trl_option_section(o)) == "SFTConfig";
    refused += trl_option_unsupported_reason(o)[0] != '\0';
    EXPECT_NE(trl_option_doc(o, nullptr)[0], '\0') << trl_option_name(o);
    EXPECT_STREQ(trl_option_since(o), "0.1.0");
    EXPECT_NE(trl_option_group(o)[0], '\0') << trl_option_name(o);
    ignored += trl_option_ignored_reason(o)[0] != '\0';
    const bool works = trl_option_unsupported_reason(o)[0] == '\0' && trl_option_ignored_reason(o)[0] == '\0';
    EXPECT_TRUE(!works || trl_option_taken(o)[0] == '\0') << trl_option_name(o);
    EXPECT_NE(trl_option_default(o, nullptr), nullptr);
    EXPECT_NE(trl_option_accepted(o, nullptr), nullptr);
    EXPECT_NE(trl_option_trainers(o), nullptr);
    EXPECT_GE(trl_option_type(o, nullptr), TRL_TYPE_BOOLEAN);
    EXPECT_LE(trl_option_type(o, nullptr), TRL_TYPE_MAP);
  }
  EXPECT_EQ(static_cast<int>(names.size()), trl + ours);
  EXPECT_EQ(sft, 135);
  EXPECT_GT(ours, 12);
  EXPECT_GT(refused, 10);
  EXPECT_GT(ignored, 10);
  EXPECT_TRUE(names.count("runtime.host_memory_limit"));
}

TEST(Option, OneRowHasWhatTrlSays) {
  const trl_option* found = nullptr;
  for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
    if (std::string(trl_option_name(o)) == "max_length") found = o;
  }
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(trl_option_type(found, nullptr), TRL_TYPE_INTEGER);
  EXPECT_EQ(trl_option_nullable(found), 1);
  EXPECT_STREQ(trl_option_default(found, nullptr), "1024");
  EXPECT_NE(std::string(trl_option_aliases(found)).find("max_seq_length"), std::string::npos);
  EXPECT_NE(std::string(trl_option_trainers(found)).find("sft"), std::string::npos);
  EXPECT_NE(std::string(trl_option_other_names(found)).find("cutoff_len"), std::string::npos);
  EXPECT_STREQ(trl_option_default(found, "dpo"), "1024");
  EXPECT_EQ(trl_option_default(found, "grpo"), nullptr) << "GRPO has no max_length";
  EXPECT_EQ(trl_option_default(found, "sfd"), nullptr);
  EXPECT_STREQ(trl_option_accepted(found, nullptr), trl_option_accepted(found, "sft"));
  EXPECT_EQ(trl_option_accepted(found, "grpo"), nullptr);
  EXPECT_EQ(trl_option_type(found, "grpo"), -1);
  EXPECT_STREQ(trl_option_doc(found, "dpo"), trl_option_doc(found, nullptr));
  EXPECT_EQ(trl_option_doc(found, "grpo"), nullptr);
}

const trl_option* option(std::string_view name) {
  const trl_option* found = trl_option_next(nullptr);
  while (found != nullptr && name != trl_option_name(found)) found = trl_option_next(found);
  return found;
}

// What trl_config_set takes of a key for a trainer is what its type says.
TEST(Option, TheTypeIsTheTrainers) {
  EXPECT_EQ(trl_option_type(option("beta"), nullptr), TRL_TYPE_NUMBER);
  EXPECT_EQ(trl_option_type(option("beta"), "dpo"), TRL_TYPE_NUMBER);
  EXPECT_EQ(trl_option_type(option("beta"), "online_dpo"), TRL_TYPE_LIST);
  EXPECT_EQ(trl_option_type(option("beta"), "sft"), -1);
  EXPECT_STREQ(trl_option_default(option("beta"), "online_dpo"), "[0.1]");
  EXPECT_EQ(trl_option_type(option("loss_type"), "sft"), TRL_TYPE_CHOICE);
  EXPECT_EQ(trl_option_type(option("loss_type"), "dpo"), TRL_TYPE_LIST);
  EXPECT_EQ(trl_option_type(option("loss_type"), "kto"), TRL_TYPE_CHOICE);
  EXPECT_STRNE(trl_option_doc(option("loss_type"), "dpo"), trl_option_doc(option("loss_type"), nullptr));
  EXPECT_EQ(trl_option_type(option("report_to"), nullptr), TRL_TYPE_LIST);
  EXPECT_EQ(trl_option_type(option("report_to"), "sft"), TRL_TYPE_LIST);
}

TEST(Option, WhatIsNoOptionHasNothing) {
  const std::vector<char> block(256);
  for (const auto* wrong :
       {static_cast<const trl_option*>(nullptr), reinterpret_cast<const trl_option*>(block.data())}) {
    EXPECT_EQ(trl_option_name(wrong), nullptr);
    EXPECT_EQ(trl_option_section(wrong), nullptr);
    EXPECT_EQ(trl_option_origin(wrong), nullptr);
    for (const char* trainer : {static_cast<const char*>(nullptr), "sft"}) {
      EXPECT_EQ(trl_option_default(wrong, trainer), nullptr);
      EXPECT_EQ(trl_option_accepted(wrong, trainer), nullptr);
      EXPECT_EQ(trl_option_doc(wrong, trainer), nullptr);
      EXPECT_EQ(trl_option_type(wrong, trainer), -1);
    }
    EXPECT_EQ(trl_option_trainers(wrong), nullptr);
    EXPECT_EQ(trl_option_aliases(wrong), nullptr);
    EXPECT_EQ(trl_option_other_names(wrong), nullptr);
    EXPECT_EQ(trl_option_since(wrong), nullptr);
    EXPECT_EQ(trl_option_unsupported_reason(wrong), nullptr);
    EXPECT_EQ(trl_option_ignored_reason(wrong), nullptr);
    EXPECT_EQ(trl_option_taken(wrong), nullptr);
    EXPECT_EQ(trl_option_group(wrong), nullptr);
    EXPECT_EQ(trl_option_nullable(wrong), -1);
  }
  EXPECT_EQ(trl_option_next(reinterpret_cast<const trl_option*>(block.data())), nullptr);
}

TEST(Version, IsTheHeaders) {
  EXPECT_EQ(trl_version(),
            static_cast<uint32_t>(TRL_VERSION_MAJOR << 16 | TRL_VERSION_MINOR << 8 | TRL_VERSION_PATCH));
  EXPECT_STREQ(trl_version_string(), "0.1.0");
  const Json info = host::parse(trl_build_info());
  EXPECT_EQ(info["version"], "0.1.0");
#ifdef TRL_CPU_SCALAR
  EXPECT_EQ(info["cpu"], "scalar");
#else
  EXPECT_EQ(info["cpu"], "auto");
#endif
  std::string doc = host::read_file(TRL_SOURCE_DIR "/include/trl/trl.h");
  doc.resize(doc.find("trl_has_feature(const char* name)"));
  doc.erase(0, doc.rfind("Whether this build has a feature."));
  for (const auto& feature : info["features"]) {
    const std::string name = feature.get<std::string>();
    EXPECT_EQ(trl_has_feature(name.c_str()), 1);
    const char* schema = nullptr;
    const bool trainer = trl_config_get_schema(name.c_str(), &schema, nullptr) == TRL_OK;
    EXPECT_TRUE(trainer || doc.find(name) != std::string::npos) << name << " is not in trl.h";
  }
  EXPECT_EQ(trl_has_feature("gguf"), 1);
  for (const char* of_engine :
       {"engine", "generate", "lora", "sft", "dpo", "kto", "reward", "online_dpo", "online-dpo"})
    EXPECT_EQ(trl_has_feature(of_engine), info["engine"].get<bool>() ? 1 : 0);
  EXPECT_EQ(trl_has_feature("teleport"), 0);
  EXPECT_EQ(trl_has_feature(nullptr), 0);
}

}  // namespace
