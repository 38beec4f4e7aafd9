// trl_dataset_* and trl_record_*: files, buffers, callbacks, and what is wrong with them.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <thread>

#include "host.h"
#include "support/arrow_stream.h"

namespace {

using host::Error;

TEST(Dataset, EveryRecordedFileHasItsRows) {
  NEED_GOLDEN("data/datasets/lm_standard.jsonl");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(host::golden("data/datasets"))) {
    const std::string bytes = host::read_file(entry.path());
    const auto dataset = host::open_rows(entry.path());
    int64_t count = 0;
    Error error;
    ASSERT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_OK)
        << entry.path() << error.message();
    EXPECT_EQ(count, std::count(bytes.begin(), bytes.end(), '\n')) << entry.path();
    ++files;
  }
  EXPECT_GE(files, 25);
}

struct Bad {
  const char* file;
  trl_status status;  // of opening or counting
  const char* where;  // in the message
};

TEST(Dataset, BadFilesAreRefusedWithTheirPlace) {
  NEED_GOLDEN("data/bad/index.json");
  const std::vector<Bad> cases = {
      {"bad_utf8.jsonl", TRL_E_FORMAT, "bad_utf8.jsonl:6"},
      {"invalid_json_line.jsonl", TRL_E_FORMAT, "invalid_json_line.jsonl:"},
      {"not_an_object.jsonl", TRL_E_FORMAT, "not_an_object.jsonl:"},
      {"truncated.jsonl.gz", TRL_E_FORMAT, "truncated.jsonl.gz"},
      {"truncated.jsonl.zst", TRL_E_FORMAT, "truncated.jsonl.zst"},
      {"ok.jsonl.gz", TRL_OK, ""},
      {"ok.jsonl.zst", TRL_OK, ""},
      {"bom.jsonl", TRL_OK, ""},
      {"crlf.jsonl", TRL_OK, ""},
      {"no_trailing_newline.jsonl", TRL_OK, ""},
      {"blank_lines.jsonl", TRL_OK, ""},
  };
  for (const Bad& bad : cases) {
    Error error;
    trl_dataset* opened = nullptr;
    trl_status status = trl_dataset_open(nullptr, host::golden(std::string("data/bad/") + bad.file).c_str(),
                                         nullptr, &opened, error);
    const host::Dataset dataset(opened);
    int64_t count = 0;
    if (status == TRL_OK) status = trl_dataset_get_row_count(dataset.get(), &count, error);
    EXPECT_EQ(status, bad.status) << bad.file << ": " << error.message();
    EXPECT_TRUE(error.names(bad.where)) << bad.file << ": " << error.message();
    EXPECT_EQ(count > 0, bad.status == TRL_OK) << bad.file;
  }
}

TEST(Dataset, MissingFileAndFormat) {
  Error error;
  trl_dataset* dataset = nullptr;
  EXPECT_EQ(trl_dataset_open(nullptr, "/nonexistent/rows.jsonl", nullptr, &dataset, error), TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("/nonexistent/rows.jsonl")) << error.message();
  EXPECT_EQ(trl_dataset_from_buffer(nullptr, "parquet", "", 0, nullptr, &dataset, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("jsonl")) << error.message();
  EXPECT_EQ(trl_dataset_from_buffer(nullptr, "jsonl", nullptr, 4, nullptr, &dataset, error),
            TRL_E_INVALID_ARGUMENT);
}

TEST(Dataset, BufferIsCopied) {
  std::string json = "[{\"text\": \"a\"}, {\"text\": \"b\"}, {\"text\": \"c\"}]";
  trl_dataset* made = nullptr;
  ASSERT_EQ(trl_dataset_from_buffer(nullptr, "json", json.data(), json.size(), nullptr, &made, nullptr),
            TRL_OK);
  const host::Dataset dataset(made);
  std::fill(json.begin(), json.end(), 'x');
  int64_t count = 0;
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, nullptr), TRL_OK);
    EXPECT_EQ(count, 3);
  }
}

