// Bad input at the door of a trainer or a model: one clear error that names the place, and nothing left
// behind.
#include <cstring>
#include <functional>
#include <tuple>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// A copy of the tiny model in which something was changed.
class BrokenModel {
 public:
  BrokenModel() { host::copy_model("models/qwen2", path()); }
  std::filesystem::path path() const { return directory_ / "model"; }
  void edit_config(const std::function<void(Json&)>& edit) const { host::edit_config(path(), edit); }
  // The header of the weights, edited; the data as it was.
  void edit_header(const std::function<void(Json&)>& edit) const {
    const std::string bytes = host::read_file(path() / "model.safetensors");
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), 8);
    Json header = host::parse(bytes.substr(8, length));
    edit(header);
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t size = text.size();
    host::write_file(path() / "model.safetensors",
                     std::string(reinterpret_cast<const char*>(&size), 8) + text + bytes.substr(8 + length));
  }

 private:
  host::Scratch directory_;
};

struct Refused {
  trl_status status;
  std::string message;
  std::string key;
};

Refused open(const std::filesystem::path& path) {
  trl_model* model = nullptr;
  Error error;
  const trl_status status = trl_model_open(nullptr, path.c_str(), nullptr, &model, error);
  EXPECT_EQ(model != nullptr, status == TRL_OK);
  trl_model_destroy(model);
  return {status, error.message(), error.key()};
}

#define EXPECT_NAMES(refused, text) \
  EXPECT_NE((refused).message.find(text), std::string::npos) << (refused).message

TEST(BadModel, MissingDirectory) {
  const Refused refused = open("/nonexistent/model");
  EXPECT_EQ(refused.status, TRL_E_NOT_FOUND);
  EXPECT_NAMES(refused, "/nonexistent/model");
}

TEST(BadModel, UnknownFamilyNamesTheKnownOnes) {
  NEED_MODEL();
  const BrokenModel model;
  model.edit_config([](Json& c) {
    c["model_type"] = "quokka";
    c["architectures"] = {"QuokkaForCausalLM"};
  });
  const Refused refused = open(model.path());
  EXPECT_EQ(refused.status, TRL_E_UNSUPPORTED);
  EXPECT_NAMES(refused, "quokka");
  for (const char* family : {"llama", "mistral", "qwen2", "qwen3"}) EXPECT_NAMES(refused, family);
}

TEST(BadModel, MalformedConfig) {
  NEED_MODEL();
  const BrokenModel model;
  host::write_file(model.path() / "config.json", "{\"model_type\": \"qwen2\",\n nonsense}");
  const Refused refused = open(model.path());
  EXPECT_EQ(refused.status, TRL_E_FORMAT);
  EXPECT_NAMES(refused, "config.json:2");
}

TEST(BadModel, TruncatedWeights) {
  NEED_MODEL();
  const BrokenModel model;
  const std::string bytes = host::read_file(model.path() / "model.safetensors");
  for (const size_t size : {size_t{0}, size_t{4}, size_t{100}, bytes.size() / 2, bytes.size() - 1}) {
    host::write_file(model.path() / "model.safetensors", bytes.substr(0, size));
    const Refused refused = open(model.path());
    EXPECT_EQ(refused.status, TRL_E_FORMAT) << size;
    EXPECT_NAMES(refused, "model.safetensors");
  }
}

