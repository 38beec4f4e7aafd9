// What a configuration names, row for row as datasets and TRL give it.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <numeric>
#include <thread>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "data/source/origin.h"
#include "io/temporary_file.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace trl::data {
namespace {

using base::Json;
using RowNames = std::vector<std::string>;

class LogLines final : public base::LogSink {
 public:
  void write(base::LogLevel, std::string_view, std::string_view text) noexcept override {
    lines.emplace_back(text);
  }
  RowNames lines;
};

class Mixtures : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.file(name + ".jsonl"); }
  void SetUp() override {
    cases_ = test::golden_json("mixtures/cases.json");
    for (const auto& [name, size] : cases_["sizes"].items()) {
      std::string bytes;
      for (int i = 0; i < size.get<int>(); ++i)
        bytes += fmt::format("{{\"id\": \"{}{}\", \"x\": {}, \"y\": {}}}\n", name, i, i, -i);
      directory_.write(name + ".jsonl", bytes);
    }
  }
  OpenedRows open(const std::vector<std::pair<std::string, Json>>& keys) {
    config::Config config;
    for (const auto& [key, value] : keys)
      config.set(key, value.is_string() ? value.get<std::string>() : value.dump());
    return open_rows(config::dataset_arguments(config), log_);
  }
  static RowNames ids(const Origin& origin) {
    const auto table = origin.table({});
    EXPECT_EQ(origin.table({}), table);
    std::vector<int64_t> rows(static_cast<size_t>(table->size()));
    std::iota(rows.begin(), rows.end(), 0);
    std::vector<RowText> texts;
    table->fetch(rows, texts);
    RowNames out;
    for (const RowText& text : texts) out.push_back(parse_row(text).value["id"]);
    return out;
  }
  static RowNames streamed(const Origin& origin) {
    RowNames out;
    const auto source = origin.source();
    for (Row row; source->next(row);) out.push_back(row.value["id"]);
    return out;
  }

  const test::TemporaryDirectory directory_;
  Json cases_;
  LogLines log_;
};

TEST_F(Mixtures, FractionsOfTrl) {
  ASSERT_EQ(cases_["fractions"].size(), 10u);
  for (const Json& item : cases_["fractions"]) {
    Json datasets = Json::array();
    for (const Json& part : item["fractions"])
      datasets.push_back({{"path", "json"}, {"data_files", path(part[0])}, {"fraction", part[1]}});
    const OpenedRows opened = open({{"datasets", datasets}});
    EXPECT_EQ(ids(*opened.train), item["rows"].get<RowNames>()) << item["fractions"];
    EXPECT_EQ(opened.eval, nullptr);
    if (item["fractions"][0][1].is_null()) {
      EXPECT_EQ(streamed(*opened.train), item["rows"].get<RowNames>());
    } else {
      EXPECT_EQ(opened.train->source(), nullptr);
      EXPECT_TRUE(opened.train->shards().empty());
    }
  }
}

TEST_F(Mixtures, SplitsOfDatasets) {
  ASSERT_EQ(cases_["splits"].size(), 10u);
  for (const Json& item : cases_["splits"]) {
    const OpenedRows opened = open(
        {{"dataset_name", path(item["name"])}, {"test_split_size", item["size"]}, {"seed", item["seed"]}});
    if (item.contains("error")) {
      const auto error = test::error_of([&] { ids(*opened.train); });
      EXPECT_EQ(error.first, Status::invalid_config) << item;
      EXPECT_NE(error.second.find("leaves none to train on"), std::string::npos) << error.second;
      continue;
    }
    EXPECT_EQ(ids(*opened.train), item["train"].get<RowNames>()) << item;
    EXPECT_EQ(ids(*opened.eval), item["test"].get<RowNames>()) << item;
  }
}

TEST_F(Mixtures, MixturesOfOpenR1) {
  ASSERT_EQ(cases_["mixtures"].size(), 4u);
  for (const Json& item : cases_["mixtures"]) {
    Json mixture = {
        {"datasets", Json::array()}, {"seed", item["seed"]}, {"test_split_size", item["test_split_size"]}};
    for (const Json& part : item["entries"])
      mixture["datasets"].push_back({{"id", path(part[0])}, {"weight", part[1]}, {"columns", {"id"}}});
    const OpenedRows opened = open({{"dataset_mixture", mixture}});
    EXPECT_EQ(ids(*opened.train), item["train"].get<RowNames>()) << item;
    ASSERT_EQ(opened.eval != nullptr, item.contains("test"));
    if (opened.eval != nullptr) {
      EXPECT_EQ(ids(*opened.eval), item["test"].get<RowNames>()) << item;
    }
    std::vector<RowText> texts;
    opened.train->table({})->fetch(std::vector<int64_t>{0}, texts);
    EXPECT_EQ(parse_row(texts[0]).value.size(), 1u);
  }
}

