// Which rows a configuration names: dataset_name, mixtures in TRL's and in alignment-handbook's form, splits.
#include "config/dataset/datasets.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trl::config {
namespace {

Config yaml(const std::string& text) {
  Config config;
  config.load_text(text, "x.yaml");
  return config;
}

DatasetArguments rows(const std::string& text) { return dataset_arguments(yaml(text)); }

std::string refused(const std::string& text) {
  try {
    rows(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_config) << error.message();
    EXPECT_NE(error.key(), "") << error.message();
    return error.message();
  }
  return "not refused";
}

TEST(Datasets, OneNameAndItsSplits) {
  const DatasetArguments a = rows("dataset_name: x.jsonl\nseed: 7\neval_strategy: steps\n");
  EXPECT_EQ(a.key, "dataset_name");
  ASSERT_EQ(a.entries.size(), 1u);
  EXPECT_EQ(a.entries[0].path, "x.jsonl");
  EXPECT_EQ(a.entries[0].split, "train");
  EXPECT_FALSE(a.test_split_size || a.eval || a.streaming || a.needs_all_rows());
  ASSERT_TRUE(a.eval_split.has_value());
  EXPECT_EQ(a.eval_split->split, "test");
  EXPECT_FALSE(rows("dataset_name: x.jsonl\n").eval_split.has_value());

  const DatasetArguments b = rows(
      "dataset_name: d\neval_dataset_name: e\ndataset_train_split: train_sft\n"
      "dataset_test_split: test_sft\ndataset_streaming: true\n");
  EXPECT_EQ(b.entries[0].split, "train_sft");
  EXPECT_EQ(b.eval->path, "e");
  EXPECT_FALSE(b.eval_split.has_value());
  EXPECT_TRUE(b.streaming);

  const DatasetArguments c = rows("dataset_name: d\ntest_split_size: 0.25\nseed: 7\n");
  EXPECT_EQ(c.test_split_size, 0.25);
  EXPECT_EQ(c.split_seed, 7u);
  EXPECT_FALSE(c.eval_split.has_value());
  EXPECT_EQ(rows("dataset_name: d\ntest_split_size: 100\n").test_split_size, 100);
  EXPECT_EQ(rows("dataset_name: d\ntest_split_size: 100\n").split_seed, 42u);
}

TEST(Datasets, AMixtureOfTrl) {
  const DatasetArguments a = rows(
      "datasets:\n- path: a.jsonl\n  split: train\n  columns: [prompt, completion]\n- path: json\n"
      "  data_dir: d\n  data_files: {train: [b.json, c*.json], test: t.json}\nstreaming: true\n"
      "dataset_streaming: false\n");
  EXPECT_EQ(a.key, "datasets");
  EXPECT_EQ(a.mixing, Mixing::fractions);
  EXPECT_TRUE(a.streaming);
  EXPECT_FALSE(a.needs_all_rows());
  ASSERT_EQ(a.entries.size(), 2u);
  EXPECT_EQ(a.entries[0].columns, (std::vector<std::string>{"prompt", "completion"}));
  EXPECT_EQ(a.entries[1].path, "json");
  EXPECT_EQ(a.entries[1].data_dir, "d");
  EXPECT_EQ(a.entries[1].data_files.at("train"), (std::vector<std::string>{"b.json", "c*.json"}));

  const DatasetArguments b =
      rows("datasets: [{path: a, fraction: 0.5}, {path: b, fraction: 2}]\ntest_split_size: 10\n");
  EXPECT_EQ(b.entries[1].share, 2);
  EXPECT_EQ(b.split_seed, 42u);
  EXPECT_TRUE(b.needs_all_rows());

  const Config named =
      yaml("datasets:\n- {path: json, name: en, data_files: x.jsonl}\n- {path: y, name: default}\n");
  EXPECT_EQ(named.warnings(),
            std::vector<std::string>{"datasets: name: '\"en\"' selects nothing: files are named directly"});
  Config set;
  set.set("datasets", "[{path: x.jsonl, columns: [text]}]");
  EXPECT_EQ(set.get("datasets"), "[{\"path\":\"x.jsonl\",\"columns\":[\"text\"]}]");
  set.set("datasets", set.get("datasets"));
  EXPECT_EQ(dataset_arguments(set).entries[0].path, "x.jsonl");
  EXPECT_EQ(set.to_json(), "{\"datasets\":[{\"path\":\"x.jsonl\",\"columns\":[\"text\"]}]}");
}

TEST(Datasets, TheMixtureWinsOverTheName) {
  const DatasetArguments a = rows("dataset_name: a\ndatasets: [{path: b}]\n");
  EXPECT_EQ(a.entries[0].path, "b");
  EXPECT_EQ(a.warnings,
            std::vector<std::string>{"datasets and dataset_name are both given: dataset_name is not read"});
  EXPECT_TRUE(rows("dataset_name: a\ndatasets: []\n").warnings.empty());
}

TEST(Datasets, MixturesOfAlignmentHandbook) {
  const DatasetArguments a = rows(
      "dataset_mixture:\n  datasets:\n  - {id: a.jsonl, config: default, columns: [messages], weight: 0.5}\n"
      "  - {id: b.jsonl}\n  seed: 3\n  test_split_size: 0.1\nseed: 9\n");
  EXPECT_EQ(a.key, "dataset_mixture");
  EXPECT_EQ(a.mixing, Mixing::weights);
  EXPECT_EQ(a.seed, 3u);
  EXPECT_EQ(a.split_seed, 3u);
  EXPECT_EQ(a.test_split_size, 0.1);
  EXPECT_EQ(a.entries[0].share, 0.5);
  EXPECT_FALSE(a.entries[1].share.has_value());
  EXPECT_EQ(rows("dataset_mixture: {datasets: [{id: a}]}\n").seed, 0u);

  const DatasetArguments b = rows("dataset_mixer:\n  a.jsonl: 1.0\n  b.jsonl: 0.25\n");
  EXPECT_EQ(b.mixing, Mixing::shares);
  EXPECT_EQ(b.seed, 42u);
  ASSERT_EQ(b.entries.size(), 2u);
  EXPECT_EQ(b.entries[1].path, "b.jsonl");
  EXPECT_EQ(b.entries[1].share, 0.25);

  const DatasetArguments c = rows(
      "dataset_mixer: {a: 0.5, b: 1}\ndataset_configs: [null, en]\ndataset_splits: [train_sft, test_sft]\n"
      "eval_strategy: epoch\n");
  ASSERT_EQ(c.entries.size(), 2u);
  EXPECT_EQ(c.entries[0].split, "train_sft");
  EXPECT_EQ(c.entries[0].config, "");
  EXPECT_EQ(c.entries[1].config, "en");
  ASSERT_EQ(c.eval_entries.size(), 2u);
  EXPECT_EQ(c.eval_entries[0].split, "test_sft");
  EXPECT_FALSE(c.eval_entries[0].share.has_value());
}

TEST(Datasets, OneConfigurationOfADatasetName) {
  EXPECT_EQ(rows("dataset_name: a\ndataset_configs: [en]\n").entries[0].config, "en");
  EXPECT_EQ(rows("dataset_name: a\ndataset_configs:\n- default\n").entries[0].config, "default");
  EXPECT_EQ(refused("dataset_name: a\ndataset_configs: [x, y]\n"),
            "dataset_configs: it names a configuration for each entry of dataset_mixer; there are 2 for "
            "dataset_name");
}

TEST(Datasets, WhatIsRefused) {
  EXPECT_EQ(refused("seed: 1\n"), "no rows are named: give dataset_name, datasets or dataset_mixture");
  EXPECT_EQ(
      refused("datasets:\n- {path: a, splt: b}\n"),
      "x.yaml:1: datasets: unknown entry 'splt'; give path, name, data_dir, data_files, split, columns, "
      "fraction");
  EXPECT_EQ(refused("datasets:\n- {name: a}\n"), "x.yaml:1: datasets: path is missing");
  EXPECT_EQ(refused("datasets: [a]\n"), "x.yaml:1: datasets: an entry is a mapping with path, not '\"a\"'");
  EXPECT_EQ(refused("datasets: [{path: [1]}]\n"),
            "x.yaml:1: datasets: path: '[1]' is not accepted; give text");
  EXPECT_EQ(refused("datasets: [{path: a, columns: text}]\n"),
            "x.yaml:1: datasets: columns: '\"text\"' is not accepted; give a list of names");
  EXPECT_EQ(
      refused("datasets: [{path: a, split: 'train[9]'}]\n"),
      "x.yaml:1: datasets: the split 'train[9]' is not accepted: a slice has the form [from:to]; give a "
      "name, with [from:to] in rows or whole percent after it to select a part of the rows "
      "(train[:100], train[10%:20%], train[-5:]), or several of these joined by +");
  const std::string percent = "dataset_name: a\ndataset_train_split: 'train[:101%]'\n";
  EXPECT_TRUE(refused(percent).starts_with(
      "dataset_train_split: the split 'train[:101%]' is not accepted: a percentage is from -100 to 100;"));
  EXPECT_TRUE(refused("dataset_name: a\ndataset_test_split: 'test[:9'\n")
                  .starts_with("dataset_test_split: the split 'test[:9' is not accepted: a bracket is not"));
  EXPECT_TRUE(refused("dataset_mixer: {a: 1}\ndataset_splits: ['train[x:]']\n")
                  .starts_with("dataset_splits: the split 'train[x:]' is not accepted: 'x' is not a bound;"));
  const std::string streamed = "dataset_name: a\ndataset_streaming: true\ndataset_train_split: ";
  EXPECT_EQ(
      refused(streamed + "'train+train[:9]'\n"),
      "dataset_train_split: the split 'train+train[:9]' is refused with streaming: give whole splits, or "
      "train without streaming");
  EXPECT_EQ(refused("dataset_mixer: {a: 1}\ndataset_splits: [nope]\n"),
            "dataset_splits: 'nope' is not accepted; give names with train, or with test, eval or valid for "
            "evaluation");
  EXPECT_EQ(refused("dataset_mixer: {a: 1}\ndataset_splits: [test]\n"),
            "dataset_splits: test names no rows to train on; give a split whose name has train in it");
  EXPECT_EQ(
      refused("dataset_name: a\ndataset_splits: [train_sft]\n"),
      "dataset_splits: it names the splits of dataset_mixer; with dataset_name give dataset_train_split "
      "and dataset_test_split");
  EXPECT_EQ(refused("dataset_mixer: {a: 1}\ndataset_configs: [x, y]\n"),
            "dataset_configs: it names a configuration for each entry of dataset_mixer; there are 2 for 1 "
            "entries");
  EXPECT_EQ(
      refused("datasets: [{path: json, data_files: {test: a}}]\n"),
      "x.yaml:1: datasets: data_files: '{\"test\":\"a\"}' is not accepted; give files of the split 'train'");
  EXPECT_EQ(
      refused("datasets: [{path: json, data_files: a, split: test}]\n"),
      "x.yaml:1: datasets: split: 'test' is not accepted; data_files without splits are those of 'train'");
  EXPECT_EQ(refused("datasets: [{path: a, fraction: -1}]\n"),
            "x.yaml:1: datasets: fraction: '-1' is not accepted; give a number, 0 or more");
  EXPECT_EQ(refused("datasets: [{path: a, fraction: 1}, {path: b}]\n"),
            "x.yaml:1: datasets: fraction must be given for all entries or for none");
  EXPECT_EQ(refused("datasets: [{path: a, fraction: 0}]\n"),
            "x.yaml:1: datasets: the fractions add up to 0: they give no rows");
  EXPECT_EQ(refused("dataset_mixture: {datasets: [{id: a, weight: 1.5}]}\n"),
            "x.yaml:1: dataset_mixture: weight: '1.5' is not accepted; give a number from 0 to 1");
  EXPECT_EQ(refused("dataset_mixture: {datasets: [{path: a}]}\n").substr(0, 46),
            "x.yaml:1: dataset_mixture: unknown entry 'path");
  EXPECT_EQ(refused("dataset_mixture: {seed: 1}\n"),
            "x.yaml:1: dataset_mixture: it is a mapping with datasets");
  EXPECT_EQ(refused("dataset_mixer: {}\n"),
            "x.yaml:1: dataset_mixer: it is a mapping from paths to their shares, not '{}'");
  EXPECT_EQ(refused("dataset_mixer: {a: 2}\n"),
            "x.yaml:1: dataset_mixer: a: '2' is not accepted; give a number from 0 to 1");
  EXPECT_EQ(refused("datasets: [{path: a}]\ndataset_mixer: {a: 1}\n"),
            "datasets and dataset_mixer both name rows: give one of them");
  EXPECT_EQ(refused("dataset_name: a\neval_dataset_name: b\ntest_split_size: 5\n"),
            "eval_dataset_name and test_split_size both name evaluation rows: give one of them");
  EXPECT_EQ(refused("dataset_name: a\ntest_split_size: 1.5\n"),
            "test_split_size: '1.5' is not accepted; give a number of rows, or a share below 1");
  EXPECT_EQ(
      refused("dataset_name: a\ntest_split_size: 0.1\ndataset_streaming: true\n"),
      "dataset_name: a test split is refused with streaming: the order of the rows is known when all of them "
      "are");
  EXPECT_EQ(refused("datasets: [{path: a, fraction: 1}]\nstreaming: true\n").substr(0, 50),
            "datasets: a fraction is refused with streaming: th");
  EXPECT_EQ(refused("dataset_mixer: {a: 1}\nstreaming: true\n").substr(0, 50),
            "dataset_mixer: a mixture that is shuffled is refus");
}

}  // namespace
}  // namespace trl::config