TEST(BadModel, LyingWeights) {
  NEED_MODEL();
  const std::string tensor = "model.layers.0.mlp.up_proj.weight";
  const std::vector<std::function<void(Json&)>> lies = {
      [&](Json& h) {
        h[tensor]["data_offsets"] = {0, uint64_t{1} << 62};
      },
      [&](Json& h) {
        h[tensor]["data_offsets"] = {400, 100};
      },
      [&](Json& h) {
        h[tensor]["shape"] = {uint64_t{1} << 40, uint64_t{1} << 40};
      },
      [&](Json& h) {
        h[tensor]["shape"] = {-1, 4};
      },
      [&](Json& h) { h[tensor]["dtype"] = "F13"; },
      [&](Json& h) { h[tensor] = 3; },
  };
  for (size_t i = 0; i < lies.size(); ++i) {
    const BrokenModel model;
    model.edit_header(lies[i]);
    const Refused refused = open(model.path());
    EXPECT_TRUE(refused.status == TRL_E_FORMAT || refused.status == TRL_E_UNSUPPORTED)
        << i << ": " << refused.message;
    EXPECT_NAMES(refused, "model.safetensors");
  }
  const BrokenModel huge;  // a header length beyond the file
  std::string bytes = host::read_file(huge.path() / "model.safetensors");
  std::memset(bytes.data(), 0x7f, 8);
  host::write_file(huge.path() / "model.safetensors", bytes);
  EXPECT_EQ(open(huge.path()).status, TRL_E_FORMAT);
}

TEST(BadModel, MissingTensorAndWrongShape) {
  NEED_MODEL();
  const std::string tensor = "model.layers.0.mlp.up_proj.weight";
  {
    const BrokenModel model;
    model.edit_header([&](Json& h) {
      h["other.weight"] = h[tensor];
      h.erase(tensor);
    });
    const Refused refused = open(model.path());
    EXPECT_EQ(refused.status, TRL_E_FORMAT);
    EXPECT_NAMES(refused, tensor);
  }
  const BrokenModel model;
  model.edit_header([&](Json& h) {
    const int64_t rows = h[tensor]["shape"][0], columns = h[tensor]["shape"][1];
    h[tensor]["shape"] = {columns, rows};
  });
  const Refused refused = open(model.path());
  EXPECT_EQ(refused.status, TRL_E_FORMAT);
  EXPECT_NAMES(refused, tensor);
}

TEST(BadModel, TruncatedGguf) {
  const host::Scratch scratch;
  for (const std::string& bytes :
       {std::string("GGUF"), std::string("GGUF\3\0\0\0", 8),
        std::string("GGUF\3\0\0\0\377\377\377\377\377\377\377\177\1\0\0\0\0\0\0\0", 24)}) {
    host::write_file(scratch / "model.gguf", bytes);
    const Refused refused = open(scratch / "model.gguf");
    EXPECT_EQ(refused.status, TRL_E_FORMAT) << refused.message;
    EXPECT_NAMES(refused, "model.gguf");
  }
  host::write_file(scratch / "model.gguf", std::string("GGUF\143", 5) + std::string(19, '\0'));
  const Refused newer = open(scratch / "model.gguf");
  EXPECT_EQ(newer.status, TRL_E_UNSUPPORTED);
  EXPECT_NAMES(newer, "99");
}

// A trainer over rows and settings that are wrong somewhere.
Refused create(std::string_view rows, const host::Settings& more) {
  const host::Scratch scratch;
  const auto dataset = host::rows(rows);
  trl_trainer* trainer = nullptr;
  Error error;
  const trl_status status =
      trl_trainer_create(nullptr, host::config(host::with(host::tiny(scratch / "out"), more)).get(),
                         dataset.get(), nullptr, &trainer, error);
  EXPECT_EQ(trainer != nullptr, status == TRL_OK);
  trl_trainer_destroy(trainer);
  return {status, error.message(), error.key()};
}

TEST(BadRows, AreRefusedWithTheirPlace) {
  NEED_MODEL();
  struct Case {
    std::string rows;
    const char* named;
  };
  const std::vector<Case> cases = {
      {"", "no row"},
      {"{\"text\": \"a\"}\n{\"text\": \n", "buffer:2"},
      {"{\"text\": \"a\"}\n[1]\n", "buffer:2"},
      {"{\"body\": \"a\"}\n", "body"},
      {"{\"text\": \"a\"}\n{\"text\": 7}\n", "buffer:2"},
      {"{\"text\": \"a\"}\n{\"text\": \"\xff\"}\n", "buffer:2"},
      {"{\"messages\": \"hello\"}\n", "messages"},
      {"{\"messages\": [{\"role\": \"user\"}]}\n", "buffer:1"},
      {"{\"prompt\": \"a\", \"completion\": [1]}\n", "buffer:1"},
  };
  for (const Case& c : cases) {
    const Refused refused = create(c.rows, {});
    EXPECT_EQ(refused.status, TRL_E_FORMAT) << c.rows << refused.message;
    EXPECT_NAMES(refused, c.named);
  }
}

