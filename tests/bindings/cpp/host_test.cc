// The classes of C++ as far as they open no engine.
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <set>
#include <span>
#include <string_view>
#include <thread>

#include "bindings/cpp/common.h"
#include "support/arrow_stream.h"

namespace {

std::uint32_t pretended_version = 0;

}  // namespace

// Stands before the library's own, so that a test can be of another version.
uint32_t trl_version() noexcept {
  using Version = std::uint32_t (*)();
  return pretended_version != 0 ? pretended_version
                                : reinterpret_cast<Version>(dlsym(RTLD_NEXT, "trl_version"))();
}

namespace {

using cpp_test::error_of;
using cpp_test::Json;
using cpp_test::kModel;
using cpp_test::Oops;

const std::string kLines = R"({"text": "one two"}
{"text": "two three"}
{"text": "three four"}
{"text": "four five"}
)";
const std::string kFile = std::string(TRL_SOURCE_DIR) + "/tests/golden/data/datasets/train_lm.jsonl";

// Rows of a callback, as often as they are read.
template <class Before>
trl::Dataset asked(int count, Before before, const trl::Runtime* runtime = nullptr) {
  auto next = std::make_shared<int>(0);
  return trl::Dataset::from_callback(
      [=](trl::Record& row) mutable {
        before(*next);
        if (*next == count) return false;
        row.set_text("text", "row " + std::to_string((*next)++));
        return true;
      },
      [=] { *next = 0; }, {}, runtime);
}

static_assert(!std::is_copy_constructible_v<trl::Config> && !std::is_copy_assignable_v<trl::Trainer>);
static_assert(std::is_nothrow_move_constructible_v<trl::Dataset> &&
              std::is_nothrow_move_assignable_v<trl::Model>);
static_assert(std::input_iterator<trl::OptionTable::iterator> &&
              std::input_iterator<trl::Completions::const_iterator>);
static_assert(std::input_iterator<trl::Stream::iterator> &&
              std::input_iterator<trl::Rollout::const_iterator>);

TEST(CppLibrary, Version) {
  EXPECT_EQ(trl::version_number(), trl_version());
  const Json info = Json::parse(trl::build_info());
  EXPECT_EQ(info.at("version"), trl::version());
  for (const Json& feature : info.at("features")) EXPECT_TRUE(trl::has_feature(feature));
  EXPECT_FALSE(trl::has_feature("no such feature"));
  trl::shutdown();
}

TEST(CppLibrary, AnotherVersionIsRefused) {
  for (const std::uint32_t version : {9u << 16 | 1u << 8, 9u << 8}) {
    pretended_version = version;
    try {
      trl::Config config;
      ADD_FAILURE();
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string_view(error.what()).find("and trl.hpp is for 0.1"), std::string_view::npos)
          << error.what();
    }
    pretended_version = 0;
  }
}

TEST(CppOptions, EachHasTextsAndADefault) {
  std::set<std::string> names;
  const trl::Config config;
  for (const trl::Option& option : trl::OptionTable()) {
    names.insert(option.name());
    EXPECT_EQ(config.value(option.name()), option.default_value()) << option.name();
    for (const std::string& text :
         {option.section(), option.group(), option.origin(), option.doc(), option.since()})
      EXPECT_NE(text, "") << option.name();
    EXPECT_GE(option.type(), trl::OptionType::boolean);
    EXPECT_LE(option.type(), trl::OptionType::map);
    EXPECT_EQ(option.unsupported_reason() + option.ignored_reason() == "",
              option.taken() == "" && option.unsupported_reason() == "" && option.ignored_reason() == "");
    if (option.name() == "learning_rate") {
      EXPECT_NE(option.default_for("dpo"), option.default_value());
      EXPECT_EQ(option.other_names().substr(0, 3), "lr,");
      EXPECT_FALSE(option.nullable());
    }
    if (option.name() == "loss_type") {
      EXPECT_STRNE(option.accepted_for("dpo"), option.accepted_for("sft"));
      EXPECT_STRNE(option.doc_for("dpo"), option.doc_for("sft"));
      EXPECT_NE(option.accepted(), "");
    }
    if (option.name() == "num_generations") {
      EXPECT_EQ(option.default_for("sft"), nullptr);
      EXPECT_EQ(option.trainers().find("sft"), std::string::npos);
    }
  }
  EXPECT_GT(names.size(), 500u);
  EXPECT_TRUE(std::ranges::any_of(trl::OptionTable(),
                                  [](const trl::Option& option) { return !option.aliases().empty(); }));
}

