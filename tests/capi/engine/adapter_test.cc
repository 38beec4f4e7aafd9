// Adapters through the C API: trained, saved alone and merged, added to a model, used, merged and removed.
#include <algorithm>
#include <cmath>

#include "engine/run.h"

namespace {

using host::Error;
using host::greedy;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

using Ids = std::vector<int32_t>;

// A run that learns enough for its greedy text to be another one.
struct AdapterRun {
  AdapterRun() {
    EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
    Error error;
    EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_trainer_save(trainer.get(), (scratch / "merged").c_str(),
                               host::config({{"save.kind", "merged"}}).get(), error),
              TRL_OK)
        << error.message();
  }
  host::Scratch scratch;
  host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  host::Trainer trainer = host::trainer(
      host::with(host::tiny(scratch / "out"),
                 {{"use_peft", "true"}, {"lora_r", "4"}, {"lora_dropout", "0"}, {"learning_rate", "0.05"}}),
      rows.get());
};

TEST(Adapter, AConversionMergesIt) {
  NEED_MODEL();
  const AdapterRun run;
  const std::string base = host::golden("models/qwen2"), saved = run.scratch / "out";
  const auto convert = [&](const std::string& path, const std::string& target, host::Settings settings) {
    Error error;
    settings.emplace_back("save.kind", "merged");
    const trl_status status = trl_model_convert(nullptr, path.c_str(), (run.scratch / target).c_str(),
                                                host::config(settings).get(), error);
    return std::pair<trl_status, std::string>(status, status == TRL_OK ? "" : error.message());
  };
  const std::pair<trl_status, std::string> done = {TRL_OK, ""};
  EXPECT_EQ(convert(saved, "again", {}), done);
  EXPECT_TRUE(host::read_safetensors(run.scratch / "again/model.safetensors") ==
              host::read_safetensors(run.scratch / "merged/model.safetensors"));
  EXPECT_EQ(convert(saved, "m.gguf", {{"convert.base", base}}), done);
  EXPECT_EQ(convert(saved, "m.gguf", {}), done);  // files are replaced
  EXPECT_EQ(convert(base, "half", {{"adapter_name_or_path", saved}, {"convert.type", "BF16"}}), done);
  const Ids merged = greedy(host::open_model(run.scratch / "merged").get());
  EXPECT_EQ(greedy(host::open_model(run.scratch / "m.gguf").get()), merged);
  const auto half = host::parse(host::read_file(run.scratch / "half/config.json"));
  EXPECT_EQ(half.contains("dtype") ? half["dtype"] : half["torch_dtype"], "bfloat16");
  const auto refused = [](const std::string& message) {
    return std::pair<trl_status, std::string>(TRL_E_INVALID_CONFIG, message);
  };
  EXPECT_EQ(convert(saved, "x", {{"convert.type", "f16"}, {"dtype", "bfloat16"}}),
            refused("convert.type: f16 contradicts dtype: bfloat16: give one of them"));
  EXPECT_EQ(convert(base, "x", {}),
            refused("save.kind: merged needs an adapter, and " + base +
                    " is a model: give the adapter's directory, or adapter_name_or_path"));
  EXPECT_EQ(convert(saved, "x", {{"adapter_name_or_path", saved}}),
            refused("adapter_name_or_path: " + saved + " is an adapter itself: give one of them"));
  for (const auto& [key, value] : {std::pair{"adapter_name_or_path", saved.c_str()}, {"dtype", "float32"}}) {
    Error error;
    EXPECT_EQ(trl_model_convert(nullptr, base.c_str(), (run.scratch / "x").c_str(),
                                host::config({{key, value}}).get(), error),
              TRL_E_INVALID_CONFIG);
    EXPECT_EQ(error.key(), key);
  }
  EXPECT_EQ(convert(saved, "x", {{"convert.type", "q8_0"}}),
            std::pair(trl_status{TRL_E_UNSUPPORTED},
                      std::string("convert.type: q8_0 is not written to a directory; give f32, f16, bf16, or "
                                  "a target whose name ends in .gguf")));
  EXPECT_FALSE(std::filesystem::exists(run.scratch / "x"));
}