// A negative number in a size_t is more than any array has.
TEST(Dataset, SizesOfMoreThanMemoryAreRefused) {
  static const auto refused = [](trl_status status, const Error& error, std::string_view name) {
    EXPECT_EQ(status, TRL_E_INVALID_ARGUMENT) << error.message();
    EXPECT_TRUE(error.names(name) && error.names(std::to_string(SIZE_MAX))) << error.message();
  };
  Error error;
  const auto config = host::config();
  refused(trl_config_load_text(config.get(), "a", SIZE_MAX, error), error, "text");
  trl_dataset* made = nullptr;
  refused(trl_dataset_from_buffer(nullptr, "jsonl", "x", SIZE_MAX, nullptr, &made, error), error, "data");
  EXPECT_EQ(made, nullptr);
  const auto next = [](void*, trl_record* record) -> int32_t {
    Error own;
    const int32_t id = 5;
    refused(trl_record_set_ids(record, "input_ids", &id, SIZE_MAX, own), own, "ids");
    refused(trl_record_set_text(record, "text", "a", SIZE_MAX, own), own, "text");
    refused(trl_record_set_json(record, "text", "1", SIZE_MAX, own), own, "json");
    return TRL_END;
  };
  ASSERT_EQ(trl_dataset_from_callback(
                nullptr, next, [](void*) -> int32_t { return 0; }, nullptr, nullptr, nullptr, &made, error),
            TRL_OK);
  const host::Dataset dataset(made);
  int64_t count = 0;
  EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_OK) << error.message();
}

TEST(Dataset, IsReadConcurrently) {
  std::string bytes;
  for (int i = 0; i < 500; ++i) bytes += "{\"text\": \"row " + std::to_string(i) + "\"}\n";
  const auto dataset = host::rows(bytes);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      int64_t count = 0;
      ASSERT_EQ(trl_dataset_get_row_count(dataset.get(), &count, nullptr), TRL_OK);
      ASSERT_EQ(count, 500);
    });
  }
  for (auto& thread : threads) thread.join();
}

int64_t count_of(const trl_dataset* dataset) {
  int64_t count = -1;
  Error error;
  EXPECT_EQ(trl_dataset_get_row_count(dataset, &count, error), TRL_OK) << error.message();
  return count;
}

TEST(Dataset, FormatsFoldersAndGlobs) {
  const host::Scratch scratch;
  host::write_file(scratch / "d/a.csv", "text\nx\ny\n");
  host::write_file(scratch / "d/b.txt", "one\ntwo\nthree\n");
  host::write_file(scratch / "d/c.jsonl", "{\"text\": 1}\n");
  EXPECT_EQ(count_of(host::open_rows(scratch / "d").get()), 6);
  EXPECT_EQ(count_of(host::open_rows(scratch / "d/*.[ct]*").get()), 5);
  host::write_file(scratch / "s/train.jsonl", "{}\n{}\n");
  host::write_file(scratch / "s/test.jsonl", "{}\n");
  EXPECT_EQ(count_of(host::open_rows(scratch / "s").get()), 2);
  EXPECT_EQ(
      count_of(host::open_rows(scratch / "s", host::config({{"dataset_train_split", "test"}}).get()).get()),
      1);
  for (const auto& [format, bytes] : {std::pair{"csv", "a,b\n1,2\n"}, {"text", "hello"}, {"json", "[{}]"}}) {
    trl_dataset* made = nullptr;
    Error error;
    ASSERT_EQ(trl_dataset_from_buffer(nullptr, format, bytes, strlen(bytes), nullptr, &made, error), TRL_OK)
        << error.message();
    EXPECT_EQ(count_of(host::Dataset(made).get()), 1) << format;
  }
  trl_dataset* none = nullptr;
  Error error;
  EXPECT_EQ(trl_dataset_open(nullptr, (scratch / "*.gone").c_str(), nullptr, &none, error), TRL_E_NOT_FOUND);
  if (trl_has_feature("parquet") == 0) {
    host::write_file(scratch / "x.parquet", "PAR1");
    EXPECT_EQ(trl_dataset_open(nullptr, (scratch / "x.parquet").c_str(), nullptr, &none, error),
              TRL_E_UNSUPPORTED);
    EXPECT_TRUE(error.names("pandas.read_parquet(")) << error.message();
  }
}