TEST_F(Mixtures, MixersOfAlignmentHandbook) {
  ASSERT_EQ(cases_["mixers"].size(), 2u);
  for (const Json& item : cases_["mixers"]) {
    Json mixer = Json::object();
    for (const Json& part : item["entries"]) mixer[path(part[0])] = part[1];
    EXPECT_EQ(ids(*open({{"dataset_mixer", mixer}}).train), item["train"].get<RowNames>()) << item;
  }
}

TEST_F(Mixtures, EvaluationRows) {
  const OpenedRows named = open({{"dataset_name", path("a")}, {"eval_dataset_name", path("d")}});
  EXPECT_EQ(ids(*named.train).size(), 7u);
  EXPECT_EQ(ids(*named.eval), RowNames{"d0"});
  EXPECT_EQ(streamed(*named.eval), RowNames{"d0"});

  base::make_directories(directory_.file("splits"));
  directory_.write("splits/train.jsonl", "{\"id\": \"r\"}\n");
  directory_.write("splits/test.jsonl", "{\"id\": \"s\"}\n");
  const OpenedRows splits = open({{"dataset_name", directory_.file("splits")}, {"eval_strategy", "epoch"}});
  EXPECT_EQ(ids(*splits.train), RowNames{"r"});
  EXPECT_EQ(ids(*splits.eval), RowNames{"s"});
  const auto named_split = [&](const char* key, const std::string& path) {
    return test::error_of([&] {
             open({{"dataset_name", path}, {"eval_strategy", "epoch"}, {key, "validation"}});
           })
        .second;
  };
  EXPECT_EQ(named_split("dataset_test_split", directory_.file("splits")),
            "dataset_test_split: 'validation': " + directory_.file("splits") +
                " has no split 'validation'; it has: test, train");
  EXPECT_EQ(named_split("dataset_train_split", directory_.file("splits")),
            "dataset_train_split: 'validation': " + directory_.file("splits") +
                " has no split 'validation'; it has: test, train");
  EXPECT_EQ(named_split("dataset_test_split", path("a")),
            "dataset_test_split: 'validation': " + path("a") + " has no split 'validation'; it has: train");
  EXPECT_EQ(open({{"dataset_name", path("a")}, {"eval_strategy", "epoch"}}).eval, nullptr);  // the default
  EXPECT_EQ(open({{"dataset_name", directory_.file("splits")}}).eval, nullptr);
  const OpenedRows whole =
      open({{"dataset_name", directory_.file("splits") + "/*"}, {"dataset_streaming", "true"}});
  EXPECT_EQ(streamed(*whole.train), (RowNames{"s", "r"}));
  EXPECT_EQ(whole.eval, nullptr);
  EXPECT_TRUE(log_.lines.empty());
}

TEST_F(Mixtures, PathsAreJoinedAsDatasetsDoes) {
  base::make_directories(directory_.file("d/e"));
  directory_.write("d/e/x.txt", "{\"id\": \"x\"}\n");
  directory_.write("d/e/y.txt", "{\"id\": \"y\"}\n");
  const auto rows = [&](const Json& entry) { return ids(*open({{"datasets", Json::array({entry})}}).train); };
  EXPECT_EQ(rows({{"path", "json"}, {"data_dir", directory_.file("d")}}), (RowNames{"x", "y"}));
  EXPECT_EQ(rows({{"path", "json"}, {"data_dir", directory_.file("d")}, {"data_files", "e/y.txt"}}),
            RowNames{"y"});
  EXPECT_EQ(rows({{"path", "json"}, {"data_files", directory_.file("d/*/[x].txt")}}), RowNames{"x"});
  directory_.write("d/e/z.jsonl", "{\"id\": \"z\"}\n");
  EXPECT_EQ(rows({{"path", directory_.file("d")}, {"data_dir", "e"}, {"data_files", {"z.jsonl"}}}),
            RowNames{"z"});
  const auto error = [&](const Json& entry) { return test::error_of([&] { rows(entry); }).second; };
  EXPECT_EQ(error({{"path", "json"}}), "datasets: json is a loader, which needs data_files or data_dir");
  EXPECT_EQ(error({{"path", "owner/name"}}),
            "datasets: 'owner/name' does not exist, and no model hub is asked for it: give a local path");
}

