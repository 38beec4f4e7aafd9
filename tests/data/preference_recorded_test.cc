// Preparation and batches against what TRL's DPO, Reward, KTO and GRPO trainers made of the recorded
// datasets.
#include <gtest/gtest.h>

#include <map>
#include <numeric>

#include "data/batch/collate.h"
#include "data/batch/order.h"
#include "data/batch/preference_batches.h"
#include "data/tokenizer/open_tokenizer.h"
#include "padded_batch.h"
#include "preference_shop.h"
#include "support/golden.h"

namespace trl::data {
namespace {

using Ids = std::vector<int32_t>;

struct RecordedShop : test::PreferenceShop {
  RecordedShop(const std::string& model, const base::Json& args, int threads)
      : PreferenceShop(training_tokenizer(*open_tokenizer(test::golden_path(model)), {}), threads) {
    if (const auto length = args.find("max_length"); length != args.end()) {
      arguments.max_length.reset();
      if (!length->is_null()) arguments.max_length = length->get<int64_t>();
    }
    arguments.truncation_keep_end = args.value("truncation_mode", "") == "keep_end";
    pad_to_multiple_of = args.value("pad_to_multiple_of", 1);
    truncation = {arguments.max_length, arguments.truncation_keep_end};
  }
  int32_t pad_id() const { return *tokenizer->special_id(tokenizer->special().pad); }
  int64_t pad_to_multiple_of = 1;
  Truncation truncation;
};

Ids flattened(const base::Json& rows) {
  Ids out;
  for (const base::Json& row : rows) {
    for (const base::Json& value : row) out.push_back(value);
  }
  return out;
}

// The rows one after the other hold what the padded ones hold, document by document.
void expect_same_layouts(std::span<const Example> rows, const PaddedBatch& padded) {
  Batch flat, padding_free;
  collate(rows, {}, flat);
  collate(rows, {.padding_free = true}, padding_free);
  EXPECT_EQ(flat.input_ids, padding_free.input_ids);
  EXPECT_EQ(flat.position_ids, padding_free.position_ids);
  EXPECT_EQ(flat.cu_seqlens, padding_free.cu_seqlens);
  ASSERT_EQ(flat.cu_seqlens.size(), rows.size() + 1);
  EXPECT_EQ(padding_free.input_numel, padding_free.width);
  EXPECT_EQ(padding_free.num_tokens, flat.num_tokens);
  EXPECT_EQ(flat.num_tokens, std::accumulate(padded.attention_mask.begin(), padded.attention_mask.end(), 0));
  const std::vector<uint8_t> padded_mask = completion_mask(padded.labels),
                             mask = completion_mask(flat.labels),
                             free_mask = completion_mask(padding_free.labels);
  for (size_t row = 0; row < rows.size(); ++row) {
    const int64_t begin = flat.cu_seqlens[row], end = flat.cu_seqlens[row + 1];
    for (int64_t i = 0; i < padded.width; ++i) {
      const size_t cell = row * static_cast<size_t>(padded.width) + static_cast<size_t>(i);
      ASSERT_EQ(padded.attention_mask[cell], begin + i < end ? 1 : 0);
      if (begin + i >= end) continue;
      const size_t at = static_cast<size_t>(begin + i);
      ASSERT_EQ(flat.input_ids[at], padded.input_ids[cell]);
      ASSERT_EQ(flat.position_ids[at], i);
      ASSERT_EQ(mask[at], padded_mask[cell]);
      ASSERT_EQ(free_mask[at], i == 0 ? 0 : mask[at]);  // nothing predicts the first one
    }
  }
}

void expect_rows(std::span<const Example> rows, const base::Json& want, const std::string& prefix,
                 int32_t pad_id, int64_t multiple) {
  const PaddedBatch padded = pad(rows, pad_id, multiple);
  EXPECT_EQ(padded.rows, static_cast<int64_t>(want[prefix + "input_ids"].size()));
  EXPECT_EQ(padded.input_ids, flattened(want[prefix + "input_ids"]));
  EXPECT_EQ(padded.attention_mask, flattened(want[prefix + "attention_mask"]));
  if (want.contains(prefix + "completion_mask")) {
    const std::vector<uint8_t> mask = completion_mask(padded.labels);
    EXPECT_EQ(Ids(mask.begin(), mask.end()), flattened(want[prefix + "completion_mask"]));
  }
  expect_same_layouts(rows, padded);
}

std::vector<int64_t> next_indices(int64_t batch, const base::Json& item, int64_t size) {
  const int64_t rows = item["collated_batch_size"], begin = batch * rows;
  std::vector<int64_t> indices(static_cast<size_t>(std::min(rows, size - begin)));
  std::iota(indices.begin(), indices.end(), begin);
  return indices;
}

template <class List>
void expect_sources(const List& list, const base::Json& item) {
  ASSERT_EQ(list.size(), item["num_rows_out"].get<int64_t>());
  const base::Json& columns = item["columns"];
  if (!columns.contains("id")) return;
  for (int64_t i = 0; i < list.size(); ++i)
    EXPECT_EQ(list[i].source_row, columns["id"][static_cast<size_t>(i)].template get<int64_t>());
}

void expect_preference(const base::Json& item, int threads) {
  RecordedShop shop(item["model"], item["args"], threads);
  const auto table = open_file_table(test::golden_path(item["dataset"]), {});
  const bool dpo = item["trainer"] == "dpo";
  const auto list = dpo ? prepare_dpo(table, shop.context) : prepare_reward(table, shop.context);
  expect_sources(*list, item);
  const base::Json& columns = item["columns"];
  for (int64_t i = 0; i < list->size(); ++i) {
    const size_t at = static_cast<size_t>(i);
    const PreferenceExample example = (*list)[i];
    EXPECT_EQ(example.prompt_ids, dpo ? columns["prompt_ids"][at].get<Ids>() : Ids());
    EXPECT_EQ(example.chosen_ids, columns["chosen_ids"][at].get<Ids>());
    EXPECT_EQ(example.rejected_ids, columns["rejected_ids"][at].get<Ids>());
    EXPECT_EQ(example.margin.has_value(), columns.contains("margin"));
    if (example.margin) {
      EXPECT_EQ(*example.margin, columns["margin"][at].get<float>());
    }
  }
  for (int64_t i = 0; i < static_cast<int64_t>(item["collated"].size()); ++i) {
    const base::Json& want = item["collated"][static_cast<size_t>(i)];
    const PreferenceBatch batch = preference_batch(list->gather(next_indices(i, item, list->size())),
                                                   dpo ? shop.truncation : Truncation());
    expect_rows(batch.rows, want, "", shop.pad_id(), shop.pad_to_multiple_of);
    EXPECT_EQ(batch.margin, want.value("margin", std::vector<float>()));
  }
}

void expect_unpaired(const base::Json& item, int threads) {
  RecordedShop shop(item["model"], item["args"], threads);
  const auto table = open_file_table(test::golden_path(item["dataset"]), {});
  const auto list = prepare_kto(table, shop.context);
  expect_sources(*list, item);
  const base::Json& columns = item["columns"];
  const int64_t group = item["args"]["per_device_train_batch_size"];
  const bool kl = columns.contains("KL_completion_ids");
  for (int64_t i = 0; i < list->size(); ++i) {
    const size_t at = static_cast<size_t>(i);
    const UnpairedExample example = (*list)[i];
    EXPECT_EQ(example.prompt_ids, columns["prompt_ids"][at].get<Ids>());
    EXPECT_EQ(example.completion_ids, columns["completion_ids"][at].get<Ids>());
    EXPECT_EQ(example.label, columns["label"][at].get<bool>());
    if (kl) {
      EXPECT_EQ(kl_completions(*list, {&i, 1}, group)[0], columns["KL_completion_ids"][at].get<Ids>());
    }
  }
  for (int64_t i = 0; i < static_cast<int64_t>(item["collated"].size()); ++i) {
    const base::Json& want = item["collated"][static_cast<size_t>(i)];
    const std::vector<int64_t> indices = next_indices(i, item, list->size());
    const UnpairedBatch batch =
        unpaired_batch(list->gather(indices), kl ? kl_completions(*list, indices, group) : std::vector<Ids>(),
                       shop.truncation);
    expect_rows(batch.rows, want, "", shop.pad_id(), shop.pad_to_multiple_of);
    EXPECT_EQ(Ids(batch.label.begin(), batch.label.end()), want["label"].get<Ids>());
    EXPECT_EQ(want.contains("KL_input_ids"), kl);
    if (kl) expect_rows(batch.kl, want, "KL_", shop.pad_id(), shop.pad_to_multiple_of);
  }
}

void expect_prompts(const base::Json& item, int threads) {
  RecordedShop shop(item["model"], item["args"], threads);
  const auto list = prepare_prompts(open_file_table(test::golden_path(item["dataset"]), {}), shop.context);
  const base::Json& want = item["columns"]["prompt_ids"];
  ASSERT_EQ(list->size(), static_cast<int64_t>(want.size()));
  for (int64_t i = 0; i < list->size(); ++i) {
    EXPECT_EQ((*list)[i].prompt_ids, want[static_cast<size_t>(i)].get<Ids>());
    EXPECT_EQ((*list)[i].source_row, i);
  }
}

TEST(PreferenceRecorded, PreparedDatasets) {
  TRL_NEED_GOLDEN("data/prepared/index.json");
  std::map<std::string, int> run;
  int threads = 1;
  for (const base::Json& entry : test::golden_json("data/prepared/index.json")["cases"]) {
    const std::string id = entry["id"], trainer = entry["trainer"];
    if (trainer == "sft") continue;
    SCOPED_TRACE(id);
    const base::Json& item = test::golden_json("data/prepared/" + id + ".json");
    threads = threads % 3 + 1;
    if (trainer == "kto") {
      expect_unpaired(item, threads);
    } else if (trainer == "grpo") {
      expect_prompts(item, threads);
    } else {
      expect_preference(item, threads);
    }
    ++run[trainer];
  }
  EXPECT_EQ(run, (std::map<std::string, int>{{"dpo", 9}, {"grpo", 5}, {"kto", 4}, {"reward", 5}}));
}

std::shared_ptr<const Table> table_of_run(const base::Json& item) {
  const std::string range = item["rows"];
  const int64_t first = std::stoll(range), last = std::stoll(range.substr(range.find("..") + 2));
  const auto source = open_file_source(test::golden_path(item["dataset"]));
  std::string jsonl;
  int64_t index = 0;
  for (Row row; source->next(row); ++index) {
    if (index >= first && index <= last) jsonl += row.value.dump() + "\n";
  }
  return test::PreferenceShop::table(jsonl);
}

// The first micro-batches of whole runs, as they entered the loss.
void expect_first_inputs(const base::Json& item) {
  const base::Json& args = item["args"];
  RecordedShop shop(item["model"], args, 2);
  const auto table = table_of_run(item);
  const int64_t rows = args["per_device_train_batch_size"];
  const auto order = [&](int64_t size, size_t batch) {
    const bool sequential = args["train_sampling_strategy"] == "sequential";
    const OrderOptions options{.rows = size,
                               .batch_size = rows,
                               .sampling = sequential ? Sampling::sequential : Sampling::random,
                               .seed = args["seed"]};
    return EpochOrder(options, 0).batch(static_cast<int64_t>(batch));
  };
  const base::Json& inputs = item["first_inputs"];
  if (item["trainer"] == "KTOTrainer") {
    const auto list = prepare_kto(table, shop.context);
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::vector<int64_t> indices = order(list->size(), i);
      const UnpairedBatch batch =
          unpaired_batch(list->gather(indices), kl_completions(*list, indices, rows), shop.truncation);
      expect_rows(batch.rows, inputs[i], "", shop.pad_id(), 1);
      EXPECT_EQ(Ids(batch.label.begin(), batch.label.end()), inputs[i]["label"].get<Ids>());
      if (inputs[i].contains("KL_input_ids")) expect_rows(batch.kl, inputs[i], "KL_", shop.pad_id(), 1);
    }
    return;
  }
  const bool dpo = item["trainer"] == "DPOTrainer";
  const auto list = dpo ? prepare_dpo(table, shop.context) : prepare_reward(table, shop.context);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const PreferenceBatch batch =
        preference_batch(list->gather(order(list->size(), i)), dpo ? shop.truncation : Truncation());
    expect_rows(batch.rows, inputs[i], "", shop.pad_id(), 1);
    EXPECT_EQ(batch.margin, inputs[i].value("margin", std::vector<float>()));
  }
}