TEST(BadRows, NothingLeftToTrainOnIsAnError) {
  NEED_MODEL();
  const Refused refused =
      create("{\"prompt\": \"a long long prompt of words\", \"completion\": \"b\"}\n", {{"max_length", "2"}});
  EXPECT_EQ(refused.status, TRL_E_FORMAT) << refused.message;
}

TEST(BadModel, DropoutIsARateThatTheAttentionKnows) {
  NEED_MODEL();
  const BrokenModel model;
  for (const auto& [rate, shown] :
       {std::pair<Json, const char*>{1.5, "1.5"}, {-0.1, "-0.1"}, {"much", "much"}}) {
    model.edit_config([&](Json& c) { c["attention_dropout"] = rate; });
    const Refused refused = open(model.path());
    EXPECT_EQ(refused.status, TRL_E_FORMAT) << refused.message;
    EXPECT_NAMES(refused, "attention_dropout");
    EXPECT_NAMES(refused, shown);
  }
  model.edit_config([](Json& c) { c["attention_dropout"] = 0.25; });
  const std::string rows = "{\"text\": \"a b c\"}\n";
  EXPECT_EQ(create(rows, {{"model_name_or_path", model.path()}}).status, TRL_OK);
  const Refused refused = create(rows, {{"model_name_or_path", model.path()},
                                        {"attn_implementation", "plugin:" TRL_TEST_PLUGINS "/attention.so"}});
  EXPECT_EQ(refused.status, TRL_E_UNSUPPORTED) << refused.message;
  EXPECT_EQ(refused.key, "attn_implementation");
  EXPECT_NAMES(refused, "dropout of 0.25 in attention");
}

// Of a trainer with a reference, whose rows are read only where the reference is accepted.
Refused refer(const std::filesystem::path& reference, const std::filesystem::path& policy, const char* method,
              std::string_view rows = "no rows") {
  const Refused refused = create(rows, {{"method", method},
                                        {"model_name_or_path", policy},
                                        {"loss_type", std::string(method) == "kto" ? "kto" : "sigmoid"},
                                        {"ref_model_name_or_path", reference}});
  if (refused.status != TRL_OK) {
    EXPECT_EQ(refused.key, "ref_model_name_or_path") << refused.message;
    EXPECT_NAMES(refused, "ref_model_name_or_path: " + reference.string());
  }
  return refused;
}

// The vocabulary of a copy, where two tokens have changed places.
void swap_tokens(const BrokenModel& model) {
  Json tokenizer = host::parse(host::read_file(model.path() / "tokenizer.json"));
  Json& vocabulary = tokenizer["model"]["vocab"];
  std::string first, second;
  for (const auto& [token, id] : vocabulary.items()) {
    if (id == 300) first = token;
    if (id == 301) second = token;
  }
  std::swap(vocabulary[first], vocabulary[second]);
  host::write_file(model.path() / "tokenizer.json", tokenizer.dump());
}

constexpr const char* kOtherToken = "has another vocabulary than the model that is trained (token 300";

// A reference that cannot be compared with is refused before rows are prepared.
TEST(BadReference, IsRefusedByItsKey) {
  NEED_MODEL();
  const std::string own = host::golden("models/qwen2");
  const host::Scratch scratch;
  host::write_file(scratch / "adapter" / "adapter_config.json", "{}");
  const BrokenModel classifier, other;
  classifier.edit_config([](Json& c) { c["architectures"] = {"Qwen2ForSequenceClassification"}; });
  swap_tokens(other);
  for (const char* method : {"dpo", "kto"}) {
    EXPECT_NAMES(refer(scratch / "adapter", own, method), "is an adapter: give the directory of a whole");
    EXPECT_NAMES(
        refer(classifier.path(), own, method),
        "config.json: \"architectures\" begins with \"Qwen2ForSequenceClassification\", a classifier");
    EXPECT_NAMES(refer(other.path(), own, method), kOtherToken);
  }
}

