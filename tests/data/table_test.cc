// Rows read in any order: what a table gives is what its source gives, and a file that is no longer the same
// is one clear error.
#include "data/source/table.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <numeric>
#include <random>
#include <set>

#include "base/error.h"
#include "io/temporary_file.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace trl::data {
namespace {

std::vector<std::string> shown(const std::vector<RowText>& texts) {
  std::vector<std::string> out;
  for (const RowText& text : texts) {
    const Row row = parse_row(text);
    out.push_back(row.where.text() + " " + row.value.dump());
  }
  return out;
}

std::vector<std::string> all_of(Source& source) {
  std::vector<RowText> texts;
  for (RowText text; source.next_text(text);) texts.push_back(text);
  return shown(texts);
}

std::vector<std::string> fetched(const Table& table, const std::vector<int64_t>& rows) {
  std::vector<RowText> texts;
  table.fetch(rows, texts);
  return shown(texts);
}

std::vector<int64_t> every_row(const Table& table) {
  std::vector<int64_t> rows(static_cast<size_t>(table.size()));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

using test::error_of;

// Rows of many lengths, blank lines between them, a byte order mark before them.
std::string many_rows(bool array, int count) {
  std::string bytes = array ? " [" : "\xEF\xBB\xBF";
  for (int i = 0; i < count; ++i) {
    if (i > 0) bytes += array ? (i % 3 == 0 ? " ,\n\n" : ", ") : (i % 5 == 0 ? "\n \n\n" : "\r\n");
    bytes += fmt::format("{{\"n\":{},\"s\":\"{}\\\"]}},{{\"}}", i,
                         std::string(static_cast<size_t>(i * 37 % 2000), 'x'));
  }
  return bytes + (array ? "\n]\n" : "");
}

TEST(Table, GivesTheRowsOfItsSourceInAnyOrder) {
  const test::TemporaryDirectory directory;
  for (const bool array : {false, true}) {
    const std::string path = directory.write(array ? "a.json" : "a.jsonl", many_rows(array, 500));
    const auto source = open_file_source(path);
    const std::vector<std::string> want = all_of(*source);
    ASSERT_EQ(want.size(), 500u);
    base::MemoryCounter memory;
    {
      const auto table = open_file_table(path, {.directory = {}, .memory = &memory});
      EXPECT_GT(memory.now(), 0);
      ASSERT_EQ(table->size(), 500);
      EXPECT_EQ(table->name(), path);
      EXPECT_EQ(table->total_bytes(), static_cast<int64_t>(std::filesystem::file_size(path)));
      std::vector<int64_t> rows = every_row(*table);
      EXPECT_EQ(fetched(*table, rows), want);
      EXPECT_EQ(fetched(*table, {}), std::vector<std::string>{});
      EXPECT_EQ(fetched(*table, {7, 7, 499, 0, 7}),
                (std::vector<std::string>{want[7], want[7], want[499], want[0], want[7]}));
      std::shuffle(rows.begin(), rows.end(), std::mt19937(1));
      const std::vector<std::string> got = fetched(*table, rows);
      for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(got[i], want[static_cast<size_t>(rows[i])]);
    }
    EXPECT_EQ(memory.now(), 0);
  }
}

TEST(Table, RecordedFiles) {
  TRL_NEED_GOLDEN("data/bad/index.json");
  for (const std::string file :
       {"blank_lines.jsonl", "bom.jsonl", "crlf.jsonl", "empty.jsonl", "no_trailing_newline.jsonl",
        "ok.jsonl.gz", "ok.jsonl.zst", "bad_utf8.jsonl"}) {
    const std::string path = test::golden_path("data/bad/" + file);
    const auto table = open_file_table(path, {});
    const auto source = open_file_source(path);
    if (file != "bad_utf8.jsonl") {
      EXPECT_EQ(fetched(*table, every_row(*table)), all_of(*source)) << file;
      continue;
    }
    EXPECT_EQ(fetched(*table, {0, 1, 2, 3, 4}).size(), 5u);
    const auto error = error_of([&] { fetched(*table, {5}); });
    EXPECT_EQ(error, error_of([&] { all_of(*source); }));
    EXPECT_EQ(error.second, path + ":6:15: invalid UTF-8: byte 0xff");
  }
  EXPECT_EQ(error_of([] { open_file_table(test::golden_path("data/bad/truncated.jsonl.gz"), {}); }).first,
            Status::format);
}

TEST(Table, DigestIsOfTheBytes) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("a.jsonl", many_rows(false, 100));
  const uint64_t digest = open_file_table(path, {})->digest();
  EXPECT_EQ(open_file_table(path, {})->digest(), digest);
  EXPECT_EQ(open_file_table(directory.write("b.jsonl", many_rows(false, 100)), {})->digest(), digest);
  std::string changed = many_rows(false, 100);
  changed[changed.size() / 2] ^= 1;
  EXPECT_NE(open_file_table(directory.write("c.jsonl", changed), {})->digest(), digest);

  const auto table = open_file_table(path, {});
  const std::vector<uint64_t> digests = {
      digest,
      concatenate({{table, 100, {}}, {table, 100, {}}})->digest(),
      concatenate({{table, 100, {}}, {table, 99, {}}})->digest(),
      concatenate({{table, 100, {"n"}}})->digest(),
      select_rows(table, {0, 1})->digest(),
      select_rows(table, {1, 0})->digest(),
      spool_rows(*open_file_source(path), {})->digest(),
  };
  EXPECT_EQ(std::set<uint64_t>(digests.begin(), digests.end()).size(), digests.size());
}

TEST(Table, AFileThatChangesOrGoesIsOneError) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("a.jsonl", many_rows(false, 200));
  const auto table = open_file_table(path, {});
  EXPECT_EQ(fetched(*table, {150}).size(), 1u);
  directory.write("a.jsonl", many_rows(false, 100));  // shorter
  EXPECT_EQ(
      error_of([&] { fetched(*table, {150}); }),
      std::pair(Status::io, path + ": the file has changed since it was opened: its rows are read from it "
                                   "during the run"));
  std::string same_size = many_rows(false, 200);
  same_size[same_size.size() / 2] ^= 1;
  directory.write("a.jsonl", same_size);
  EXPECT_EQ(error_of([&] { fetched(*table, {0}); }).first, Status::io);
  std::filesystem::remove(path);
  EXPECT_EQ(error_of([&] { fetched(*table, {0}); }),
            std::pair(Status::io, path + ": the file is gone: its rows are read from it during the run"));
}