TEST(PreferenceRecorded, FirstInputsOfTrajectories) {
  TRL_NEED_GOLDEN("trajectories/index.json");
  std::map<std::string, int> run;
  base::Json names = test::golden_json("trajectories/index.json")["cases"];
  for (const char* later : {"dpo_bf16", "dpo_bf16_weights", "dpo_qlora_nf4", "dpo_padding_free", "kto_eval",
                            "kto_sync_ref"})  // tests/parity/record_preferences.py
    names.push_back(later);
  for (const base::Json& name : names) {
    const std::string file = "trajectories/" + name.get<std::string>() + "/case.json";
    if (!test::has_golden(file)) continue;
    const base::Json& item = test::golden_json(file);
    const std::string trainer = item["trainer"];
    if (trainer != "DPOTrainer" && trainer != "RewardTrainer" && trainer != "KTOTrainer") continue;
    SCOPED_TRACE(name);
    expect_first_inputs(item);
    ++run[trainer];
  }
  EXPECT_EQ(run, (std::map<std::string, int>{{"DPOTrainer", 33}, {"KTOTrainer", 8}, {"RewardTrainer", 4}}));
}

PreferenceExample preference_of(const base::Json& columns) {
  PreferenceExample example;
  example.prompt_ids = columns.value("prompt_ids", Ids());
  example.chosen_ids = columns["chosen_ids"].get<Ids>();
  example.rejected_ids = columns["rejected_ids"].get<Ids>();
  if (columns.contains("margin")) example.margin = columns["margin"];
  return example;
}

