// Rows that are prepared while they are read: the same as those that are prepared before, whatever comes
// first.
#include "data/prepare/sft.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <map>
#include <numeric>
#include <thread>

#include "base/files/files.h"
#include "data/prepare/counts.h"
#include "data/prepare/record_store.h"
#include "support/error_of.h"
#include "support/letter_tokenizer.h"
#include "support/scratch.h"
#include "support/warnings.h"

namespace trl::data {
namespace {

constexpr int64_t kPreparedRows = 7700;  // 1.6 MB: more than is prepared before the first batch

struct PreparationShop {
  explicit PreparationShop(int threads = 2) : pool(threads) {
    context.tokenizer = &tokenizer;
    context.arguments = &arguments;
    context.log = &log;
    context.pool = &pool;
    context.memory = &memory;
  }
  std::unique_ptr<Examples> prepare(const std::string& path) {
    return prepare_sft(open_file_table(path, {}), context);
  }
  test::LetterTokenizer tokenizer;
  config::DataArguments arguments;
  test::Warnings log;
  base::ThreadPool pool;
  base::MemoryCounter memory;
  PrepareContext context;
};

// Every seventh prompt is longer than max_length 300.
std::string rows_file(const test::Scratch& scratch, const std::string& bad_line = "") {
  std::string text;
  for (int64_t i = 0; i < kPreparedRows; ++i) {
    const auto prompt = static_cast<size_t>(i % 7 == 3 ? 320 + i % 50 : 20 + i % 200);
    text += fmt::format("{{\"prompt\": \"{} {}\", \"completion\": \"{}\"}}\n", i, std::string(prompt, 'p'),
                        std::string(static_cast<size_t>(1 + i % 90), 'c'));
    if (i == kPreparedRows - 100 && !bad_line.empty()) text += bad_line + "\n";
  }
  base::write_file(scratch / "rows.jsonl", text);
  return scratch / "rows.jsonl";
}

std::vector<std::string> all(Examples& examples) {
  std::vector<std::string> out;
  for (int64_t row = 0; row < examples.size(); ++row) out.push_back(encode(examples.read(row)));
  return out;
}

TEST(Preparation, RowsReadEarlyAreThoseReadLate) {
  const test::Scratch scratch;
  const std::string path = rows_file(scratch);
  for (const bool shuffle : {false, true}) {
    PreparationShop shop;
    shop.arguments.max_length = 300;
    shop.arguments.shuffle_dataset = shuffle;
    const auto early = shop.prepare(path);
    const int64_t rows = early->size();
    EXPECT_EQ(rows, kPreparedRows - kPreparedRows / 7);
    std::vector<std::string> got(static_cast<size_t>(rows));
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t row = (i * 1009 + rows - 1) % rows;
      got[static_cast<size_t>(row)] = encode(early->read(row));
    }
    shop.context.needs_lengths = true;  // all rows before the first
    PreparationShop late_shop(3);
    late_shop.arguments = shop.arguments;
    late_shop.context.needs_lengths = true;
    const auto late = late_shop.prepare(path);
    EXPECT_EQ(all(*late), got);
    EXPECT_EQ(early->total_tokens(), late->total_tokens());
    EXPECT_EQ(shop.log.lines, late_shop.log.lines);
    ASSERT_EQ(shop.log.lines.size(), 1u);
    EXPECT_TRUE(shop.log.lines[0].find(fmt::format("{} of {} rows dropped", kPreparedRows - rows,
                                                   kPreparedRows)) != std::string::npos)
        << shop.log.lines[0];
  }
}

TEST(Preparation, ARunThatEndsEarlyIsToldWhatItMet) {
  const test::Scratch scratch;
  PreparationShop shop;
  shop.arguments.max_length = 300;
  const auto examples = shop.prepare(rows_file(scratch));
  examples->read(0);
  examples->rows().tell();
  examples->rows().tell();
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_NE(shop.log.lines[0].find(fmt::format("{} of ", kPreparedRows / 7)), std::string::npos)
      << shop.log.lines[0];
}

TEST(Preparation, ABadRowIsTheSameErrorWheneverItIsMet) {
  const test::Scratch scratch;
  const std::string path = rows_file(scratch, R"({"prompt": 5, "completion": "x"})");
  const std::string want =
      fmt::format("{}:{}: column 'prompt' is a number, but t", path, kPreparedRows - 100 + 2);
  PreparationShop early;
  early.arguments.max_length = std::nullopt;
  EXPECT_EQ(test::error_of([&] {
              const auto examples = early.prepare(path);
              for (int64_t row = 0; row < examples->size(); ++row) examples->read(row);
            }).second.substr(0, want.size()),
            want);
  PreparationShop late;
  late.context.packing = Packing::bfd;
  late.arguments.packing = Packing::bfd;
  EXPECT_EQ(test::error_of([&] { late.prepare(path)->size(); }).second.substr(0, want.size()), want);
}

TEST(Preparation, EndsBetweenTwoRowsWhenItGoes) {
  const test::Scratch scratch;
  const std::string path = rows_file(scratch);
  PreparationShop shop(1);
  std::atomic<int> rows{0};
  shop.tokenizer.before_encode = [&] {
    ++rows;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  auto examples = shop.prepare(path);
  while (rows == 0) std::this_thread::yield();
  examples.reset();
  EXPECT_LT(rows, 500);  // a block of rows has a thousand, with two texts each
}

TEST(Preparation, PacksDoNotDependOnThreads) {
  const test::Scratch scratch;
  const std::string path = rows_file(scratch);
  for (const Packing packing : {Packing::bfd, Packing::bfd_split, Packing::wrapped}) {
    std::vector<std::string> first;
    for (const int threads : {1, 2, 5}) {
      PreparationShop shop(threads);
      shop.arguments.max_length = 200;
      shop.context.packing = packing;
      shop.arguments.shuffle_dataset = packing == Packing::bfd;
      const auto rows = all(*shop.prepare(path));
      if (first.empty()) first = rows;
      EXPECT_EQ(rows, first);
    }
  }
}

// Counted by source row: under bfd_split and wrapped every token is in exactly one packed row.
TEST(Preparation, PackedRowsHoldEveryTokenOnce) {
  const test::Scratch scratch;
  const std::string path = rows_file(scratch);
  PreparationShop plain;
  plain.arguments.max_length = std::nullopt;
  plain.context.needs_lengths = true;
  const auto rows = plain.prepare(path);
  for (const Packing packing : {Packing::bfd_split, Packing::wrapped}) {
    PreparationShop shop;
    shop.arguments.max_length = 128;
    shop.context.packing = packing;
    const auto packed = shop.prepare(path);
    std::multiset<std::pair<int32_t, int32_t>> want, got;
    for (int64_t row = 0; row < rows->size(); ++row) {
      const Example example = rows->read(row);
      for (size_t i = 0; i < example.labels.size(); ++i)
        want.emplace(example.input_ids[i], example.labels[i]);
    }
    for (int64_t row = 0; row < packed->size(); ++row) {
      const Example example = packed->read(row);
      ASSERT_LE(example.input_ids.size(), 128u);
      for (size_t i = 0; i < example.labels.size(); ++i) got.emplace(example.input_ids[i], example.labels[i]);
    }
    EXPECT_EQ(got, want);
    EXPECT_EQ(packed->total_tokens(), rows->total_tokens());
    EXPECT_TRUE(shop.log.lines.empty());
  }
}

TEST(Preparation, MemoryStaysBounded) {
  const test::Scratch scratch;
  const std::string path = rows_file(scratch);
  PreparationShop shop;
  shop.context.directory = scratch / "out";
  shop.context.packing = Packing::bfd;
  shop.memory.set_limit(int64_t{34} << 20);
  EXPECT_GT(shop.prepare(path)->size(), 0);
  EXPECT_EQ(shop.memory.now(), 0);
}

struct CacheTest : testing::Test {
  std::vector<std::string> prepare(int64_t max_length = 300) {
    shop.log.lines.clear();
    shop.arguments.max_length = max_length;
    shop.arguments.row_options = std::to_string(max_length);
    shop.arguments.dataset_cache_dir = scratch / "cache";
    const auto examples = shop.prepare(path);
    auto rows = all(*examples);
    examples->total_tokens();  // waits for the pass, and so for the file
    return rows;
  }
  std::vector<std::string> files() const { return base::list_directory(scratch / "cache"); }
  test::Scratch scratch;
  const std::string path = rows_file(scratch);
  PreparationShop shop;
};

TEST_F(CacheTest, RowsComeBackWithTheirWarnings) {
  shop.arguments.dataset_cache_limit = int64_t{1} << 30;
  const auto rows = prepare();
  const auto lines = shop.log.lines;
  EXPECT_EQ(files().size(), 1u);
  EXPECT_EQ(prepare(), rows);
  EXPECT_EQ(shop.log.lines, lines);
  EXPECT_EQ(files().size(), 1u);
  EXPECT_NE(prepare(250), rows);  // another option, another file
  EXPECT_EQ(files().size(), 2u);
  base::append_file(path, "{\"prompt\": \"x\", \"completion\": \"y\"}\n");
  EXPECT_EQ(prepare().size(), rows.size() + 1);  // other bytes, another file
  EXPECT_EQ(files().size(), 3u);
}

TEST_F(CacheTest, IsReallyRead) {
  shop.arguments.dataset_cache_limit = int64_t{1} << 30;
  prepare();
  const std::string file = base::join_path(scratch / "cache", files()[0]);
  {
    RecordStore other({{}, size_t{1} << 20, nullptr, nullptr});
    other.append(encode({{7}, {7}, {1}, {0}}));
    Counts counts;
    counts.kept = counts.read = counts.tokens = 1;
    other.publish(file, counts.to_json().dump());
  }
  const auto rows = prepare();
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(decode_example(rows[0]).input_ids, std::vector<int32_t>{7});
}

TEST_F(CacheTest, ADamagedFileIsMadeAnew) {
  shop.arguments.dataset_cache_limit = int64_t{1} << 30;
  const auto rows = prepare();
  const std::string file = base::join_path(scratch / "cache", files()[0]);
  std::string bytes = base::read_file(file);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  base::write_file(file, bytes);
  EXPECT_EQ(prepare(), rows);
  ASSERT_EQ(shop.log.lines.size(), 2u);
  EXPECT_EQ(shop.log.lines[0],
            "dataset_cache_dir: " + file +
                ": damaged: a block was changed after it was written; the rows are prepared anew");
  EXPECT_EQ(prepare(), rows);
  EXPECT_EQ(shop.log.lines.size(), 1u);
}

TEST_F(CacheTest, OldFilesMakeRoom) {
  shop.arguments.dataset_cache_limit = 1;
  prepare(300);
  EXPECT_FALSE(std::filesystem::exists(scratch / "cache"));
  EXPECT_TRUE(shop.log.lines.back().find(
                  "of prepared rows are more than dataset_cache_limit, which is 1 B;") != std::string::npos)
      << shop.log.lines.back();
  shop.arguments.dataset_cache_limit = int64_t{1} << 30;
  prepare(300);
  const auto bytes = std::filesystem::file_size(base::join_path(scratch / "cache", files()[0]));
  shop.arguments.dataset_cache_limit = static_cast<int64_t>(bytes * 3 / 2);  // room for one
  EXPECT_EQ(files().size(), 1u);
  const auto first = files();
  prepare(250);
  EXPECT_EQ(files().size(), 1u);
  EXPECT_NE(files(), first);
}

TEST_F(CacheTest, APlaceThatCannotBeWrittenIsAWarning) {
  shop.arguments.dataset_cache_limit = int64_t{1} << 30;
  base::write_file(scratch / "cache", "a file where the folder should be");
  EXPECT_FALSE(prepare().empty());
  ASSERT_EQ(shop.log.lines.size(), 2u);
  EXPECT_TRUE(shop.log.lines[1].ends_with("; the prepared rows are not kept for the next run"))
      << shop.log.lines[1];
}

}  // namespace
}  // namespace trl::data