TEST(Table, SpoolKeepsPlacesAndColumns) {
  for (const std::string bytes : {"{\"a\":1}\n\n {\"b\":2}", "[{\"a\":1},\n {\"b\":2}]"}) {
    const auto source = open_memory_source("json", bytes, "m.json");
    const std::vector<std::string> want = all_of(*source);
    source->rewind();
    const auto table = spool_rows(*source, {});
    EXPECT_EQ(fetched(*table, {0, 1}), want);
    EXPECT_EQ(fetched(*table, {1}), std::vector<std::string>{want[1]});
    EXPECT_EQ(table->name(), "m.json");
  }
  const auto broken = spool_rows(*open_memory_source("jsonl", "{}\n  {\"a\" 1}\n", "m.jsonl"), {});
  EXPECT_TRUE(error_of([&] { fetched(*broken, {1}); }).second.starts_with("m.jsonl:2:8: not valid JSON: "));
}

TEST(Table, PartsAndSelections) {
  const test::TemporaryDirectory directory;
  const auto a = open_file_table(directory.write("a.jsonl", "{\"x\":0,\"y\":0}\n{\"x\":1,\"y\":1}\n"), {});
  const auto b = open_file_table(directory.write("b.jsonl", "{\"x\":2}\n{\"x\":3}\n{\"x\":4}\n"), {});
  const auto empty = open_file_table(directory.write("c.jsonl", ""), {});
  const auto both = concatenate({{a, 2, {"x"}}, {empty, 0, {}}, {b, 2, {}}});
  ASSERT_EQ(both->size(), 4);
  const std::string at_a = a->name() + ":", at_b = b->name() + ":";
  EXPECT_EQ(fetched(*both, {3, 0, 2, 1}),
            (std::vector<std::string>{at_b + "2 {\"x\":3}", at_a + "1 {\"x\":0}", at_b + "1 {\"x\":2}",
                                      at_a + "2 {\"x\":1}"}));
  const auto some = select_rows(both, {2, 2, 0});
  ASSERT_EQ(some->size(), 3);
  EXPECT_EQ(fetched(*some, {2, 1}), (std::vector<std::string>{at_a + "1 {\"x\":0}", at_b + "1 {\"x\":2}"}));
  EXPECT_EQ(concatenate({{b, 3, {}}}), b);
}

}  // namespace
}  // namespace trl::data
