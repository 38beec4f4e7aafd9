// The place of an error as data: of rows of every source, of options, and of a tokenizer's files.
#include <zlib.h>

#include "host.h"
#include "support/arrow_stream.h"

namespace {

using host::Error;
using host::Place;
using host::place_of;

// Reads all rows, of which one is bad.
Place place_in(const host::Dataset& rows) {
  int64_t count = 0;
  Error error;
  EXPECT_EQ(trl_dataset_get_row_count(rows.get(), &count, error), TRL_E_FORMAT) << error.message();
  return place_of(error);
}

constexpr const char* kThirdIsBad =
    "{\"text\": \"a\"}\n{\"text\": \"b\"}\n{\"text\": nothing}\n{\"text\": \"c\"}\n";

TEST(ErrorPlace, OfAnErrorWithoutOne) {
  Error error;
  const auto config = host::config();
  EXPECT_EQ(trl_config_set(config.get(), "max_steps", "x", error), TRL_E_INVALID_CONFIG);
  const Place place = place_of(error);
  EXPECT_EQ(place.file, "");
  EXPECT_EQ(place.line, 0);
  EXPECT_EQ(place.column, 0);
  EXPECT_EQ(place.row, -1);
  EXPECT_EQ(trl_error_place(error.get(), nullptr, nullptr, nullptr, nullptr), 0);
  const char* file = "not set";
  int64_t line = 7, column = 7, row = 7;
  for (const trl_error* none :
       {static_cast<const trl_error*>(nullptr), reinterpret_cast<const trl_error*>(config.get())}) {
    EXPECT_EQ(trl_error_place(none, &file, &line, &column, &row), 0);
    EXPECT_EQ(file, nullptr);
    EXPECT_EQ(line, 0);
    EXPECT_EQ(column, 0);
    EXPECT_EQ(row, -1);
  }
}

TEST(ErrorPlace, OfARowInAFile) {
  const host::Scratch scratch;
  host::write_file(scratch / "rows.jsonl", kThirdIsBad);
  const Place plain = place_in(host::open_rows(scratch / "rows.jsonl"));
  EXPECT_EQ(plain.file, (scratch / "rows.jsonl").string());
  EXPECT_EQ(plain.line, 3);
  EXPECT_GT(plain.column, 9);
  EXPECT_EQ(plain.row, 2);

  const std::string packed = scratch / "rows.jsonl.gz";
  gzFile gz = gzopen(packed.c_str(), "wb");
  ASSERT_GT(gzwrite(gz, kThirdIsBad, static_cast<unsigned>(strlen(kThirdIsBad))), 0);
  ASSERT_EQ(gzclose(gz), Z_OK);
  const Place unpacked = place_in(host::open_rows(packed));
  EXPECT_EQ(unpacked.file, packed);
  EXPECT_EQ(unpacked.line, 3);
  EXPECT_EQ(unpacked.row, 2);

  host::write_file(scratch / "rows.json", "[{\"text\": \"a\"},\n{\"text\": \"b\"},\n3]\n");
  const Place element = place_in(host::open_rows(scratch / "rows.json"));
  EXPECT_EQ(element.line, 3);
  EXPECT_EQ(element.row, 2);

  host::write_file(scratch / "rows.csv", "text\na\n\"b\nc\"\nd,e\n");
  const Place cells = place_in(host::open_rows(scratch / "rows.csv"));
  EXPECT_EQ(cells.file, (scratch / "rows.csv").string());
  EXPECT_EQ(cells.line, 5);
  EXPECT_EQ(cells.row, 2);
  host::write_file(scratch / "twice.csv", "text,text\na,b\n");
  const Place header = place_in(host::open_rows(scratch / "twice.csv"));
  EXPECT_EQ(header.line, 1);
  EXPECT_EQ(header.row, -1);

  host::write_file(scratch / "rows.txt", "a\nb\xff\n");
  const Place text = place_in(host::open_rows(scratch / "rows.txt"));
  EXPECT_EQ(text.line, 2);
  EXPECT_EQ(text.column, 2);
  EXPECT_EQ(text.row, 1);
}

TEST(ErrorPlace, CountsTheRowsOfAllFiles) {
  const host::Scratch scratch;
  host::write_file(scratch / "d/a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"b\"}\n");
  host::write_file(scratch / "d/b.jsonl", kThirdIsBad);
  const Place second = place_in(host::open_rows(scratch / "d"));
  EXPECT_EQ(second.file, (scratch / "d/b.jsonl").string());
  EXPECT_EQ(second.line, 3);
  EXPECT_EQ(second.row, 4);
}

TEST(ErrorPlace, OfAMissingFile) {
  Error error;
  trl_dataset* rows = nullptr;
  EXPECT_EQ(trl_dataset_open(nullptr, "/nonexistent/rows.jsonl", nullptr, &rows, error), TRL_E_NOT_FOUND);
  const Place place = place_of(error);
  EXPECT_EQ(place.file, "/nonexistent/rows.jsonl");
  EXPECT_EQ(place.line, 0);
  EXPECT_EQ(place.row, -1);
}

TEST(ErrorPlace, OfWhatIsNoFile) {
  const Place buffer = place_in(host::rows(kThirdIsBad));
  EXPECT_EQ(buffer.file, "buffer");
  EXPECT_EQ(buffer.line, 3);
  EXPECT_EQ(buffer.row, 2);

  trl_dataset* made = nullptr;
  Error error;
  int at = 0;
  const auto next = [](void* data, trl_record* record) -> int32_t {
    int& row = *static_cast<int*>(data);
    if (row == 3) return TRL_END;
    // as deep as JSON may be, which is too deep within a row
    const std::string deep = row++ == 1 ? std::string(128, '[') + std::string(128, ']') : "1";
    return trl_record_set_json(record, "text", deep.data(), deep.size(), nullptr);
  };
  const auto rewind = [](void* data) -> int32_t { return *static_cast<int*>(data) = 0; };
  ASSERT_EQ(trl_dataset_from_callback(nullptr, next, rewind, &at, nullptr, nullptr, &made, error), TRL_OK);
  const Place callback = place_in(host::Dataset(made));
  EXPECT_EQ(callback.file, "dataset");
  EXPECT_EQ(callback.line, 0);
  EXPECT_EQ(callback.row, 1);

  using trl::test::arrow_batch;
  using trl::test::arrow_text;
  trl::test::ArrowStream stream(
      {arrow_batch({arrow_text("text", {"a", "b"})}), arrow_batch({arrow_text("text", {"c", "\xff"})})});
  ASSERT_EQ(trl_dataset_from_arrow(nullptr, stream.stream(), nullptr, &made, error), TRL_OK);
  const Place arrow = place_in(host::Dataset(made));
  EXPECT_EQ(arrow.file, "dataset");
  EXPECT_EQ(arrow.row, 3);
}

TEST(ErrorPlace, OfAnOption) {
  const auto load = [](std::string_view text) {
    Error error;
    const auto config = host::config();
    EXPECT_LT(trl_config_load_text(config.get(), text.data(), text.size(), error), 0) << text;
    return place_of(error);
  };
  const auto expect = [](const Place& place, int64_t line, int64_t column) {
    EXPECT_EQ(place.file, "text");
    EXPECT_EQ(place.line, line);
    EXPECT_EQ(place.column, column);
    EXPECT_EQ(place.row, -1);
  };
  expect(load("seed: 1\nmax_steps: x\n"), 2, 1);
  expect(load("seed: 1\n\nmax_lengthh: 4\n"), 3, 1);
  expect(load("max_length: 1\nmax_seq_length: 2\n"), 2, 1);
  expect(load("{\n  \"max_steps\": \"x\"\n}\n"), 2, 3);
  expect(load("seed: 1\n--- \nseed: 2\n"), 2, 1);
  EXPECT_EQ(load("seed: 1\nstop: [a\n").file, "text");
  EXPECT_GE(load("seed: 1\nstop: 'a\n").line, 2);
  EXPECT_EQ(load("- a\n").line, 0);

  const host::Scratch scratch;
  host::write_file(scratch / "recipe.yaml", "seed: 1\nmax_steps: x\n");
  Error error;
  const auto config = host::config();
  EXPECT_EQ(trl_config_load(config.get(), (scratch / "recipe.yaml").c_str(), error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "max_steps");
  EXPECT_EQ(place_of(error).file, (scratch / "recipe.yaml").string());
  EXPECT_EQ(place_of(error).line, 2);
  EXPECT_EQ(trl_config_load(config.get(), (scratch / "gone.yaml").c_str(), error), TRL_E_NOT_FOUND);
  EXPECT_EQ(place_of(error).file, (scratch / "gone.yaml").string());
}

TEST(ErrorPlace, OfATokenizersFiles) {
  const host::Scratch scratch;
  const auto open = [&](const char* name, std::string_view bytes) {
    host::write_file(scratch / name, bytes);
    const std::filesystem::path path = scratch / name;
    const bool gguf = path.extension() == ".gguf";
    trl_tokenizer* made = nullptr;
    Error error;
    const std::string given = gguf ? path : path.parent_path();
    EXPECT_LT(trl_tokenizer_open(nullptr, given.c_str(), nullptr, &made, error), 0);
    Place place = place_of(error);
    EXPECT_EQ(place.file, path.string()) << error.message();
    return place;
  };
  EXPECT_EQ(open("a/tokenizer.json", "{\n\"model\": nothing}").line, 2);
  open("b/tokenizer.json", "[]");
  open("c/tokenizer.json", "{\"model\": {\"type\": \"BPE\"}}");
  open("cut.gguf", "GGUF");
}

TEST(Status, HasAName) {
  EXPECT_STREQ(trl_status_name(TRL_OK), "TRL_OK");
  EXPECT_STREQ(trl_status_name(TRL_END), "TRL_END");
  EXPECT_STREQ(trl_status_name(TRL_LATER), "TRL_LATER");
  EXPECT_STREQ(trl_status_name(TRL_E_INVALID_ARGUMENT), "TRL_E_INVALID_ARGUMENT");
  EXPECT_STREQ(trl_status_name(TRL_E_OUT_OF_DEVICE_MEMORY), "TRL_E_OUT_OF_DEVICE_MEMORY");
  EXPECT_STREQ(trl_status_name(TRL_E_BUSY), "TRL_E_BUSY");
  EXPECT_STREQ(trl_status_name(TRL_E_INTERNAL), "TRL_E_INTERNAL");
  EXPECT_STREQ(trl_status_name(3), "TRL_OK");
  EXPECT_STREQ(trl_status_name(INT32_MAX), "TRL_OK");
  EXPECT_STREQ(trl_status_name(-99), "TRL_E_INTERNAL");
  EXPECT_STREQ(trl_status_name(INT32_MIN), "TRL_E_INTERNAL");
}

}  // namespace