void expect_collated(const base::Json& item) {
  const base::Json &kwargs = item["kwargs"], &want = item["batch"];
  Truncation truncation;
  if (kwargs.contains("max_length") && !kwargs["max_length"].is_null())
    truncation.max_length = kwargs["max_length"];
  truncation.keep_end = kwargs.value("truncation_mode", "") == "keep_end";
  const bool padded = kwargs.contains("pad_to_multiple_of") && !kwargs["pad_to_multiple_of"].is_null();
  const int64_t multiple = padded ? kwargs["pad_to_multiple_of"].get<int64_t>() : 1;
  if (item["collator"] != "kto") {
    std::vector<PreferenceExample> examples;
    for (const base::Json& columns : item["examples"]) examples.push_back(preference_of(columns));
    const PreferenceBatch batch = preference_batch(examples, truncation);
    expect_rows(batch.rows, want, "", kwargs["pad_token_id"], multiple);
    EXPECT_EQ(batch.margin, want.value("margin", std::vector<float>()));
    return;
  }
  std::vector<UnpairedExample> examples;
  std::vector<Ids> kl;
  for (const base::Json& columns : item["examples"]) {
    examples.push_back(
        {0, columns["prompt_ids"].get<Ids>(), columns["completion_ids"].get<Ids>(), columns["label"]});
    kl.push_back(columns["KL_completion_ids"].get<Ids>());
  }
  const UnpairedBatch batch = unpaired_batch(examples, kl, truncation);
  expect_rows(batch.rows, want, "", kwargs["pad_token_id"], multiple);
  expect_rows(batch.kl, want, "KL_", kwargs["pad_token_id"], multiple);
  EXPECT_EQ(Ids(batch.label.begin(), batch.label.end()), want["label"].get<Ids>());
}