// As datasets reads a repository of the hub: the README.md says which files are which split.
TEST_F(Mixtures, CardsNameConfigurationsAndSplits) {
  const std::string folder = directory_.file("card");
  for (const char* name : {"a", "b"}) {
    base::make_directories(folder + "/" + name);
    for (const char* file : {"x1", "x2", "held"})
      directory_.write(fmt::format("card/{}/{}.jsonl", name, file),
                       fmt::format("{{\"id\": \"{}{}\"}}\n", name, file));
  }
  const std::string configs =
      "configs:\n"
      "- config_name: first\n"
      "  data_files:\n"
      "  - split: train\n"
      "    path: a/x*.jsonl\n"
      "  - split: held_out\n"
      "    path: [a/held.jsonl, b/held.jsonl]\n"
      "- config_name: second\n"
      "  data_files: b/x1.jsonl\n";
  directory_.write("card/README.md", "---\nlicense: mit\n" + configs + "---\n# Rows\n");
  const auto rows = [&](const std::string& config, const std::string& split) {
    return ids(
        *open({{"dataset_name", folder}, {"dataset_config", config}, {"dataset_train_split", split}}).train);
  };
  const auto error = [&](const std::string& config, const std::string& split) {
    return test::error_of([&] { rows(config, split); }).second;
  };
  EXPECT_EQ(rows("first", "train"), (RowNames{"ax1", "ax2"}));
  EXPECT_EQ(rows("first", "held_out"), (RowNames{"aheld", "bheld"}));
  EXPECT_EQ(rows("first", "train[1:]+held_out[:1]"), (RowNames{"ax2", "aheld"}));
  EXPECT_EQ(rows("second", "train"), RowNames{"bx1"});
  EXPECT_EQ(rows("a", "train"),
            (RowNames{"aheld", "ax1", "ax2"}));  // a folder, which no configuration is called
  EXPECT_EQ(error("first", "test"),
            "dataset_train_split: 'test': " + folder + " has the splits held_out, train (by its README.md)");
  EXPECT_EQ(error("third", "train"),
            "dataset_name: " + folder + "/README.md has no configuration 'third'; there are: first, second");
  EXPECT_EQ(
      test::error_of([&] {
        open({{"dataset_name", folder}});
      }).second,
      "dataset_name: " + folder +
          "/README.md has several configurations; give dataset_config (in a mixture, name): first, second");

  const OpenedRows evaluated = open({{"dataset_name", folder},
                                     {"dataset_config", "first"},
                                     {"dataset_test_split", "held_out"},
                                     {"eval_strategy", "epoch"}});
  EXPECT_EQ(ids(*evaluated.eval), (RowNames{"aheld", "bheld"}));
  EXPECT_EQ(open({{"dataset_name", folder}, {"dataset_config", "first"}, {"eval_strategy", "epoch"}}).eval,
            nullptr);
  EXPECT_EQ(
      test::error_of([&] {
        open({{"dataset_name", folder},
              {"dataset_config", "first"},
              {"dataset_test_split", "validation"},
              {"eval_strategy", "epoch"}});
      }).second,
      "dataset_test_split: 'validation': data_files has no split 'validation'; it has: held_out, train");

  directory_.write("card/README.md",
                   "---\nconfigs:\n- config_name: only\n  data_files: \"**/x1.jsonl\"\n---\n");
  EXPECT_EQ(ids(*open({{"dataset_name", folder}}).train), (RowNames{"ax1", "bx1"}));
  directory_.write("card/README.md", "---\nconfigs:\n- config_name: only\n  data_dir: b\n---\n");
  EXPECT_EQ(ids(*open({{"dataset_name", folder}}).train), (RowNames{"bheld", "bx1", "bx2"}));
  directory_.write("card/README.md", "# Rows without a header\n");
  EXPECT_EQ(ids(*open({{"dataset_name", folder}}).train).size(), 6u);
  directory_.write("card/README.md", "---\nconfigs: [\n---\n");
  EXPECT_EQ(test::error_of([&] { open({{"dataset_name", folder}}); }).first, Status::format);
  EXPECT_TRUE(log_.lines.empty());
}