TEST(Dataset, WhatAConfigurationNames) {
  const host::Scratch scratch;
  std::string rows;
  for (int i = 0; i < 20; ++i) rows += "{\"text\": \"a\"}\n";
  host::write_file(scratch / "a.jsonl", rows);
  const std::string path = scratch / "a.jsonl";
  const auto open = [](const host::Settings& settings) {
    trl_dataset* train = nullptr;
    trl_dataset* eval = nullptr;
    Error error;
    EXPECT_EQ(trl_dataset_open_config(nullptr, host::config(settings).get(), &train, &eval, error), TRL_OK)
        << error.message();
    return std::pair(host::Dataset(train), host::Dataset(eval));
  };
  const auto plain = open({{"dataset_name", path}});
  EXPECT_EQ(count_of(plain.first.get()), 20);
  EXPECT_EQ(plain.second, nullptr);
  const auto split = open({{"dataset_name", path}, {"test_split_size", "0.25"}});
  EXPECT_EQ(count_of(split.first.get()), 15);
  EXPECT_EQ(count_of(split.second.get()), 5);
  const auto mixed =
      open({{"datasets", "[{path: " + path + ", fraction: 1}, {path: " + path + ", fraction: 3}]"},
            {"eval_dataset_name", path}});
  EXPECT_EQ(count_of(mixed.first.get()), 27);  // 20 / 0.75 in all
  EXPECT_EQ(count_of(mixed.second.get()), 20);

  trl_dataset* train = nullptr;
  trl_dataset* eval = nullptr;
  Error error;
  EXPECT_EQ(trl_dataset_open_config(nullptr, host::config().get(), &train, &eval, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "dataset_name");
  const auto gone = host::config({{"dataset_name", path}, {"eval_dataset_name", path + ".gone"}});
  EXPECT_EQ(trl_dataset_open_config(nullptr, gone.get(), &train, &eval, error), TRL_E_NOT_FOUND);
  EXPECT_EQ(error.key(), "eval_dataset_name");
}

// A stream is read once, so the rows that a cancelled call has read are kept.
TEST(Dataset, AnArrowStreamGoesOnAfterACancel) {
  using trl::test::arrow_batch;
  using trl::test::arrow_text;
  trl::test::ArrowStream stream(
      {arrow_batch({arrow_text("text", {"a", "b"})}), arrow_batch({arrow_text("text", {"c", "d", "e"})})});
  static const auto next = stream.stream()->get_next;
  static int batches = 0;
  stream.stream()->get_next = [](ArrowArrayStream* of, ArrowArray* out) {
    if (++batches == 2) trl_runtime_cancel(nullptr);
    return next(of, out);
  };
  trl_dataset* made = nullptr;
  Error error;
  ASSERT_EQ(trl_dataset_from_arrow(nullptr, stream.stream(), nullptr, &made, error), TRL_OK);
  const host::Dataset rows(made);
  int64_t count = 0;
  EXPECT_EQ(trl_dataset_get_row_count(made, &count, error), TRL_E_CANCELLED);
  EXPECT_EQ(batches, 2);
  EXPECT_EQ(count_of(made), 5);
}

TEST(Dataset, AnArrowStreamIsReadOnceAndKept) {
  using trl::test::arrow_batch;
  using trl::test::arrow_text;
  trl::test::ArrowStream stream(
      {arrow_batch({arrow_text("text", {"a", "b"})}), arrow_batch({arrow_text("text", {"c"})})});
  trl_dataset* made = nullptr;
  Error error;
  ASSERT_EQ(trl_dataset_from_arrow(nullptr, stream.stream(), nullptr, &made, error), TRL_OK)
      << error.message();
  host::Dataset dataset(made);
  EXPECT_EQ(stream.stream()->release, nullptr);
  EXPECT_EQ(stream.batches_given, 0);
  EXPECT_EQ(count_of(dataset.get()), 3);
  EXPECT_EQ(stream.streams_released, 1);
  EXPECT_EQ(count_of(dataset.get()), 3);
  EXPECT_EQ(stream.batches_released, 2);
  EXPECT_EQ(stream.schemas_released, 1);

  trl::test::ArrowStream unread({arrow_batch({arrow_text("text", {"a"})})});
  ASSERT_EQ(trl_dataset_from_arrow(nullptr, unread.stream(), nullptr, &made, error), TRL_OK)
      << error.message();
  dataset.reset(made);
  dataset.reset();
  EXPECT_EQ(unread.streams_released, 1);

  trl::test::ArrowStream fails({arrow_batch({arrow_text("text", {"a"})})});
  fails.code_after = 1;
  ASSERT_EQ(trl_dataset_from_arrow(nullptr, fails.stream(), nullptr, &made, error), TRL_OK)
      << error.message();
  dataset.reset(made);
  for (int round = 0; round < 2; ++round) {
    int64_t count = 7;
    EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_E_CALLBACK);
    EXPECT_EQ(trl_error_callback_code(error.get()), EIO);
    EXPECT_EQ(count, 0);
  }
  EXPECT_EQ(fails.streams_released, 1);

  trl::test::ArrowStream binary({arrow_batch({{"z", "blob", 0, {}}})});
  EXPECT_EQ(trl_dataset_from_arrow(nullptr, binary.stream(), nullptr, &made, error), TRL_E_FORMAT);
  EXPECT_TRUE(error.names("'blob'")) << error.message();
  EXPECT_EQ(binary.streams_released, 1);
  EXPECT_EQ(trl_dataset_from_arrow(nullptr, binary.stream(), nullptr, &made, error), TRL_E_INVALID_ARGUMENT);
  trl::test::ArrowStream homeless({arrow_batch({arrow_text("text", {"a"})})});
  EXPECT_EQ(trl_dataset_from_arrow(nullptr, homeless.stream(), nullptr, nullptr, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(homeless.streams_released, 1);
}

// A host's rows, with everything that may go wrong in it.
struct Rows {
  int size = 3, at = 0, rewinds = 0, destroyed = 0;
  int32_t next_code = 0, rewind_code = 0;
  std::optional<trl_status> inside;  // what a call in the callback returned
  bool bad_text = false, bad_json = false, no_name = false;
  trl_record* kept = nullptr;

  static int32_t next(void* data, trl_record* record) {
    auto* self = static_cast<Rows*>(data);
    if (self->at == self->size) return TRL_END;
    if (self->next_code < 0) return self->next_code;
    ++self->at;
    self->kept = record;
    trl_runtime* runtime = nullptr;
    self->inside = trl_runtime_create(nullptr, &runtime, nullptr);
    EXPECT_EQ(runtime, nullptr);
    Error error;
    if (self->bad_text) return trl_record_set_text(record, "text", "\xff", 1, error);
    if (self->bad_json) return trl_record_set_json(record, "text", "{", 1, error);
    if (self->no_name) return trl_record_set_text(record, nullptr, "a", 1, error);
    EXPECT_EQ(trl_record_set_text(record, "prompt", "a\0b", 3, error), TRL_OK) << error.message();
    return trl_record_set_json(record, "completion", "\"text\"", 6, error);
  }
  static int32_t rewind(void* data) {
    auto* self = static_cast<Rows*>(data);
    self->at = 0;
    ++self->rewinds;
    return self->rewind_code;
  }
  static void destroy(void* data) { ++static_cast<Rows*>(data)->destroyed; }
};

host::Dataset from(Rows& rows) {
  trl_dataset* made = nullptr;
  EXPECT_EQ(trl_dataset_from_callback(nullptr, Rows::next, Rows::rewind, &rows, Rows::destroy, nullptr, &made,
                                      nullptr),
            TRL_OK);
  return host::Dataset(made);
}

TEST(Callback, RowsAreReadFromTheirStartEachTime) {
  Rows rows;
  auto dataset = from(rows);
  EXPECT_EQ(rows.rewinds, 0);
  for (int round = 1; round <= 3; ++round) {
    int64_t count = 0;
    Error error;
    ASSERT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_OK) << error.message();
    EXPECT_EQ(count, 3);
    EXPECT_GE(rows.rewinds, round);
  }
  EXPECT_EQ(rows.inside, TRL_E_BUSY);
  EXPECT_EQ(rows.destroyed, 0);
  dataset.reset();
  EXPECT_EQ(rows.destroyed, 1);
}

TEST(Callback, IsToldWhatMayBeCalledInside) {
  std::string told;
  const auto next = [](void* data, trl_record*) -> int32_t {
    trl_runtime* runtime = nullptr;
    Error error;
    EXPECT_EQ(trl_runtime_create(nullptr, &runtime, error), TRL_E_BUSY);
    *static_cast<std::string*>(data) = error.message();
    EXPECT_EQ(trl_error_code(nullptr), TRL_OK);
    EXPECT_NE(trl_option_next(nullptr), nullptr);
    return TRL_END;
  };
  trl_dataset* made = nullptr;
  ASSERT_EQ(trl_dataset_from_callback(
                nullptr, next, [](void*) -> int32_t { return 0; }, &told, nullptr, nullptr, &made, nullptr),
            TRL_OK);
  const host::Dataset dataset(made);
  int64_t count = 0;
  EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, nullptr), TRL_OK);
  for (const char* name : {"without the parameter `error`", "also in callbacks", "trl_config_*",
                           "trl_record_*", "trl_rollout_*", "trl_trainer_describe"})
    EXPECT_NE(told.find(name), std::string::npos) << told;
}

