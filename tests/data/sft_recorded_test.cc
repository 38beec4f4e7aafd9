// Preparation against what SFTTrainer made of the recorded datasets: ids, labels, dropped rows, padded
// batches.
#include <gtest/gtest.h>

#include <iostream>
#include <set>

#include "base/error.h"
#include "data/batch/batch_stream.h"
#include "data/flat_batch.h"
#include "data/tokenizer/open_tokenizer.h"
#include "padded_batch.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/trajectories.h"

namespace trl::data {
namespace {

config::DataArguments arguments_of(const base::Json& args) {
  config::DataArguments out;
  for (const auto& [name, value] : args.items()) {
    if (name == "max_length") {
      out.max_length = value.is_null() ? std::nullopt : std::optional<int64_t>(value.get<int64_t>());
    } else if (name == "truncation_mode") {
      out.truncation_keep_end = value == "keep_end";
    } else if (name == "completion_only_loss") {
      out.completion_only_loss = value.get<bool>();
    } else if (name == "assistant_only_loss") {
      out.assistant_only_loss = value;
    } else if (name == "eos_token") {
      out.eos_token = value;
    } else if (name == "dataset_text_field") {
      out.dataset_text_field = value;
    } else if (name == "train_sampling_strategy") {
      out.sampling = value == "sequential" ? Sampling::sequential : Sampling::random;
    } else if (name == "dataloader_drop_last") {
      out.dataloader_drop_last = value;
    } else if (name == "padding_free") {
      out.padding_free = value;
    } else if (name == "pad_to_multiple_of") {
      out.pad_to_multiple_of = value.get<int64_t>();
    }
  }
  if (args.value("packing", false)) {
    const std::string strategy = args.value("packing_strategy", "bfd");
    out.packing = strategy == "wrapped" ? Packing::wrapped
                  : strategy == "bfd"   ? Packing::bfd
                                        : Packing::bfd_split;
    out.padding_free = out.padding_free || out.packing != Packing::wrapped;
  }
  return out;
}

// A tokenizer with what it was prepared for, the pool and the counters of one run.
struct Workshop {
  Workshop(const std::string& model, const base::Json& args, int threads)
      : arguments(arguments_of(args)),
        tokenizer(training_tokenizer(*open_tokenizer(test::golden_path(model)), arguments)),
        pool(threads) {
    context.tokenizer = tokenizer.get();
    context.arguments = &arguments;
    context.log = &log;
    context.pool = &pool;
    context.memory = &memory;
    context.packing = arguments.packing;
  }
  config::DataArguments arguments;
  std::unique_ptr<text::Tokenizer> tokenizer;
  base::NullLog log;
  base::ThreadPool pool;
  base::MemoryCounter memory;
  PrepareContext context;
};

void expect_padded(const PaddedBatch& got, const base::Json& want) {
  EXPECT_EQ(got.rows, static_cast<int64_t>(want["input_ids"].size()));
  EXPECT_EQ(got.input_ids, flat(want["input_ids"]));
  EXPECT_EQ(got.labels, flat(want["labels"]));
  EXPECT_EQ(got.attention_mask, flat(want["attention_mask"]));
}

void expect_batch(const std::vector<Example>& rows, const BatchLayout& layout, int32_t pad_id,
                  const base::Json& want) {
  Batch batch;
  collate(rows, layout, batch);
  if (layout.padding_free) return expect_flat(batch, pad_id, want);
  expect_padded(pad(rows, pad_id, layout.pad_to_multiple_of), want);
}

// columns: as recorded, without those that are not there.
void expect_rows(Examples& examples, const base::Json& columns) {
  ASSERT_EQ(examples.size(), static_cast<int64_t>(columns["input_ids"].size()));
  for (size_t at = 0; at < columns["input_ids"].size(); ++at) {
    const Example row = examples.read(static_cast<int64_t>(at));
    ASSERT_EQ(row.input_ids, columns["input_ids"][at].get<std::vector<int32_t>>()) << "row " << at;
    ASSERT_EQ(row.labels, columns["labels"][at].get<std::vector<int32_t>>()) << "row " << at;
    if (columns.contains("id")) {
      EXPECT_EQ(row.source_rows, std::vector<int64_t>{columns["id"][at].get<int64_t>()});
    }
    if (columns.contains("seq_lengths")) {
      EXPECT_EQ(row.seq_lengths, columns["seq_lengths"][at].get<std::vector<int32_t>>());
    }
  }
}

void expect_prepared(const base::Json& item, int threads) {
  Workshop shop(item["model"], item["args"], threads);
  const auto examples = prepare_sft(open_file_table(test::golden_path(item["dataset"]), {}), shop.context);
  expect_rows(*examples, item["columns"]);
  EXPECT_EQ(examples->size(), item["num_rows_out"].get<int64_t>());
  const int32_t pad_id = *shop.tokenizer->special_id(shop.tokenizer->special().pad);
  int64_t at = 0;
  for (const base::Json& want : item["collated"]) {
    std::vector<Example> rows;
    for (int64_t i = 0; i < item["collated_batch_size"].get<int64_t>() && at < examples->size(); ++i)
      rows.push_back(examples->read(at++));
    expect_batch(rows, layout_of(shop.arguments), pad_id, want);
  }
}

// What only Qwen3's own chat template gives; tests/golden has another one.
const std::set<std::string> kQwen3Template = {"sft_conv_qwen3_assistant_patched", "sft_tools_qwen3"};

TEST(Recorded, PreparedDatasets) {
  TRL_NEED_GOLDEN("data/prepared/index.json");
  int run = 0, absent = 0;
  const base::Json index = test::golden_json("data/prepared/index.json");
  for (const base::Json& entry : index["cases"]) {
    const std::string id = entry["id"], file = "data/prepared/" + id + ".json";
    if (entry["trainer"] != "sft") continue;
    if (kQwen3Template.contains(id) && !test::has_golden(file)) {
      ++absent;
      continue;
    }
    SCOPED_TRACE(id);
    expect_prepared(test::golden_json(file), 1 + run % 3);
    ++run;
  }
  EXPECT_EQ(run + absent, 36);
}

TEST(Recorded, TokenizedDatasets) {
  TRL_NEED_GOLDEN("data/prepared/sft_pretokenized.json");
  int run = 0;
  const base::Json file = test::golden_json("data/prepared/sft_pretokenized.json");
  for (const base::Json& item : file["cases"]) {
    SCOPED_TRACE(item["args"].dump());
    Workshop shop("models/qwen2", item["args"], 2);
    std::string bytes;
    for (size_t row = 0; row < item["columns_in"]["input_ids"].size(); ++row) {
      base::Json line;
      for (const auto& [name, values] : item["columns_in"].items()) line[name] = values[row];
      bytes += line.dump() + "\n";
    }
    const auto source = open_memory_source("jsonl", bytes, "rows.jsonl");
    expect_rows(*prepare_sft(*source, shop.context), item["columns_out"]);
    ++run;
  }
  EXPECT_EQ(run, 9);
}

std::string rows_between(const std::string& path, const std::string& range) {
  const size_t dots = range.find("..");
  const int64_t first = std::stoll(range), last = std::stoll(range.substr(dots + 2));
  const auto source = open_file_source(path);
  std::string bytes;
  int64_t index = 0;
  for (Row row; source->next(row); ++index) {
    if (index >= first && index <= last) bytes += row.value.dump() + "\n";
  }
  return bytes;
}

TEST(Recorded, FirstInputsOfTrajectories) {
  TRL_NEED_GOLDEN("trajectories/sft_plain/case.json");
  int batches = 0;
  for (const std::string name : test::kSftTrajectories) {
    SCOPED_TRACE(name);
    const base::Json item = test::golden_json("trajectories/" + name + "/case.json");
    const base::Json& args = item["args"];
    Workshop shop(item["model"], args, 2);
    const auto source = open_memory_source(
        "jsonl", rows_between(test::golden_path(item["dataset"]), item["rows"]), "rows.jsonl");
    config::TrainingArguments training;
    training.per_device_train_batch_size = args["per_device_train_batch_size"];
    training.seed = args["seed"];
    if (args.contains("data_seed")) training.data_seed = args["data_seed"].get<int64_t>();
    OrderOptions order = train_order(training, shop.arguments);
    const auto examples = prepare_sft(*source, shop.context);
    order.rows = examples->size();
    const EpochOrder first(order, 0);
    const int32_t pad_id = *shop.tokenizer->special_id(shop.tokenizer->special().pad);
    for (size_t i = 0; i < item["first_inputs"].size(); ++i) {
      std::vector<Example> rows;
      for (const int64_t row : first.batch(static_cast<int64_t>(i))) rows.push_back(examples->read(row));
      expect_batch(rows, layout_of(shop.arguments), pad_id, item["first_inputs"][i]);
      ++batches;
    }
    if (!item.contains("row_order")) continue;
    size_t at = 0;
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      const EpochOrder rows(order, epoch);
      for (int64_t i = 0; i < rows.size(); ++i)
        EXPECT_EQ(rows.batch(i), item["row_order"][at++].get<std::vector<int64_t>>());
    }
    EXPECT_EQ(at, item["row_order"].size());
  }
  EXPECT_EQ(batches, 66);
}

// Every configuration of SFT that TRL refuses is refused here, before or with the rows, or with the model.
TEST(Recorded, RefusesWhatTrlRefuses) {
  TRL_NEED_GOLDEN("data/prepared/config_errors.json");
  const base::Json file = test::golden_json("data/prepared/config_errors.json");
  int refused = 0, with_model = 0, left = 0;
  for (const base::Json& item : file["cases"]) {
    if (item["trainer"] != "sft") {
      ++left;
      continue;
    }
    if (item["args"].contains("router_aux_loss_coef")) {  // of a dense model: RouterLoss in tests/train
      ++with_model;
      continue;
    }
    SCOPED_TRACE(item.dump());
    ASSERT_FALSE(item["ok"].get<bool>());
    const auto [status, message] = test::error_of([&] {
      config::Config config;
      for (const auto& [key, value] : item["args"].items())
        config.set(key, value.is_string() ? value.get<std::string>() : value.dump());
      const config::DataArguments arguments = config::data_arguments(config);
      const std::string model = item["model"], dataset = item["dataset"];
      Workshop shop("models/" + model, base::Json::object(), 2);
      const auto tokenizer = training_tokenizer(*shop.tokenizer, arguments);
      shop.context.tokenizer = tokenizer.get();
      shop.context.arguments = &arguments;
      prepare_sft(open_file_table(test::golden_path("data/datasets/" + dataset + ".jsonl"), {}),
                  shop.context);
    });
    EXPECT_NE(status, Status::ok);
    EXPECT_FALSE(message.empty());
    ++refused;
  }
  EXPECT_EQ(refused, 10);
  EXPECT_EQ(with_model, 1);
  EXPECT_EQ(left, 20);
  std::cout << left << " configurations of other trainers are left for them\n";
}

// As `trainer.ok` says; a file whose trainer is not SFT's is only read there. One case differs on purpose:
// TRL makes an empty dataset of text where messages are expected and goes on, which is an error here.
TEST(Recorded, BadFilesFailOrWorkAsThere) {
  TRL_NEED_GOLDEN("data/bad/index.json");
  int run = 0;
  const base::Json index = test::golden_json("data/bad/index.json");
  for (const base::Json& item : index["files"]) {
    const std::string file = item["file"];
    const base::Json& there = item["datasets_5_2"];
    bool want = there["loads"] == true && there["trainer"]["ok"] == true;
    if (there.contains("trainer") && there["trainer"]["kind"] != "sft" && there["trainer"]["kind"] != "dpo")
      continue;
    if (file == "data/bad/wrong_type_messages.jsonl") want = false;
    Workshop shop("models/qwen2", base::Json::object(), 2);
    std::string message;
    try {
      const auto source = open_file_source(test::golden_path(file));
      prepare_sft(*source, shop.context);
    } catch (const Error& error) {
      message = error.message();
      EXPECT_EQ(error.status(), Status::format) << message;
      EXPECT_NE(message.find(base::file_name(file)), std::string::npos) << message;
    }
    EXPECT_EQ(message.empty(), want) << file << ": " << message;
    EXPECT_EQ(shop.memory.now(), 0) << file;
    ++run;
  }
  EXPECT_EQ(run, 19);
}

}  // namespace
}  // namespace trl::data