// To 480 rows of its 512, which come first in the file; what the other weights are is of no matter here.
void cut_embedding(const BrokenModel& model) {
  constexpr int64_t kBytes = 32 * 64 * 4;
  model.edit_config([](Json& c) { c["vocab_size"] = 480; });
  model.edit_header([](Json& h) {
    h["model.embed_tokens.weight"]["shape"][0] = 480;
    for (auto& [name, tensor] : h.items()) {
      if (name == "__metadata__") continue;
      for (Json& offset : tensor["data_offsets"])
        offset = std::max<int64_t>(0, offset.get<int64_t>() - kBytes);
    }
  });
  const std::filesystem::path file = model.path() / "model.safetensors";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - kBytes);
}

std::filesystem::path as_gguf(const std::filesystem::path& model, const std::filesystem::path& file) {
  Error error;
  EXPECT_EQ(trl_model_convert(nullptr, model.c_str(), file.c_str(), nullptr, error), TRL_OK)
      << error.message();
  return file;
}

// Tokens and sizes are compared whatever kind of file has them.
TEST(BadReference, GgufFilesAreComparedToo) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::filesystem::path own = host::golden("models/qwen2"),
                              own_file = as_gguf(own, scratch / "own.gguf");
  const BrokenModel other, small;
  swap_tokens(other);
  const auto other_file = as_gguf(other.path(), scratch / "other.gguf");
  cut_embedding(small);
  const auto small_file = as_gguf(small.path(), scratch / "small.gguf");
  const std::string rows = R"({"prompt": "a", "chosen": " b", "rejected": " c"})";
  for (const auto& policy : {own, own_file}) {
    SCOPED_TRACE(policy);
    for (const auto& reference : {own, own_file}) {
      const Refused refused = refer(reference, policy, "dpo", rows);
      EXPECT_EQ(refused.status, TRL_OK) << refused.message;
    }
    for (const auto& reference : {other.path(), other_file})
      EXPECT_NAMES(refer(reference, policy, "dpo"), kOtherToken);
    for (const auto& reference : {small.path(), small_file})
      EXPECT_NAMES(refer(reference, policy, "dpo", rows),
                   "has a vocabulary of 480 tokens, and the model that is trained one of 512");
  }
}

TEST(BadModel, AnAdapterIsTrainedOnOnlyWithUsePeft) {
  const host::Scratch scratch;
  host::write_file(
      scratch / "adapter" / "adapter_config.json",
      R"({"peft_type": "LORA", "base_model_name_or_path": "base", "target_modules": ["q_proj"]})");
  const Refused refused = create("{\"text\": \"a\"}", {{"model_name_or_path", scratch / "adapter"}});
  EXPECT_EQ(refused.key, "model_name_or_path");
  EXPECT_NAMES(refused, "is an adapter, which is trained on only with use_peft: give use_peft: true");
}

TEST(BadConfig, IsRefusedByKey) {
  NEED_MODEL();
  const std::string rows = "{\"text\": \"a b c\"}\n";
  const std::vector<std::pair<host::Settings, const char*>> cases = {
      {{{"model_name_or_path", "null"}}, "model_name_or_path"},
      {{{"eval_strategy", "steps"}}, "eval_strategy"},
      {{{"use_liger_kernel", "true"}, {"fused_kernels", "off"}}, "use_liger_kernel"},
      {{{"load_in_4bit", "true"}}, "load_in_4bit"},
      {{{"load_in_8bit", "true"}, {"load_in_4bit", "true"}}, "load_in_8bit"},
      {{{"eos_token", "<no_such_token>"}}, "eos_token"},
  };
  for (const auto& [settings, key] : cases) {
    const Refused refused = create(rows, settings);
    EXPECT_EQ(refused.status, TRL_E_INVALID_CONFIG) << refused.message;
    EXPECT_EQ(refused.key, key) << refused.message;
  }
  const auto config = host::config();
  Error error;
  for (const auto& [key, value] : host::Settings{{"fp16", "true"}, {"method", "cpo"}, {"optim", "lomo"}}) {
    EXPECT_EQ(trl_config_set(config.get(), key.c_str(), value.c_str(), error), TRL_E_INVALID_CONFIG) << key;
    EXPECT_EQ(error.key(), key) << error.message();
  }
}