TEST(CppConfig, TakesTextsNumbersAndTruthValues) {
  trl::Config config{
      {"learning_rate", 1e-4}, {"bf16", false}, {"max_steps", 3}, {"generate.stop", R"(["a"])"}};
  config.set("resume_from_checkpoint", nullptr);
  config.set("output_dir", std::string_view("out"));
  config.set("weight_decay", 0.5f);
  EXPECT_EQ(Json::parse(config.describe()),
            Json::parse(R"({"learning_rate": 1e-4, "bf16": false, "max_steps": 3, "generate.stop": ["a"],
                            "resume_from_checkpoint": null, "output_dir": "out", "weight_decay": 0.5})"));
  EXPECT_EQ(config.value("learning_rate"), "1e-04");
  EXPECT_EQ(config.origin("max_steps"), "set");
  config.unset("max_steps");
  EXPECT_EQ(config.origin("max_steps"), "default");
  config.load_text("learning_rate: 1e-3\nseed: 7\n");
  EXPECT_EQ(config.origin("seed"), "text:2");
  EXPECT_TRUE(Json::parse(config.warnings()).is_array());
}

TEST(CppConfig, AnErrorHasStatusAndKey) {
  trl::Config config;
  const trl::Error error = error_of([&] { config.set("learning_rat", 1); });
  EXPECT_EQ(error.status(), trl::Status::invalid_config);
  EXPECT_EQ(error.key(), "learning_rat");
  EXPECT_EQ(error.callback_code(), 0);
  EXPECT_NE(std::string(error.what()).find("learning_rate"), std::string::npos);
  EXPECT_EQ(error_of([&] { config.load("/nowhere.yaml"); }).status(), trl::Status::not_found);
  EXPECT_EQ(Json::parse(config.describe()).size(), 0u);
}

TEST(CppHandle, MovesItsObject) {
  trl::Config first{{"seed", 7}};
  trl::Config second = std::move(first);
  EXPECT_FALSE(first);
  EXPECT_EQ(second.value("seed"), "7");
  EXPECT_EQ(error_of([&] { first.set("seed", 1); }).status(), trl::Status::invalid_argument);
  first = trl::Config{{"seed", 8}};
  second = std::move(first);
  EXPECT_EQ(second.value("seed"), "8");
  trl::Config& same = second;
  second = std::move(same);
  EXPECT_EQ(second.value("seed"), "8");
  const trl::Config adopted(second.release());
  EXPECT_EQ(adopted.value("seed"), "8");
  EXPECT_FALSE(second);
}

TEST(CppRows, InMemoryAndOfACallback) {
  EXPECT_EQ(trl::Dataset::from_buffer("jsonl", kLines).row_count(), 4);
  EXPECT_EQ(trl::Dataset::from_buffer("csv", "text\na\nb\n").row_count(), 2);
  EXPECT_EQ(trl::Dataset(kFile).row_count(), 64);
  const trl::Dataset rows = asked(4, [](int) {});
  EXPECT_EQ(rows.row_count(), 4);
  EXPECT_EQ(rows.row_count(), 4);
}

TEST(CppRows, KeepTheirTypes) {
  const std::string messages =
      R"([{"role": "user", "content": "é 字"}, {"role": "assistant", "content": "b"}])";
  bool given = false;
  const trl::Dataset rows = trl::Dataset::from_callback(
      [&](trl::Record row) {
        if (given) return false;
        row.set_json("messages", messages);
        return given = true;
      },
      [&] { given = false; });
  const trl::Tokenizer tokenizer(kModel);
  EXPECT_EQ(rows.example(tokenizer, 0),
            trl::Dataset::from_buffer("jsonl", R"({"messages": )" + messages + "}").example(tokenizer, 0));
}

TEST(CppRows, AnExceptionComesThrough) {
  const trl::Dataset rows = asked(4, [](int row) {
    if (row == 3) throw Oops(3);
  });
  for (int again = 0; again < 2; ++again) {
    try {
      rows.row_count();
      ADD_FAILURE();
    } catch (const Oops& oops) {
      EXPECT_EQ(oops.number, 3);
    }
  }
  EXPECT_THROW(asked(1, [](int) { throw 7; }).row_count(), int);
  const auto none = [](trl::Record&) { return false; };
  EXPECT_THROW(trl::Dataset::from_callback(none, [] { throw Oops(1); }).row_count(), Oops);
  EXPECT_EQ(
      error_of([&] { trl::Dataset::from_callback(none, [] { return -5; }).row_count(); }).callback_code(),
      -5);
  // an error of the library within a function of the host
  const auto bad = [](trl::Record& row) {
    row.set_text("text", "\xff");
    return true;
  };
  const trl::Error error = error_of([&] { trl::Dataset::from_callback(bad, [] {}).row_count(); });
  EXPECT_EQ(error.status(), trl::Status::format);
}