TEST(PreferenceRecorded, Collators) {
  TRL_NEED_GOLDEN("data/prepared/collators.json");
  std::map<std::string, int> run;
  for (const base::Json& item : test::golden_json("data/prepared/collators.json")["cases"]) {
    if (item["collator"] == "sft") continue;
    SCOPED_TRACE(item.dump());
    expect_collated(item);
    ++run[item["collator"]];
  }
  EXPECT_EQ(run, (std::map<std::string, int>{{"dpo", 9}, {"kto", 2}, {"reward", 2}}));
}

TEST(PreferenceRecorded, BadFilesFailAsThere) {
  TRL_NEED_GOLDEN("data/bad/index.json");
  std::map<std::string, std::string> messages;
  for (const base::Json& entry : test::golden_json("data/bad/index.json")["files"]) {
    const base::Json& there = entry["datasets_5_2"];
    if (!there.contains("trainer") || there["trainer"]["kind"] == "sft") continue;
    EXPECT_EQ(there["trainer"]["ok"], false);
    RecordedShop shop("models/qwen2", base::Json::object(), 2);
    const auto table = open_file_table(test::golden_path(entry["file"]), {});
    messages[base::file_name(entry["file"].get<std::string>())] = test::message_of([&] {
      if (there["trainer"]["kind"] == "dpo") prepare_dpo(table, shop.context);
      if (there["trainer"]["kind"] == "kto") prepare_kto(table, shop.context);
    });
  }
  ASSERT_EQ(messages.size(), 2u);
  const std::string missing = messages["preference_missing_rejected.jsonl"];
  EXPECT_NE(missing.find("preference_missing_rejected.jsonl:1: no column 'rejected', but text is expected"),
            std::string::npos)
      << missing;
  const std::string label = messages["unpaired_bad_label.jsonl"];
  EXPECT_NE(
      label.find("unpaired_bad_label.jsonl:1: column 'label' is a string, but true or false is expected"),
      std::string::npos)
      << label;
}

}  // namespace
}  // namespace trl::data