// A GPT-2 of one layer, all zeros, that has learned 16 positions.
std::string small_gpt2(const host::Scratch& directory) {
  Json header = Json::object();
  uint64_t bytes = 0;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    uint64_t size = 4;
    for (const int64_t length : shape) size *= static_cast<uint64_t>(length);
    header["transformer." + name] = {
        {"dtype", "F32"}, {"shape", shape}, {"data_offsets", {bytes, bytes + size}}};
    bytes += size;
  };
  add("wte.weight", {512, 8});
  add("wpe.weight", {16, 8});
  for (const char* norm : {"h.0.ln_1", "h.0.ln_2", "ln_f"}) {
    add(norm + std::string(".weight"), {8});
    add(norm + std::string(".bias"), {8});
  }
  const std::vector<std::tuple<std::string, int64_t, int64_t>> linear = {
      {"attn.c_attn", 8, 24}, {"attn.c_proj", 8, 8}, {"mlp.c_fc", 8, 32}, {"mlp.c_proj", 32, 8}};
  for (const auto& [name, in, out] : linear) {
    add("h.0." + name + ".weight", {in, out});
    add("h.0." + name + ".bias", {out});
  }
  const std::string text = header.dump();
  const uint64_t size = text.size();
  const std::filesystem::path model = directory / "gpt2";
  host::write_file(model / "model.safetensors",
                   std::string(reinterpret_cast<const char*>(&size), 8) + text + std::string(bytes, '\0'));
  const Json config = {{"model_type", "gpt2"}, {"architectures", {"GPT2LMHeadModel"}},
                       {"n_embd", 8},          {"n_head", 2},
                       {"n_layer", 1},         {"n_positions", 16},
                       {"vocab_size", 512}};
  host::write_file(model / "config.json", config.dump());
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    host::write_file(model / file, host::read_file(host::golden("models/qwen2/") + file));
  return model;
}

// What is advised for completions beyond the learned positions helps.
TEST(BadInput, OnlyWaysOutOfTheLearnedPositionsAreAdvised) {
  NEED_MODEL();
  const host::Scratch directory;
  const std::string model = small_gpt2(directory);
  const auto refused = [&](const std::string& lines, const char* most) {
    const host::Settings settings =
        host::with(host::tiny(directory / "out"), {{"model_name_or_path", model},
                                                   {"method", "grpo"},
                                                   {"num_generations", "2"},
                                                   {"max_completion_length", most},
                                                   {"save_strategy", "no"}});
    trl_trainer* trainer = nullptr;
    Error error;
    const host::Dataset dataset = host::rows(lines);
    EXPECT_EQ(
        trl_trainer_create(nullptr, host::config(settings).get(), dataset.get(), nullptr, &trainer, error),
        TRL_E_INVALID_CONFIG);
    trl_trainer_destroy(trainer);
    EXPECT_EQ(error.key(), "max_completion_length");
    const std::string message = error.message();
    return message.substr(message.find("positions: ") + 11);
  };
  const auto twice = [](const std::string& prompt) {
    const std::string line = Json{{"prompt", prompt}}.dump() + "\n";
    return line + line;
  };
  const std::string few = twice("sea"),
                    many = twice("one and two and three and four and five and six and seven and ");
  EXPECT_EQ(refused(few, "2000"), "give a smaller one");
  EXPECT_EQ(refused(few, "16"), "give a smaller one");
  EXPECT_EQ(refused(few, "15"), "give a smaller one, or long_prompts: drop");
  EXPECT_EQ(refused(many + few, "4"), "give long_prompts: drop");
  EXPECT_EQ(refused(many, "16"), "give a smaller one, and shorter prompts");
}

std::string ids_of(int count) {
  std::string ids = "[7";
  for (int i = 1; i < count; ++i) ids += ", 7";
  return ids + "]";
}

