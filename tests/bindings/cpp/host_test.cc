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
  EXPECT_FALSE(trl::has_feature(info.at("features").at(0).get<std::string>() + std::string("\0x", 2)));
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

TEST(CppLibrary, WhatItWasNotGivenIsFreed) {
  const auto alive = std::make_shared<int>(0);
  trl::Runtime runtime;
  pretended_version = 9u << 8;
  EXPECT_THROW(runtime.set_log([alive](std::int32_t, trl::TextView, trl::TextView) {}), std::runtime_error);
  EXPECT_THROW(runtime.set_progress([alive](trl::TextView, std::int64_t, std::int64_t) {}),
               std::runtime_error);
  EXPECT_THROW(trl::Dataset::from_callback([alive](trl::Record&) { return false; }, [alive] {}),
               std::runtime_error);
  pretended_version = 0;
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(CppOptions, EachHasTextsAndADefault) {
  std::set<std::string> names;
  const trl::Config config;
  for (const trl::Option& option : trl::OptionTable()) {
    names.insert(option.name());
    EXPECT_EQ(config.value(option.name()), option.default_value()) << option.name();
    for (const std::string& text :
         {option.section(), option.group(), option.origin(), std::string(option.doc()), option.since()})
      EXPECT_NE(text, "") << option.name();
    EXPECT_TRUE(option.type() >= trl::OptionType::boolean && option.type() <= trl::OptionType::map);
    EXPECT_EQ(option.unsupported_reason() + option.ignored_reason() == "",
              option.taken() == "" && option.unsupported_reason() == "" && option.ignored_reason() == "");
    if (option.name() == "learning_rate") {
      EXPECT_STRNE(option.default_value("dpo"), option.default_value());
      EXPECT_EQ(option.other_names().substr(0, 3), "lr,");
      EXPECT_FALSE(option.nullable());
    }
    if (option.name() == "loss_type") {
      EXPECT_EQ(option.type("dpo"), trl::OptionType::list);
      EXPECT_EQ(option.type("sft"), option.type());
      EXPECT_STRNE(option.accepted("dpo"), option.accepted("sft"));
      EXPECT_STRNE(option.doc("dpo"), option.doc("sft"));
      EXPECT_STRNE(option.accepted(), "");
    }
    if (option.name() == "num_generations") {
      EXPECT_EQ(option.default_value("sft"), nullptr);
      EXPECT_EQ(option.type("sft"), -1);
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

TEST(CppConfig, HasASchema) {
  const Json all = Json::parse(trl::Config::schema()).at("properties");
  const Json sft = Json::parse(trl::Config::schema("sft")).at("properties");
  EXPECT_GT(all.size(), sft.size());
  EXPECT_TRUE(all.contains("num_generations"));
  EXPECT_FALSE(sft.contains("num_generations"));
  EXPECT_EQ(error_of([] { trl::Config::schema("no such trainer"); }).status(), trl::Status::not_found);
}

TEST(CppConfig, AnErrorHasAPlace) {
  trl::Config config;
  const trl::Error error = error_of([&] { config.load_text("seed: 7\nmax_steps: many\n"); });
  EXPECT_EQ(error.key(), "max_steps");
  EXPECT_EQ(error.place().file, "text");
  EXPECT_EQ(error.place().line, 2);
  EXPECT_EQ(error.place().row, -1);
  const trl::Error row = error_of(
      [] { trl::Dataset::from_buffer("jsonl", "{\"text\": \"a\"}\n{\"text\": nothing}\n").row_count(); });
  EXPECT_EQ(row.status(), trl::Status::format);
  EXPECT_STREQ(row.status_name(), "TRL_E_FORMAT");
  EXPECT_EQ(row.place().file, "buffer");
  EXPECT_EQ(row.place().line, 2);
  EXPECT_GT(row.place().column, 1);
  EXPECT_EQ(row.place().row, 1);
  EXPECT_EQ(error_of([&] { config.set("max_steps", "many"); }).place().file, "");
}

TEST(CppConfig, AnErrorHasStatusAndKey) {
  trl::Config config;
  const trl::Error error = error_of([&] { config.set("learning_rat", 1); });
  EXPECT_EQ(error.status(), trl::Status::invalid_config);
  EXPECT_EQ(error.key(), "learning_rat");
  EXPECT_EQ(error.callback_code(), 0);
  EXPECT_NE(std::string(error.what()).find("learning_rate"), std::string::npos);
  EXPECT_EQ(error_of([&] { config.load("/nowhere.yaml"); }).status(), trl::Status::not_found);
  EXPECT_THROW(config.unset(std::string("seed\0", 5)), trl::Error);  // it would be cut at the NUL
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

TEST(CppRows, OfIds) {
  const trl::Tokenizer tokenizer(kModel);
  const std::vector<std::int32_t> ids = tokenizer.encode("the kernel");
  bool given = false;
  const trl::Dataset rows = trl::Dataset::from_callback(
      [&](trl::Record row) {
        row.set_ids("input_ids", ids);
        return given = !given;
      },
      [&] { given = false; });
  EXPECT_EQ(Json::parse(rows.example(tokenizer, 0)).at("input_ids"), Json(ids));
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
  rows.visit_batches(
      tokenizer, 1, 1, [&](const std::string& json) { EXPECT_EQ(json, batches[1]); }, options);
  int seen = 0;
  rows.visit_batches(
      tokenizer, 0, 99, [&](trl::TextView) { return ++seen == 2; }, options);
  EXPECT_EQ(seen, 2);
  EXPECT_THROW(rows.visit_batches(tokenizer, 0, 99, [](trl::TextView) { throw Oops(4); }), Oops);
  EXPECT_EQ(error_of([&] { rows.visit_batches(tokenizer, 99, 1, [](trl::TextView) {}); }).status(),
            trl::Status::invalid_argument);
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

TEST(CppTokenizer, SpelledOutSpecialTokensAreSplitOnDemand) {
  const trl::Tokenizer tokenizer(kModel), splitting(kModel, {{"split_special_tokens", true}});
  const std::string text = Json::parse(tokenizer.describe()).at("eos_token");
  const auto one = tokenizer.encode(text, false), several = tokenizer.encode(text, false, 1);
  EXPECT_EQ(one.size(), 1u);
  EXPECT_GT(several.size(), 1u);
  EXPECT_EQ(tokenizer.decode(several), text);
  EXPECT_EQ(splitting.encode(text, false), several);
  EXPECT_EQ(splitting.encode(text, false, 0), one);
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

TEST(CppTensor, OfTheHost) {
  trl::Tensor tensor(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(tensor.dtype(), "float32");
  EXPECT_EQ(tensor.size(), 6u);
  EXPECT_EQ(std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end()),
            (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(tensor.device(), 1);
  EXPECT_FALSE(tensor.read_only());
  EXPECT_EQ(tensor.values<float>().data()[5], 6);
  EXPECT_EQ(tensor.values<std::uint32_t>().data()[0], 0x3f800000u);
  EXPECT_THROW(tensor.values<double>(), std::invalid_argument);
  EXPECT_THROW(tensor.values<std::int32_t>(), std::invalid_argument);
  const trl::Tensor moved = std::move(tensor);
  EXPECT_FALSE(tensor);
  EXPECT_EQ(tensor.size(), 0u);
  EXPECT_THROW(tensor.values<float>(), std::invalid_argument);
  EXPECT_EQ(moved.values<float>().data()[0], 1);
  EXPECT_EQ(trl::Tensor(std::vector<std::uint16_t>{0x3f80}, {1}, "bfloat16").dtype(), "bfloat16");
  EXPECT_EQ(trl::Tensor(std::vector<double>{1}, {}).dtype(), "float64");
  EXPECT_EQ(trl::Tensor(std::array<std::int8_t, 0>{}, {0, 7}).dtype(), "int8");
}

TEST(CppTensor, WithoutACopy) {
  std::vector<float> numbers{1, 2};
  const float* const at = numbers.data();
  EXPECT_EQ(trl::Tensor(std::move(numbers), {2}).data(), at);
  const std::vector<float> elsewhere{1, 2};
  const trl::Tensor lent(trl::View<float>(elsewhere), {2, 1});
  EXPECT_EQ(lent.data(), elsewhere.data());
  EXPECT_TRUE(lent.read_only());
  EXPECT_EQ(trl::Tensor(std::span<const float>(elsewhere), {2}).data(), elsewhere.data());
}

TEST(CppTensor, OfAnotherShapeOrTypeIsRefused) {
  const std::vector<float> six(6);
  for (const std::vector<std::int64_t>& shape : std::vector<std::vector<std::int64_t>>{
           {}, {2, 2}, {-2, -3}, {std::int64_t{1} << 62, 4}, {std::int64_t{1} << 62, 4, 6}})
    EXPECT_THROW(trl::Tensor(six, shape), std::invalid_argument);
  EXPECT_THROW(trl::Tensor(six, {6}, "bfloat16"), std::invalid_argument);
  EXPECT_THROW(trl::Tensor(six, {6}, "floaty"), std::invalid_argument);
}

// What DLPack's header has, as another library uses it.
struct Given {
  trl::detail::ManagedTensor managed{};
  std::vector<std::int64_t> shape{2, 2}, strides{1, 2};
  std::vector<std::int32_t> values{1, 2, 3, 4};
  int deleted = 0;
  DLManagedTensorVersioned* tensor() {
    managed.major = 1;
    managed.context = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<Given*>(trl::detail::look(self).context)->deleted;
    };
    managed.data = values.data();
    managed.device = 1;
    managed.ndim = 2;
    managed.bits = 32;
    managed.lanes = 1;
    managed.shape = shape.data();
    managed.strides = strides.data();
    return reinterpret_cast<DLManagedTensorVersioned*>(&managed);
  }
};

TEST(CppTensor, IsTakenOverAndGivenAway) {
  Given given;
  {
    trl::Tensor tensor(given.tensor());
    EXPECT_EQ(tensor.dtype(), "int32");
    EXPECT_THROW(tensor.values<std::int32_t>(), std::invalid_argument);  // strides
    given.strides = {2, 1};
    EXPECT_EQ(tensor.values<std::int32_t>().data()[3], 4);
    given.managed.byte_offset = 4;
    given.managed.strides = nullptr;
    EXPECT_EQ(tensor.values<std::int32_t>().data()[0], 2);
    given.managed.device = 2;
    EXPECT_EQ(tensor.device(), 2);
    EXPECT_THROW(tensor.values<std::int32_t>(), std::invalid_argument);
    EXPECT_EQ(trl::detail::look(trl::detail::LentTensor(tensor.get()).get()).deleter, nullptr);
    EXPECT_EQ(trl::detail::LentTensor(nullptr).get(), nullptr);
  }
  EXPECT_EQ(given.deleted, 1);
  trl::Tensor mine(std::vector<float>{1}, {1});
  DLManagedTensorVersioned* const released = mine.release();
  trl::detail::look(released).deleter(released);  // leaks otherwise
  const trl::Tensor nothing(nullptr);
  EXPECT_FALSE(nothing);
}

TEST(CppThreads, HaveTheirOwnExceptions) {
  const trl::Tokenizer tokenizer(kModel);
  const trl::Config config{{"max_steps", 3}};
  trl::Runtime runtime;
  std::atomic<int> lines{0};
  runtime.set_log([&](std::int32_t, trl::TextView, trl::TextView) { ++lines; });
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int again = 0; again < 5; ++again) {
        try {
          asked(
              3, [&](int row) { row == 2 ? throw Oops(i) : (void)tokenizer.encode("the kernel"); }, &runtime)
              .row_count();
          ADD_FAILURE();
        } catch (const Oops& oops) {
          EXPECT_EQ(oops.number, i);
        }
        EXPECT_EQ(config.value("max_steps"), "3");
        EXPECT_EQ(error_of([&] { tokenizer.decode(std::vector<std::int32_t>{-1}); }).status(),
                  trl::Status::invalid_argument);
        EXPECT_EQ(trl::Dataset(kFile, {}, &runtime).row_count(), 64);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
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