TEST(Callback, ItsCodeComesBack) {
  Rows rows;
  const auto dataset = from(rows);
  int64_t count = 7;
  Error error;
  rows.next_code = -1234;
  EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_E_CALLBACK);
  EXPECT_EQ(trl_error_callback_code(error.get()), -1234);
  EXPECT_EQ(count, 0);
  rows.next_code = 0;
  rows.rewind_code = -77;
  EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_E_CALLBACK);
  EXPECT_EQ(trl_error_callback_code(error.get()), -77);
  rows.rewind_code = 0;
  EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_OK);
  EXPECT_EQ(count, 3);
}

TEST(Callback, WhatARecordRefuses) {
  for (int which = 0; which < 3; ++which) {
    Rows rows;
    (which == 0 ? rows.bad_text : which == 1 ? rows.bad_json : rows.no_name) = true;
    const auto dataset = from(rows);
    int64_t count = 0;
    Error error;
    EXPECT_EQ(trl_dataset_get_row_count(dataset.get(), &count, error), TRL_E_CALLBACK);
    EXPECT_EQ(trl_error_callback_code(error.get()), which == 2 ? TRL_E_INVALID_ARGUMENT : TRL_E_FORMAT);
  }
}

TEST(Callback, DestroyRunsWhenTheRegistrationFails) {
  Rows rows;
  trl_dataset* dataset = nullptr;
  EXPECT_EQ(trl_dataset_from_callback(nullptr, nullptr, Rows::rewind, &rows, Rows::destroy, nullptr, &dataset,
                                      nullptr),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(rows.destroyed, 1);
  EXPECT_EQ(trl_dataset_from_callback(nullptr, Rows::next, nullptr, &rows, Rows::destroy, nullptr, &dataset,
                                      nullptr),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(rows.destroyed, 2);
  EXPECT_EQ(trl_dataset_from_callback(nullptr, Rows::next, Rows::rewind, &rows, Rows::destroy, nullptr,
                                      nullptr, nullptr),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(rows.destroyed, 3);
  EXPECT_EQ(dataset, nullptr);
}

}  // namespace