// Before the first step, unless rows are streamed; TRL stops with an index error in the step that has the
// row.
TEST(BadInput, RowsBeyondTheLearnedPositionsAreNamed) {
  NEED_MODEL();
  const host::Scratch directory;
  const std::string model = small_gpt2(directory);
  std::string rows, pairs;
  for (const int tokens : {5, 9, 20, 5}) {
    rows += R"({"input_ids": )" + ids_of(tokens) + "}\n";
    pairs += R"({"chosen_ids": [7, 8], "rejected_ids": )" + ids_of(tokens) + "}\n";
  }
  const auto refused = [&](const std::string& lines, const host::Settings& more) {
    const host::Settings settings =
        host::with(host::with(host::tiny(directory / "out"),
                              {{"model_name_or_path", model}, {"max_steps", "2"}, {"save_strategy", "no"}}),
                   more);
    trl_trainer* trainer = nullptr;
    Error error;
    const host::Dataset dataset = host::rows(lines);
    trl_status status =
        trl_trainer_create(nullptr, host::config(settings).get(), dataset.get(), nullptr, &trainer, error);
    if (status == TRL_OK) status = trl_trainer_train(trainer, nullptr, nullptr, error);
    trl_trainer_destroy(trainer);
    EXPECT_EQ(status == TRL_OK, error.message()[0] == '\0');
    EXPECT_EQ(std::string(error.key()), status == TRL_OK ? "" : "max_length");
    return std::string(error.message());
  };
  const std::string what =
      "dataset row 2 has 20 tokens, and the model has learned 16 positions: give max_length: 16, so "
      "that longer rows are cut";
  EXPECT_EQ(refused(rows, {}), "max_length: 1024: " + what);
  EXPECT_EQ(refused(rows, {{"max_length", "null"}}), "max_length: null: " + what);
  EXPECT_EQ(refused(rows, {{"max_length", "16"}}), "");
  trl_evaluator* made = nullptr;
  Error error;
  const auto config = host::config({{"model_name_or_path", model}, {"max_length", "null"}});
  ASSERT_EQ(trl_evaluator_create(nullptr, config.get(), &made, error), TRL_OK) << error.message();
  const host::Evaluator evaluator(made);
  const trl_metrics* metrics = nullptr;
  EXPECT_EQ(trl_evaluator_evaluate(made, host::rows(rows).get(), &metrics, error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(std::string(error.message()), "max_length: null: " + what);
  EXPECT_EQ(refused(pairs, {{"method", "reward"}}), "max_length: 1024: " + what);
  EXPECT_EQ(refused(rows, {{"packing", "true"}, {"max_length", "19"}}),
            "max_length: 19: dataset row 2 has 19 tokens, and the model has learned 16 positions: give "
            "max_length: 16, so "
            "that longer rows are cut");
  const std::string shorter = R"({"input_ids": )" + ids_of(9) + "}\n";  // three of them in one packed row
  EXPECT_EQ(refused(shorter + shorter + shorter, {{"packing", "true"}, {"max_length", "30"}}), "");
  host::Settings wrapped = {{"packing", "true"}, {"packing_strategy", "wrapped"}, {"max_length", "30"}};
  const std::string pack =
      "a sequence of the packed dataset rows 0, 1, 2 has 27 tokens, and the model has learned 16 positions: "
      "give max_length: 16, so that no pack is longer";
  EXPECT_EQ(refused(shorter + shorter + shorter, wrapped), "max_length: 30: " + pack);
  wrapped = host::with(wrapped, {{"dataset_streaming", "true"}, {"train_sampling_strategy", "sequential"}});
  EXPECT_EQ(refused(shorter + shorter + shorter, wrapped), "max_length: " + pack);
  EXPECT_EQ(refused(rows, {{"dataset_streaming", "true"}, {"train_sampling_strategy", "sequential"}}),
            "max_length: one of the dataset rows 0, 1, 2, 3 has 20 tokens, and the model has learned 16 "
            "positions: give "
            "max_length: 16, so that longer rows are cut");
}

}  // namespace
