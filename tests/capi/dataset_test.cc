// trl_dataset_* and trl_record_*: files, buffers, callbacks, and what is wrong with them.
#include <algorithm>
#include <optional>
#include <thread>

#include "host.h"

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
  EXPECT_EQ(files, 25);
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
    trl_config* config = nullptr;
    self->inside = trl_config_create(&config, nullptr);
    EXPECT_EQ(config, nullptr);
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