TEST_F(Mixtures, WhatIsSaidOnTheWay) {
  open({{"dataset_name", path("a")}, {"datasets", Json::parse(R"([{"path": ")" + path("b") + "\"}]")}});
  ASSERT_EQ(log_.lines.size(), 1u);
  EXPECT_EQ(log_.lines[0], "datasets and dataset_name are both given: dataset_name is not read");
}

// A file, a glob and a directory that names no splits are the split train.
TEST_F(Mixtures, ASplitThatDoesNotExistIsAnError) {
  const auto error = [&](const std::string& name, const std::string& split) {
    const auto [status, message] = test::error_of([&] {
      open({{"dataset_name", name}, {"dataset_train_split", split}});
    });
    EXPECT_EQ(status, Status::invalid_config);
    return message;
  };
  base::make_directories(directory_.file("plain"));
  directory_.write("plain/rows.jsonl", "{\"id\": \"r\"}\n");
  for (const std::string& name : {path("a"), directory_.file("[ab].jsonl"), directory_.file("plain")}) {
    for (const char* split : {"trian", "validation", "test", "train_sft"}) {
      EXPECT_EQ(
          error(name, split),
          fmt::format("dataset_train_split: '{0}': {1} has no split '{0}'; it has: train", split, name));
    }
    EXPECT_NO_THROW(open({{"dataset_name", name}, {"dataset_train_split", "train"}}));
  }
  EXPECT_EQ(error(path("a"), "trian[:5]").substr(0, 32), "dataset_train_split: 'trian[:5]'");
  EXPECT_EQ(test::error_of([&] {
              open({{"dataset_name", "none.jsonl"}, {"dataset_train_split", "trian"}});
            }).first,
            Status::not_found);
  const auto entry_error = [&](const Json& entry) {
    return test::error_of([&] { open({{"datasets", Json::array({entry})}}); }).second;
  };
  EXPECT_EQ(entry_error({{"path", path("a")}, {"split", "validation"}}),
            "datasets: 'validation': " + path("a") + " has no split 'validation'; it has: train");
  EXPECT_EQ(test::error_of([&] {
              open({{"dataset_mixer", Json{{path("a"), 1}}}, {"dataset_splits", Json{"train_sft"}}});
            }).second,
            "dataset_splits: 'train_sft': " + path("a") + " has no split 'train_sft'; it has: train");
}