TEST(CppRows, AfterAnExceptionNothingOfTheHostRuns) {
  trl::Runtime runtime;
  int thrown = 0, later = 0;
  runtime.set_progress([&](trl::TextView, std::int64_t, std::int64_t) {
    ++thrown;
    throw Oops(2);
  });
  EXPECT_THROW(asked(
                   4, [&](int) { later += thrown; }, &runtime)
                   .row_count(),
               Oops);
  EXPECT_EQ(thrown, 1);
  EXPECT_EQ(later, 0);
}

TEST(CppRows, WithoutACallOfTheClassesTheLibraryTellsWhatWasThrown) {
  const trl::Dataset rows = asked(4, [](int) { throw Oops(1); });
  trl_error* error = nullptr;
  std::int64_t count = 0;
  EXPECT_EQ(trl_dataset_get_row_count(rows.get(), &count, &error), TRL_E_CALLBACK);
  EXPECT_NE(std::string(trl::Error(error).what()).find("oops 1"), std::string::npos);
  trl_error_destroy(error);
  EXPECT_EQ(asked(4, [](int) {}).row_count(), 4);
}

TEST(CppRows, FunctionsAreFreedOnce) {
  const auto alive = std::make_shared<int>(0);
  {
    const trl::Dataset rows = asked(4, [alive](int) {});
    EXPECT_EQ(rows.row_count(), 4);
    EXPECT_GT(alive.use_count(), 1);
  }
  EXPECT_EQ(alive.use_count(), 1);
  trl::Runtime runtime;
  runtime.set_log([alive](std::int32_t, trl::TextView, trl::TextView) {});
  runtime.set_progress(
      [alive, only = std::make_unique<int>(1)](trl::TextView, std::int64_t, std::int64_t) { return 0; });
  EXPECT_EQ(alive.use_count(), 3);
  runtime.set_log(nullptr);
  runtime.set_progress(nullptr);
  EXPECT_EQ(alive.use_count(), 1);
  trl::Runtime empty = std::move(runtime);
  EXPECT_EQ(
      error_of([&] { runtime.set_log([alive](std::int32_t, trl::TextView, trl::TextView) {}); }).status(),
      trl::Status::invalid_argument);
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(CppRows, AConfigurationNamesThem) {
  auto rows = trl::Dataset::from_config({{"dataset_name", kFile}});
  EXPECT_FALSE(rows.second);
  EXPECT_EQ(rows.first.row_count(), 64);
  rows = trl::Dataset::from_config({{"dataset_name", kFile}, {"eval_dataset_name", kFile}});
  EXPECT_EQ(rows.second.row_count(), 64);
  EXPECT_EQ(error_of([] {
              trl::Dataset::from_config({{"dataset_name", "/nowhere.jsonl"}});
            }).status(),
            trl::Status::not_found);
}

TEST(CppRows, LengthsExamplesAndBatches) {
  const trl::Tokenizer tokenizer(kModel);
  const trl::Dataset rows = trl::Dataset::from_buffer("jsonl", kLines);
  const trl::Profile profile =
      rows.profile(tokenizer, {{"profile.max_lengths", "[4, 16]"}, {"profile.peaks", false}});
  EXPECT_EQ(Json::parse(profile.json).at("rows"), 4);
  EXPECT_NE(profile.text.find('\n'), std::string::npos);
  const trl::Config options{{"per_device_train_batch_size", 1}};
  std::vector<std::string> batches;
  rows.visit_batches(
      tokenizer, 0, 99, [&](std::string_view json) { batches.emplace_back(json); }, options);
  ASSERT_EQ(batches.size(), 4u);
  EXPECT_EQ(batches[1], rows.batch(tokenizer, 1, options));
  int seen = 0;
  rows.visit_batches(
      tokenizer, 0, 99, [&](trl::TextView) { return ++seen == 2; }, options);
  EXPECT_EQ(seen, 2);
  EXPECT_THROW(rows.visit_batches(tokenizer, 0, 99, [](trl::TextView) { throw Oops(4); }), Oops);
  EXPECT_EQ(error_of([&] { rows.batch(tokenizer, 99); }).status(), trl::Status::invalid_argument);
}

TEST(CppRows, AStreamOfArrowIsTakenOver) {
  if (!trl::has_feature("arrow")) GTEST_SKIP() << "this build does not read Arrow streams";
  ArrowArrayStream stream{};
  stream.get_schema = [](ArrowArrayStream*, ArrowSchema*) { return 5; };
  stream.get_last_error = [](ArrowArrayStream*) -> const char* { return nullptr; };
  stream.release = [](ArrowArrayStream* self) { self->release = nullptr; };
  const trl::Error error = error_of([&] { trl::Dataset::from_arrow(&stream); });
  EXPECT_EQ(error.status(), trl::Status::callback);
  EXPECT_EQ(error.callback_code(), 5);
  EXPECT_EQ(stream.release, nullptr);
}

TEST(CppTokenizer, EncodesAndDecodes) {
  const trl::Tokenizer tokenizer(kModel);
  std::string text = "the kernel é 字 🙂 ";
  text += '\0';
  for (int i = 0; i < 400; ++i) text += " long";
  const std::vector<std::int32_t> ids = tokenizer.encode(text);
  EXPECT_EQ(tokenizer.decode(ids), text);
  EXPECT_EQ(tokenizer.decode(std::span<const std::int32_t>(ids).first(0)), "");
  EXPECT_EQ(tokenizer.decode(std::array<std::int32_t, 1>{ids[0]}), tokenizer.decode({ids.data(), 1}));
  EXPECT_TRUE(tokenizer.encode("").empty());
  EXPECT_EQ(tokenizer.piece(tokenizer.encode("e", false).at(0)), "e");
  EXPECT_GT(Json::parse(tokenizer.describe()).at("vocab_size"), 0);
  EXPECT_EQ(error_of([&] { tokenizer.decode(std::vector<std::int32_t>{1000000000}); }).status(),
            trl::Status::invalid_argument);
  EXPECT_EQ(error_of([] { trl::Tokenizer("/nowhere"); }).status(), trl::Status::not_found);
}

TEST(CppTokenizer, RendersChats) {
  const trl::Tokenizer tokenizer(kModel);
  const std::string text = tokenizer.apply_chat_template(R"([{"role": "user", "content": "hi"}])");
  EXPECT_NE(text.find("hi"), std::string::npos);
  EXPECT_TRUE(tokenizer
                  .apply_chat_template(R"({"messages": [{"role": "user", "content": "hi"}],
                                               "add_generation_prompt": true})")
                  .starts_with(text));
}