TEST(Adapter, IsAddedUsedMergedAndRemoved) {
  NEED_MODEL();
  const AdapterRun run;
  const std::string base = host::golden("models/qwen2"), saved = run.scratch / "out";
  EXPECT_FALSE(std::filesystem::exists(run.scratch / "out/model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(run.scratch / "merged/model.safetensors"));
  const Ids alone = greedy(host::open_model(base).get()),
            merged = greedy(host::open_model(run.scratch / "merged").get());
  ASSERT_NE(alone, merged);
  EXPECT_EQ(greedy(host::open_model(base, {{"adapter_name_or_path", saved}}).get()), merged);

  const host::Model model = host::open_model(base);
  Error error;
  const auto use = [&](const char* name) { return trl_model_use_adapter(model.get(), name, error); };
  ASSERT_EQ(trl_model_add_adapter(model.get(), "mine", saved.c_str(), error), TRL_OK) << error.message();
  EXPECT_EQ(greedy(model.get()), alone);
  EXPECT_EQ(use("mine"), TRL_OK);
  EXPECT_EQ(greedy(model.get()), merged);
  EXPECT_EQ(use(nullptr), TRL_OK);
  EXPECT_EQ(greedy(model.get()), alone);
  ASSERT_EQ(trl_model_merge_adapter(model.get(), "mine", error), TRL_OK) << error.message();
  EXPECT_EQ(greedy(model.get()), merged);
  EXPECT_EQ(use(nullptr), TRL_E_BUSY);
  EXPECT_EQ(trl_model_merge_adapter(model.get(), nullptr, error), TRL_OK);
  EXPECT_EQ(use("other"), TRL_E_NOT_FOUND);
  EXPECT_EQ(std::string(error.message()), "the model has no adapter \"other\"; it has mine");
  EXPECT_EQ(trl_model_remove_adapter(model.get(), "mine", error), TRL_OK);
  EXPECT_EQ(greedy(model.get()), alone);
  EXPECT_EQ(use("mine"), TRL_E_NOT_FOUND);
}

// One directory under two names: the reference stays as it is, whatever becomes of the other.
// Beside a run: generating names the adapter, and the run is as without.
TEST(Adapter, IsAddedToATrainer) {
  NEED_MODEL();
  const AdapterRun saved;
  const host::Scratch scratch;
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Settings settings = {{"use_peft", "true"}, {"lora_dropout", "0"}, {"max_steps", "2"}};
  const auto trainer = host::trainer(host::with(host::tiny(scratch / "out"), settings), rows.get());
  const auto alone = host::trainer(host::with(host::tiny(scratch / "alone"), settings), rows.get());
  const std::string path = saved.scratch / "out";
  Error error;
  const host::Model model = host::model_of(trainer.get());
  ASSERT_EQ(trl_model_add_adapter(model.get(), "mine", path.c_str(), error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
  const host::Generator generator = host::generator_of(trainer.get());
  const std::string base = host::golden("models/qwen2");
  const host::Model with = host::open_model(base, {{"adapter_name_or_path", path}});
  EXPECT_EQ(greedy(generator.get(), "mine"), greedy(with.get()));
  EXPECT_EQ(greedy(generator.get(), "none"), greedy(host::open_model(base).get()));
  EXPECT_NE(greedy(generator.get(), "mine"), greedy(generator.get(), "none"));
  EXPECT_EQ(greedy(generator.get(), "default"), greedy(generator.get(), nullptr));
  EXPECT_EQ(greedy(generator.get(), "yours"), Ids());
  EXPECT_EQ(trl_model_add_adapter(model.get(), "mine", path.c_str(), error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_model_add_adapter(model.get(), "none", path.c_str(), error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_model_remove_adapter(model.get(), "default", error), TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("those of the run itself stay")) << error.message();
  const host::Model second = host::model_of(trainer.get());  // the same model
  EXPECT_EQ(trl_model_remove_adapter(second.get(), "mine", error), TRL_OK) << error.message();
  EXPECT_EQ(trl_model_remove_adapter(model.get(), "mine", error), TRL_E_NOT_FOUND);
  for (const auto* run : {&trainer, &alone})
    ASSERT_EQ(trl_trainer_train(run->get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(host::state(trainer.get())["log_history"][1]["loss"],
            host::state(alone.get())["log_history"][1]["loss"]);
}

TEST(Adapter, NoneGeneratesWithTheModelAlone) {
  NEED_MODEL();
  const AdapterRun run;
  const host::Generator generator = host::generator_of(run.trainer.get());
  const Ids alone = greedy(host::open_model(host::golden("models/qwen2")).get());
  EXPECT_EQ(greedy(generator.get(), "none"), alone);
  EXPECT_NE(greedy(generator.get(), nullptr), alone);
}

TEST(Adapter, IsKeptAsAReference) {
  NEED_MODEL();
  const AdapterRun run;
  const std::string saved = run.scratch / "out";
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  const Ids alone = greedy(model.get());
  Error error;
  for (const char* name : {"default", "ref"})
    ASSERT_EQ(trl_model_add_adapter(model.get(), name, saved.c_str(), error), TRL_OK) << error.message();
  ASSERT_EQ(trl_model_use_adapter(model.get(), "ref", error), TRL_OK);
  const Ids reference = greedy(model.get());
  EXPECT_NE(reference, alone);
  ASSERT_EQ(trl_model_merge_adapter(model.get(), "default", error), TRL_OK) << error.message();
  EXPECT_EQ(trl_model_use_adapter(model.get(), "ref", error), TRL_E_BUSY);
  ASSERT_EQ(trl_model_remove_adapter(model.get(), "default", error), TRL_OK);
  EXPECT_EQ(greedy(model.get()), alone);
  ASSERT_EQ(trl_model_use_adapter(model.get(), "ref", error), TRL_OK) << error.message();
  EXPECT_EQ(greedy(model.get()), reference);
}

TEST(Adapter, IsSavedFromAModel) {
  NEED_MODEL();
  const AdapterRun run;
  const std::string base = host::golden("models/qwen2"), saved = run.scratch / "out";
  const host::Model model = host::open_model(base);
  Error error;
  const auto save = [&](const char* name, const char* kind) {
    return trl_model_save(model.get(), (run.scratch / name).c_str(),
                          host::config({{"save.kind", kind}}).get(), error);
  };
  EXPECT_EQ(save("none", "adapter"), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(save("none", "checkpoint"), TRL_E_INVALID_CONFIG);
  EXPECT_FALSE(std::filesystem::exists(run.scratch / "none"));
  ASSERT_EQ(trl_model_add_adapter(model.get(), "mine", saved.c_str(), error), TRL_OK) << error.message();
  ASSERT_EQ(trl_model_use_adapter(model.get(), "mine", error), TRL_OK);
  for (const char* kind : {"adapter", "merged", "model"})
    ASSERT_EQ(save(kind, kind), TRL_OK) << error.message();
  const auto bytes = [&](const std::string& name) { return host::read_file(run.scratch / name); };
  EXPECT_EQ(bytes("adapter/adapter_model.safetensors"), bytes("out/adapter_model.safetensors"));
  EXPECT_EQ(bytes("adapter/adapter_config.json"), bytes("out/adapter_config.json"));
  EXPECT_EQ(bytes("merged/model.safetensors"), bytes("merged/model.safetensors"));
  const Ids alone = greedy(host::open_model(base).get()), merged = greedy(model.get());
  EXPECT_EQ(greedy(host::open_model(run.scratch / "model").get()), alone);
  EXPECT_EQ(greedy(host::open_model(run.scratch / "merged").get()), merged);
  EXPECT_TRUE(std::filesystem::exists(run.scratch / "adapter/tokenizer.json"));
  EXPECT_NE(bytes("out/README.md").find("\n- sft\n- transformers\n- trl\n"), std::string::npos);
  EXPECT_TRUE(bytes("adapter/README.md").starts_with("---\nbase_model: "));
  host::write_file(run.scratch / "adapter/README.md", "mine");
  ASSERT_EQ(save("adapter", "adapter"), TRL_OK) << error.message();
  EXPECT_EQ(bytes("adapter/README.md"), "mine");
}

// It is trained on: the run begins with what it holds.
TEST(Adapter, GoesOnFromASavedOne) {
  NEED_MODEL();
  const AdapterRun run;
  const host::Scratch scratch;
  const auto settings = host::with(
      host::tiny(scratch / "out"),
      {{"use_peft", "true"}, {"learning_rate", "0"}, {"adapter_name_or_path", run.scratch / "out"}});
  const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Trainer trainer = host::trainer(settings, rows.get());
  ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(host::read_file(scratch / "out/adapter_model.safetensors"),
            host::read_file(run.scratch / "out/adapter_model.safetensors"));
  // The same for the adapter's directory as the model, which opens the model that it was trained on.
  const auto as_model =
      host::with(host::tiny(scratch / "again", "models/qwen2"),
                 {{"use_peft", "true"}, {"learning_rate", "0"}, {"model_name_or_path", run.scratch / "out"}});
  const host::Trainer again = host::trainer(as_model, rows.get());
  ASSERT_EQ(trl_trainer_train(again.get(), nullptr, nullptr, nullptr), TRL_OK);
  ASSERT_EQ(trl_trainer_save(again.get(), nullptr, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(host::read_file(scratch / "again/adapter_model.safetensors"),
            host::read_file(run.scratch / "out/adapter_model.safetensors"));
  trl_trainer* refused = nullptr;
  Error error;
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(host::with(settings, {{"lora_r", "8"}})).get(),
                               rows.get(), nullptr, &refused, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), std::string("lora_r"));
}

std::string header_of(const std::string& safetensors) {
  const std::string bytes = host::read_file(safetensors);
  uint64_t size = 0;
  std::memcpy(&size, bytes.data(), sizeof size);
  return bytes.substr(8, size);
}

// models/qwen2 as bitsandbytes saves it in NF4.
void write_quantised_model(const std::string& directory) {
  std::filesystem::copy(host::golden("models/qwen2"), directory);
  std::filesystem::rename(directory + "/model.safetensors", directory + "/others.safetensors");
  std::filesystem::copy(host::golden("quantization/nf4.safetensors"), directory + "/quantised.safetensors");
  Json config = host::parse(host::read_file(directory + "/config.json")), map = Json::object();
  config["quantization_config"] = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};
  host::write_file(directory + "/config.json", config.dump());
  for (const char* const file : {"others.safetensors", "quantised.safetensors"}) {
    const Json header = host::parse(header_of(directory + "/" + file));
    for (const auto& [name, tensor] : header.items()) {
      if (name != "__metadata__") map[name] = file;
    }
  }
  host::write_file(directory + "/model.safetensors.index.json",
                   Json({{"metadata", Json::object()}, {"weight_map", map}}).dump());
}

// As TRL trains it, where no option but the checkpoint itself says that the weights are quantised; a new one,
// and one that was saved in float32.
// autocast_adapter_dtype: false gives the factors the type of the model.
TEST(Adapter, HasTheTypeThatIsAskedFor) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  for (const char* dtype : {"float32", "bfloat16"}) {
    for (const char* autocast : {"true", "false"}) {
      const std::string out = scratch / (std::string(dtype) + autocast);
      const auto trainer = host::trainer(host::with(host::tiny(out), {{"use_peft", "true"},
                                                                      {"dtype", dtype},
                                                                      {"autocast_adapter_dtype", autocast},
                                                                      {"max_steps", "1"}}),
                                         rows.get());
      Error error;
      ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
      const bool narrow = dtype == std::string("bfloat16") && autocast == std::string("false");
      const std::string file = host::read_file(out + "/adapter_model.safetensors");
      EXPECT_EQ(file.find("\"BF16\"") != std::string::npos, narrow) << dtype << " " << autocast;
      EXPECT_EQ(file.find("\"F32\"") != std::string::npos, !narrow) << dtype << " " << autocast;
    }
  }
}

TEST(Adapter, UponAQuantisedCheckpointIsBfloat16) {
  NEED_MODEL();
  NEED_GOLDEN("quantization/nf4.safetensors");
  const AdapterRun run;
  const host::Scratch scratch;
  write_quantised_model(scratch / "base");
  const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const std::string out = scratch / "out";
  for (const host::Settings& more :
       {host::Settings{{"lora_r", "4"}}, host::Settings{{"adapter_name_or_path", run.scratch / "out"}}}) {
    const auto settings = host::with(
        host::with(host::tiny(out), {{"model_name_or_path", scratch / "base"}, {"use_peft", "true"}}), more);
    const host::Trainer trainer = host::trainer(settings, rows.get());
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
    const Json header = host::parse(header_of(out + "/adapter_model.safetensors"));
    EXPECT_GT(header.size(), 2u);
    for (const auto& [name, tensor] : header.items()) {
      if (name != "__metadata__") {
        EXPECT_EQ(tensor["dtype"], "BF16") << name;
      }
    }
  }
}

std::vector<std::string> tensors_outside_layers(const std::string& safetensors) {
  std::vector<std::string> names;
  const Json header = host::parse(header_of(safetensors));
  for (const auto& [name, tensor] : header.items()) {
    if (name != "__metadata__" && name.find(".layers.") == name.npos)
      names.push_back(name + " " + tensor["shape"][0].dump());
  }
  std::sort(names.begin(), names.end());
  return names;
}

host::Settings with_new_tokens(const std::string& model, const std::string& out) {
  return host::with(host::tiny(out, model), {{"use_peft", "true"},
                                             {"lora_r", "4"},
                                             {"lora_alpha", "8"},
                                             {"lora_dropout", "0"},
                                             {"lora_target_modules", "[q_proj, v_proj]"},
                                             {"chat_template_path", host::golden("models/qwen2")},
                                             {"max_steps", "3"}});
}

host::Dataset chat_rows() {
  const char* const two[] = {
      R"({"messages": [{"role": "user", "content": "one two three"}, {"role": "assistant", "content": "four five"}]})",
      R"({"messages": [{"role": "user", "content": "six"}, {"role": "assistant", "content": "seven eight nine ten"}]})"};
  std::string lines;
  for (int i = 0; i < 8; ++i) lines += std::string(two[i % 2]) + "\n";
  return host::rows(lines);
}

// The new tokens and the head are trained, and the file holds the embedding that was given rows for them. The
// tied model has the same tokens in its head, where TRL fails.
TEST(Adapter, TrainsTheTokensOfATemplateModel) {
  NEED_MODEL();
  NEED_GOLDEN("models/llama3/model.safetensors");
  NEED_GOLDEN("models/llama/model.safetensors");
  const std::string prefix = "base_model.model.";
  const std::vector<std::string> table = {
      prefix + "model.embed_tokens.token_adapter.base_layer.weight 512",
      prefix + "model.embed_tokens.token_adapter.trainable_tokens_delta 64"};
  const auto rows = chat_rows();
  for (const bool tied : {false, true}) {
    const std::string model = tied ? "models/llama" : "models/llama3";
    const host::Scratch scratch;
    const host::Trainer trainer = host::trainer(with_new_tokens(model, scratch / "out"), rows.get());
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), (scratch / "merged").c_str(),
                               host::config({{"save.kind", "merged"}}).get(), error),
              TRL_OK)
        << error.message();
    std::vector<std::string> want = table;
    if (!tied) want.insert(want.begin(), prefix + "lm_head.weight 512");
    EXPECT_EQ(tensors_outside_layers(scratch / "out/adapter_model.safetensors"), want);
    // The adapter brings its rows and its tokenizer.
    const Ids merged = greedy(host::open_model(scratch / "merged").get());
    EXPECT_EQ(greedy(host::open_model(scratch / "out").get()), merged);
    const host::Model base = host::open_model(host::golden(model));
    EXPECT_EQ(trl_model_add_adapter(base.get(), "mine", (scratch / "out").c_str(), error), TRL_E_FORMAT);
  }
}

host::Settings of_case(const Json& want, const std::string& out) {
  const bool reward = want["lora"]["task_type"] == "SEQ_CLS";
  host::Settings settings =
      host::with(with_new_tokens("models/" + want["model"].get<std::string>(), out),
                 {{"method", reward ? "reward" : "sft"},
                  {"chat_template_path", host::golden("models/" + want["source"].get<std::string>())},
                  {"lora_task_type", want["lora"]["task_type"].get<std::string>()},
                  {"per_device_train_batch_size", "2"},
                  {"save_strategy", "no"},
                  {"max_steps", "4"}});
  for (const auto& [key, value] : want["args"].items())
    settings.emplace_back(key, value.is_string() ? value.get<std::string>() : value.dump());
  return settings;
}

// One of the rows of the tokens: float32, whatever the model is.
std::vector<float> token_row(const std::string& directory, const Json& want) {
  const std::string file = directory + "/adapter_model.safetensors";
  const std::string name = want["name"];
  EXPECT_EQ(host::parse(header_of(file))[name]["dtype"], "F32");
  const host::Tensor rows = host::read_safetensors(file).at(name);
  EXPECT_EQ(Json(rows.shape), want["shape"]);
  const auto first = rows.values.begin() + want["row"].get<int64_t>() * rows.shape[1];
  return {first, first + rows.shape[1]};
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (size_t i = 0; i < a.size(); ++i) squares += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
  return std::sqrt(squares);
}

// Compares the first factors, which are drawn after the rows of new tokens, and four steps with TRL's
// (tests/parity/record_template_adapters.py).
TEST(Adapter, BesideNewTokensIsTrls) {
  NEED_MODEL();
  NEED_GOLDEN("models/llama3/model.safetensors");
  const Json cases = host::golden_json("template_model/adapters.json");
  EXPECT_EQ(cases.size(), 5u);
  for (const Json& want : cases) {
    SCOPED_TRACE(want["name"].get<std::string>());
    const bool narrow = want["args"]["bf16"];
    std::string lines;
    for (int i = 0; i < 8; ++i) lines += want["rows"][i % 2].dump() + "\n";
    const auto rows = host::rows(lines);
    const host::Scratch scratch;
    const host::Trainer trainer = host::trainer(of_case(want, scratch / "out"), rows.get());
    Error error;
    const std::string begin = scratch / "begin", end = scratch / "end";
    ASSERT_EQ(trl_trainer_save(trainer.get(), begin.c_str(), nullptr, error), TRL_OK) << error.message();
    const auto tensors = host::read_safetensors(begin + "/adapter_model.safetensors");
    for (const auto& [name, values] : want["factors"].items()) {
      for (size_t i = 0; i < values.size(); ++i)
        EXPECT_NEAR(tensors.at(name).values[i], values[i].get<double>(), 1e-8) << name;
    }
    const Json& tokens = want["tokens"];
    const std::vector<float> first = tokens["begin"], last = tokens["end"];
    EXPECT_LE(distance(token_row(begin, tokens), first), 1e-7);
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    const Json history = host::state(trainer.get())["log_history"];
    for (size_t i = 0; i < want["records"].size(); ++i) {
      for (const char* key : {"loss", "grad_norm"})
        EXPECT_TRUE(host::close(history[i][key], want["records"][i][key],
                                trl::test::Limit{1e-6, narrow ? 2e-2 : 1e-4}))
            << i << " " << key << " " << history[i][key] << " for " << want["records"][i][key];
    }
    ASSERT_EQ(trl_trainer_save(trainer.get(), end.c_str(), nullptr, error), TRL_OK) << error.message();
    EXPECT_LE(distance(token_row(end, tokens), last), (narrow ? 0.1 : 1e-3) * distance(first, last));
  }
}

// A new adapter changes nothing, and with a learning rate of 0 that stays so: no answer is preferred to
// another, as in TRL, whose accuracies are 0 then.
TEST(Adapter, WithDoraBeginsAsTheModel) {
  NEED_MODEL();
  NEED_GOLDEN("models/qwen2_bf16/model.safetensors");
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_pref.jsonl"));
  for (const host::Settings& more : std::vector<host::Settings>{{},
                                                                {{"bf16", "true"}},
                                                                {{"fused_kernels", "off"}},
                                                                {{"dtype", "bfloat16"}},
                                                                {{"load_in_4bit", "true"}}}) {
    SCOPED_TRACE(more.empty() ? "" : more.front().first);
    const host::Scratch scratch;
    const host::Settings settings =
        host::with(host::tiny(scratch / "out"), {{"method", "dpo"},
                                                 {"use_peft", "true"},
                                                 {"use_dora", "true"},
                                                 {"lora_target_modules", "all-linear"},
                                                 {"learning_rate", "0"},
                                                 {"max_steps", "3"},
                                                 {"save_strategy", "no"}});
    const host::Trainer trainer = host::trainer(host::with(settings, more), rows.get());
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    const Json history = host::state(trainer.get())["log_history"];
    for (size_t i = 0; i < 3; ++i) {
      for (const char* key : {"rewards/accuracies", "rewards/chosen", "rewards/rejected", "rewards/margins"})
        EXPECT_EQ(history[i][key].get<double>(), 0) << i << " " << key;
    }
  }
}

// Named as the model or beside it, planned or trained on.
TEST(Adapter, OfNewTokensGoesOnWithItsOwnTokenizer) {
  NEED_MODEL();
  NEED_GOLDEN("models/llama3/model.safetensors");
  const auto rows = chat_rows();
  const host::Scratch scratch;
  const std::string adapter = scratch / "out";
  Error error;
  {
    const host::Trainer trainer = host::trainer(with_new_tokens("models/llama3", adapter), rows.get());
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  }
  const auto settings = [&](const std::string& out, const host::Settings& more) {
    return host::with(host::tiny(scratch / out, "models/llama3"),
                      host::with({{"use_peft", "true"}, {"max_steps", "1"}, {"save_strategy", "no"}}, more));
  };
  const auto expect_planned = [&](const host::Settings& of, const trl_dataset* from) {
    const auto runtime = host::runtime();
    const char* json = nullptr;
    EXPECT_EQ(trl_trainer_plan(runtime.get(), host::config(of).get(), from, &json, nullptr, error), TRL_OK)
        << error.message();
  };
  const auto expect_same_tokens = [&](const std::string& out) {
    for (const char* file : {"tokenizer.json", "chat_template.jinja"})
      EXPECT_EQ(host::read_file(scratch / out / file), host::read_file(scratch / "out" / file)) << file;
  };
  int run = 0;
  for (const host::Settings& named :
       std::vector<host::Settings>{{{"model_name_or_path", adapter}},
                                   {{"adapter_name_or_path", adapter}},
                                   {{"adapter_name_or_path", adapter}, {"memory_budget", "2GB"}}}) {
    const std::string out = "again" + std::to_string(++run);
    expect_planned(settings(out, named), nullptr);
    expect_planned(settings(out, named), rows.get());
    const host::Trainer trainer = host::trainer(settings(out, named), rows.get());
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    expect_same_tokens(out);
  }
}

TEST(Adapter, WhatDoesNotFitIsRefused) {
  NEED_MODEL();
  const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Scratch scratch;
  const std::vector<std::pair<host::Settings, std::string>> cases = {
      {{{"lora_target_modules", "[q_prj]"}}, "lora_target_modules"},
      {{{"lora_target_modules", "[lm_head]"}}, "lora_target_modules"},
      {{{"lora_r", "65"}}, "lora_r"},
      {{{"peft_config", "{layers_to_transform: [7]}"}}, "layers_to_transform"},
      {{{"peft_config", "{peft_type: IA3}"}}, "peft_config"},
      {{{"peft_config", "{init_lora_weights: pissa}"}, {"load_in_4bit", "true"}}, "init_lora_weights"},
      {{{"peft_config", "{init_lora_weights: olora}"}, {"load_in_8bit", "true"}}, "init_lora_weights"},
      {{{"save_format", "gguf"}}, "save_format"},
      {{{"peft_config", "{inference_mode: true}"}}, "peft_config"},
      {{{"peft_config", "{r: 0}"}}, "peft_config"},
      {{{"peft_config", "{trainable_token_indices: [3], modules_to_save: [embed_tokens]}"}},
       "trainable_token_indices"},
      {{{"peft_config", "{trainable_token_indices: [3, 3]}"}}, "trainable_token_indices"},
      {{{"lora_target_modules", "[q_(proj]"}}, "lora_target_modules"},
      {{{"load_in_4bit", "true"}, {"load_in_8bit", "true"}}, "load_in_8bit"},
      {{{"load_in_4bit", "true"}, {"use_peft", "false"}}, "load_in_4bit"},
  };
  for (const auto& [more, key] : cases) {
    trl_trainer* made = nullptr;
    Error error;
    const auto settings = host::with(host::with(host::tiny(scratch / "out"), {{"use_peft", "true"}}), more);
    EXPECT_EQ(trl_trainer_create(nullptr, host::config(settings).get(), rows.get(), nullptr, &made, error),
              TRL_E_INVALID_CONFIG)
        << key;
    EXPECT_EQ(error.key(), key) << error.message();
    EXPECT_EQ(made, nullptr);
  }
  const host::Model model = host::open_model(host::golden("models/qwen2"));
  Error error;
  EXPECT_EQ(trl_model_add_adapter(model.get(), "../x", "nowhere", error), TRL_E_NOT_FOUND);
  const AdapterRun run;
  const std::string saved = run.scratch / "out";
  EXPECT_EQ(trl_model_add_adapter(model.get(), "../x", saved.c_str(), error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(trl_model_add_adapter(model.get(), "twice", saved.c_str(), error), TRL_OK);
  EXPECT_EQ(trl_model_add_adapter(model.get(), "twice", saved.c_str(), error), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(error.message()), "the model already has an adapter \"twice\"");
  const host::Model other = host::open_model(host::golden("models/qwen3"));
  EXPECT_EQ(trl_model_add_adapter(other.get(), "mine", saved.c_str(), error), TRL_E_FORMAT);
  EXPECT_EQ(trl_model_use_adapter(other.get(), "mine", error), TRL_E_NOT_FOUND);
  const std::string config = scratch / "config";
  std::filesystem::create_directories(config);
  host::write_file(config + "/adapter_config.json", R"({"target_modules": ["query"]})");
  EXPECT_EQ(trl_model_add_adapter(model.get(), "mine", config.c_str(), error), TRL_E_FORMAT);
  EXPECT_TRUE(
      std::string(error.message()).starts_with(config + "/adapter_config.json: target_modules: query"))
      << error.message();
}

// Neither by a run that asks for it, before a row is read, nor from a saved one.
TEST(Adapter, OneOfExpertsIsNotWrittenToGguf) {
  NEED_MODEL();
  const host::Scratch scratch;
  Error error;
  trl_trainer* made = nullptr;
  const auto settings =
      host::with(host::tiny(scratch / "out"), {{"use_peft", "true"},
                                               {"lora_target_parameters", "[experts.down_proj]"},
                                               {"lora_dropout", "0"},
                                               {"save_format", "gguf"}});
  const host::Dataset no_rows = host::rows("no rows");
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(settings).get(), no_rows.get(), nullptr, &made, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(error.key(), "save_format");
  EXPECT_EQ(std::string(error.message()),
            "save_format: gguf saves a whole model, and with use_peft only an adapter is saved: give "
            "safetensors, or leave it out");

  const Json recorded = host::golden_json("adapters/experts.json")["mixtral_experts"];
  const std::string adapter = scratch / "adapter", file = scratch / "out.gguf";
  host::write_file(adapter + "/adapter_config.json", recorded["config"].dump());
  EXPECT_EQ(trl_model_convert(nullptr, adapter.c_str(), file.c_str(),
                              host::config({{"convert.base", host::golden("models/qwen2")}}).get(), error),
            TRL_E_UNSUPPORTED);
  EXPECT_EQ(std::string(error.message()),
            adapter +
                ": adapters of experts, routers and other parameters (target_parameters) are not written to "
                "GGUF by this version: merge the adapter into its model instead (save.kind merged)");
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
