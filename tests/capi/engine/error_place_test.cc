// The place of an error that crosses the engine: files of a model, and rows that are refused late.
#include <functional>

#include "engine/run.h"

namespace {

using host::Error;
using host::Place;
using host::place_of;
using host::with;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

TEST(ErrorPlaceOfAModel, IsItsFile) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::filesystem::path model = scratch / "model";
  const auto open = [&](const char* name, const std::function<std::string(std::string)>& damage) {
    host::copy_model("models/qwen2", model);
    host::write_file(model / name, damage(host::read_file(model / name)));
    trl_model* made = nullptr;
    Error error;
    EXPECT_LT(trl_model_open(nullptr, model.c_str(), nullptr, &made, error), 0);
    trl_model_destroy(made);
    const Place place = place_of(error);
    EXPECT_EQ(place.file, (model / name).string()) << error.message();
    EXPECT_EQ(place.row, -1);
    return place;
  };
  open("model.safetensors", [](const std::string& bytes) { return bytes.substr(0, bytes.size() / 2); });
  EXPECT_EQ(open("config.json", [](const std::string&) { return "{\n nonsense}"; }).line, 2);
  open("config.json", [](const std::string& text) {
    host::Json config = host::parse(text);
    config["num_attention_heads"] = -1;
    return config.dump();
  });
}

// The error of a run over rows, the second of which has not the column.
Place place_of_run(trl_dataset* rows, const host::Settings& settings) {
  trl_trainer* made = nullptr;
  Error error;
  trl_status status = trl_trainer_create(nullptr, host::config(settings).get(), rows, nullptr, &made, error);
  const host::Trainer trainer(made);
  for (int step = 0; status == TRL_OK && step < 4; ++step)
    status = trl_trainer_step(trainer.get(), nullptr, error);
  EXPECT_EQ(status, TRL_E_FORMAT) << error.message();
  return place_of(error);
}

TEST(ErrorPlaceOfARow, IsThatOfTheDataset) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string path = scratch / "rows.jsonl";
  host::write_file(path,
                   "{\"text\": \"a b c\"}\n{\"text\": \"d e f\"}\n{\"txt\": \"g\"}\n{\"text\": \"h i\"}\n");
  const auto rows = host::open_rows(path);
  for (const char* streaming : {"false", "true"}) {
    const auto settings = with(
        host::tiny(scratch / "out"),
        {{"per_device_train_batch_size", "1"}, {"dataset_streaming", streaming}, {"save_strategy", "no"}});
    const Place place = place_of_run(rows.get(), settings);
    EXPECT_EQ(place.file, path) << streaming;
    EXPECT_EQ(place.line, 3) << streaming;
    EXPECT_EQ(place.row, 2) << streaming;
  }
}

// Files that are shuffled are not read in their order.
TEST(ErrorPlaceOfARow, OfSeveralFilesThatAreStreamed) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::write_file(scratch / "d/a.jsonl", "{\"text\": \"a b c\"}\n{\"text\": \"d e f\"}\n");
  for (const char* bad : {"{\"txt\": \"g\"}\n", "{\"text\": nothing}\n"}) {
    host::write_file(scratch / "d/b.jsonl", std::string("{\"text\": \"h i\"}\n") + bad);
    const auto rows = host::open_rows(scratch / "d");
    for (const char* shuffled : {"false", "true"}) {
      const auto settings = with(host::tiny(scratch / "out"), {{"per_device_train_batch_size", "1"},
                                                               {"dataset_streaming", "true"},
                                                               {"shuffle_dataset", shuffled},
                                                               {"save_strategy", "no"}});
      const Place place = place_of_run(rows.get(), settings);
      EXPECT_EQ(place.file, (scratch / "d/b.jsonl").string()) << shuffled;
      EXPECT_EQ(place.line, 2) << shuffled;
      EXPECT_EQ(place.row, shuffled == std::string("true") ? -1 : 3) << bad;
    }
  }
}

TEST(ErrorPlaceOfARow, OfAPreferenceWithAWrongLabel) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(
      "{\"prompt\": \"a\", \"completion\": \" b\", \"label\": true}\n"
      "{\"prompt\": \"a\", \"completion\": \" c\", \"label\": \"maybe\"}\n");
  const Place place = place_of_run(
      rows.get(), with(host::tiny(scratch / "out"), {{"method", "kto"}, {"save_strategy", "no"}}));
  EXPECT_EQ(place.file, "buffer");
  EXPECT_EQ(place.line, 2);
  EXPECT_EQ(place.row, 1);
}

}  // namespace