TEST(CppTokenizer, AsksAgainForMoreRoom) {
  int asked = 0;
  const auto text = trl::detail::fill<std::string>(0, [&](char* out, std::size_t room, std::size_t* size) {
    ++asked;
    *size = 3;
    if (room == 3) std::memcpy(out, "abc", 3);
  });
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(asked, 2);
}

TEST(CppRuntime, TellsProgressAndMemory) {
  trl::Runtime runtime({{"runtime.threads", 1}});
  std::set<std::string> phases;
  runtime.set_progress([&](const std::string& phase, std::int64_t, std::int64_t) { phases.insert(phase); });
  trl::Dataset(kFile, {}, &runtime).row_count();
  EXPECT_TRUE(phases.count("rows"));
  runtime.set_progress([](trl::TextView, std::int64_t, std::int64_t) { return trl::Progress::stop; });
  EXPECT_EQ(error_of([&] { trl::Dataset(kFile, {}, &runtime).row_count(); }).status(),
            trl::Status::cancelled);
  EXPECT_LE(runtime.memory().now, runtime.memory().peak);
  EXPECT_EQ(runtime.memory("weights").now, 0);
  EXPECT_EQ(error_of([&] { runtime.memory("no such kind"); }).status(), trl::Status::not_found);
  runtime.set_memory_limit(std::int64_t{1} << 40);
  runtime.set_memory_limit(0);
  EXPECT_EQ(error_of([&] { runtime.set_memory_limit(-1); }).status(), trl::Status::invalid_argument);
}

TEST(CppRuntime, IsCancelledFromAnotherThread) {
  for (const bool all : {false, true}) {
    trl::Runtime runtime;
    std::atomic<bool> reading{false};
    std::thread thread([&] {
      while (!reading) std::this_thread::yield();
      all ? trl::cancel_all() : runtime.cancel();
    });
    const trl::Dataset rows = trl::Dataset::from_callback(
        [&](trl::Record& row) {
          row.set_text("text", "again");
          return reading = true;
        },
        [] {}, {}, &runtime);
    EXPECT_EQ(error_of([&] { rows.row_count(); }).status(), trl::Status::cancelled);
    thread.join();
  }
}

TEST(CppRuntime, AnEmptyOneCancelsNothing) {
  trl::Runtime runtime, moved = std::move(runtime);
  EXPECT_EQ(asked(4, [&](int) { runtime.cancel(); }).row_count(), 4);
}

}  // namespace