// A pipe is read once: its parts, and each epoch, are of the rows that were kept.
TEST_F(Mixtures, APipeIsReadOnce) {
  const std::string pipe = directory_.file("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { directory_.write("pipe", base::read_file(path("a"))); });
  const OpenedRows opened = open({{"dataset_name", pipe},
                                  {"dataset_train_split", "train[:5]"},
                                  {"dataset_test_split", "train[5:]"},
                                  {"eval_strategy", "epoch"}});
  const RowNames all = ids(*open({{"dataset_name", path("a")}}).train);
  EXPECT_EQ(ids(*opened.train), RowNames(all.begin(), all.begin() + 5));
  writer.join();
  EXPECT_EQ(ids(*opened.eval), RowNames(all.begin() + 5, all.end()));
  EXPECT_EQ(ids(*opened.train).size(), 5u);
}

// As datasets 5.2.0 reads a folder of train.jsonl (37 rows) and test.jsonl (10).
TEST_F(Mixtures, PartsOfSplits) {
  const std::string folder = directory_.file("s");
  base::make_directories(folder);
  for (const auto& [split, size] : {std::pair{"train", 37}, std::pair{"test", 10}}) {
    std::string bytes;
    for (int i = 0; i < size; ++i) bytes += fmt::format("{{\"id\": \"{}{}\"}}\n", split[1], i);
    directory_.write(fmt::format("s/{}.jsonl", split), bytes);
  }
  const auto rows = [&](const std::string& split) {
    const Json entry = {{"path", folder}, {"split", split}};
    return ids(*open({{"datasets", Json::array({entry})}}).train);
  };
  EXPECT_EQ(rows("train[10%:20%]"), (RowNames{"r4", "r5", "r6"}));
  EXPECT_EQ(rows("train[-2:]+test[:2]"), (RowNames{"r35", "r36", "e0", "e1"}));
  EXPECT_EQ(rows("train[10%:5]+test[9:]"), RowNames{"e9"});
  EXPECT_EQ(rows("train+test").size(), 47u);
  const OpenedRows sum = open({{"dataset_name", folder}, {"dataset_train_split", "train+test"}});
  EXPECT_EQ(streamed(*sum.train), ids(*sum.train));
  EXPECT_EQ(sum.train->shards().size(), 2u);
  const Json sliced = Json::array({{{"path", folder}}, {{"path", folder}, {"split", "test[:2]"}}});
  EXPECT_EQ(open({{"datasets", sliced}}).train->source(), nullptr);
  const auto error = [&](const std::string& split) { return test::error_of([&] { rows(split); }).second; };
  EXPECT_EQ(error("train[5:5]+test[10:]"), "datasets: the split keeps no row: 'train' has 37, 'test' has 10");
  EXPECT_EQ(error("train+nosuch[:5]"),
            "datasets: 'train+nosuch[:5]': " + folder + " has no split 'nosuch'; it has: test, train");

  // A mixture takes its shares of what the splits keep.
  const Json shares = Json::array({{{"path", folder}, {"split", "train[30:]"}, {"fraction", 0.5}},
                                   {{"path", folder}, {"split", "test[:2]"}, {"fraction", 0.5}}});
  EXPECT_EQ(ids(*open({{"datasets", shares}}).train), (RowNames{"r30", "r31", "e0", "e1"}));
  const Json files = {{"train", folder + "/train.jsonl"}, {"test", folder + "/test.jsonl"}};
  const Json named = {{"path", "json"}, {"data_files", files}, {"split", "test[8:]+train[:1]"}};
  EXPECT_EQ(ids(*open({{"datasets", Json::array({named})}}).train), (RowNames{"e8", "e9", "r0"}));
}

// One file is the split train, and may be trained and evaluated on in parts.
TEST_F(Mixtures, PartsOfOneFile) {
  const auto parts = [&](const std::string& train, const std::string& test) {
    return open({{"dataset_name", path("a")},
                 {"dataset_train_split", train},
                 {"dataset_test_split", test},
                 {"eval_strategy", "epoch"}});
  };
  const RowNames all = ids(*open({{"dataset_name", path("a")}}).train);
  const OpenedRows opened = parts("train[:80%]", "train[80%:]");
  const RowNames train = ids(*opened.train), test = ids(*opened.eval);
  const auto cut = all.begin() + static_cast<std::ptrdiff_t>(train.size());
  EXPECT_EQ(train, RowNames(all.begin(), cut));
  EXPECT_EQ(test, RowNames(cut, all.end()));
  EXPECT_GE(test.size(), 1u);
  EXPECT_EQ(parts("train", "test").eval, nullptr);
  EXPECT_EQ(test::error_of([&] { parts("train", "dev[:5]"); }).second,
            "dataset_test_split: 'dev[:5]': " + path("a") + " has no split 'dev'; it has: train");
  EXPECT_EQ(test::error_of([&] { parts("train+test", "test"); }).second,
            "dataset_train_split: 'train+test': " + path("a") + " has no split 'test'; it has: train");
}

// As alignment-handbook reads its dataset_mixer: shares cut the training rows alone.
TEST_F(Mixtures, SplitsOfADatasetMixer) {
  base::make_directories(directory_.file("h"));
  for (const std::string split : {"train_sft", "test_sft", "train_gen", "test_gen"}) {
    directory_.write("h/" + split + ".jsonl",
                     fmt::format("{{\"id\": \"{0}1\"}}\n{{\"id\": \"{0}2\"}}\n", split));
  }
  const Json mixer = {{directory_.file("h"), 0.5}};
  const auto splits = [&](const Json& names) {
    return open({{"dataset_mixer", mixer}, {"dataset_splits", names}, {"eval_strategy", "epoch"}});
  };
  const auto sorted = [](RowNames ids) {
    std::sort(ids.begin(), ids.end());
    return ids;
  };
  EXPECT_EQ(ids(*splits({"train_sft", "test_sft"}).train), RowNames{"train_sft1"});
  EXPECT_EQ(sorted(ids(*splits({"train_sft", "test_sft"}).eval)), (RowNames{"test_sft1", "test_sft2"}));
  EXPECT_EQ(sorted(ids(*splits({"train_gen", "train_sft"}).train)), (RowNames{"train_gen1", "train_sft1"}));
  EXPECT_EQ(splits({"train_gen"}).eval, nullptr);
  EXPECT_EQ(open({{"dataset_mixer", mixer}, {"dataset_splits", {"train_sft", "test_nope"}}}).eval, nullptr);
  const auto error = [&](const Json& names) { return test::error_of([&] { splits(names); }).second; };
  EXPECT_EQ(error({"train_nope"}), "dataset_splits: 'train_nope': " + directory_.file("h") +
                                       " has no split 'train_nope'; it has: test, train");
  EXPECT_EQ(error({"train_sft", "test_nope"}),
            "dataset_splits: 'test_nope': " + directory_.file("h") +
                " has no files of that split; it has: test, train. List splits to train on alone, or give "
                "eval_dataset_name or test_split_size");
  EXPECT_EQ(test::error_of([&] {
              open({{"dataset_mixer", Json{{path("a"), 1}}},
                    {"dataset_splits", {"train", "test_sft"}},
                    {"eval_strategy", "epoch"}});
            }).second.substr(0, 27),
            "dataset_splits: 'test_sft':");
}

TEST_F(Mixtures, AConfigurationIsAFolder) {
  for (const std::string name : {"en", "de"}) {
    base::make_directories(directory_.file("c/" + name));
    directory_.write("c/" + name + "/train.jsonl", "{\"id\": \"" + name + "\"}\n");
    directory_.write("c/" + name + "/test.jsonl", "{\"id\": \"" + name + " test\"}\n");
  }
  const std::string c = directory_.file("c");
  const OpenedRows en = open({{"dataset_name", c}, {"dataset_config", "en"}, {"eval_strategy", "epoch"}});
  EXPECT_EQ(ids(*en.train), RowNames{"en"});
  EXPECT_EQ(ids(*en.eval), RowNames{"en test"});
  const Json named = Json::array({Json{{"path", c}, {"name", "de"}}});
  EXPECT_EQ(ids(*open({{"datasets", named}}).train), RowNames{"de"});
  EXPECT_EQ(ids(*open({{"dataset_mixer", Json{{c, 1}}}, {"dataset_configs", Json{"de"}}}).train),
            RowNames{"de"});
  EXPECT_EQ(ids(*open({{"dataset_name", c}, {"dataset_config", "default"}}).train), (RowNames{"de", "en"}));
  EXPECT_TRUE(log_.lines.empty());
  open({{"dataset_name", c}, {"dataset_config", "fr"}});
  EXPECT_EQ(log_.lines, RowNames{"dataset_name: the configuration 'fr' selects nothing of " + c +
                                 ", which does not have a folder of that name"});
}

TEST_F(Mixtures, DatasetsThatGiveNoRowAreNamed) {
  const std::string a = path("a"), none = directory_.write("none.jsonl", "");
  const auto mixture = [&](double weight, const std::string& other) {
    const Json entries =
        Json::array({Json{{"id", a}, {"weight", weight}}, Json{{"id", other}, {"weight", 1}}});
    return open({{"dataset_mixture", Json{{"datasets", entries}}}});
  };
  EXPECT_EQ(ids(*mixture(0.01, path("d")).train), RowNames{"d0"});
  EXPECT_EQ(log_.lines, RowNames{"dataset_mixture: " + a + ": weight 0.01 of 7 rows keeps none"});
  ids(*mixture(1, none).train);
  EXPECT_EQ(log_.lines.at(1), "dataset_mixture: " + none + " holds no rows");
  const auto error = test::error_of([&] { ids(*mixture(0.01, none).train); });
  EXPECT_EQ(error.first, Status::invalid_config);
  EXPECT_EQ(error.second,
            "dataset_mixture: " + a + ": weight 0.01 of 7 rows keeps none; " + none + " holds no rows");
}

TEST_F(Mixtures, ATableIsMadeAnewWhenAFileChanges) {
  const OpenedRows opened = open({{"dataset_name", path("d")}});
  const auto before = opened.train->table({});
  EXPECT_EQ(opened.train->table({}), before);
  directory_.write("d.jsonl", "{\"id\": \"e0\"}\n{\"id\": \"e1\"}\n");
  EXPECT_EQ(ids(*opened.train), (RowNames{"e0", "e1"}));
  EXPECT_NE(opened.train->table({}), before);
}

}  // namespace
}  // namespace trl::data
