#include "data/pipeline_child.h"

#include <cstdio>
#include <span>

#include "base/files/files.h"
#include "base/files/hash.h"
#include "base/json/json.h"
#include "base/log.h"
#include "base/memory/memory.h"
#include "base/threads/thread_pool.h"
#include "config/dataset/data_arguments.h"
#include "config/training_arguments.h"
#include "data/batch/batch_stream.h"
#include "data/prepare/sft.h"
#include "data/source/row_files.h"
#include "data/tokenizer/open_tokenizer.h"
#include "support/child.h"

namespace trl::bench {

namespace {

config::Config config_of(const PipelineWork& work) {
  const bool packed = work.kind == "cold" || work.kind == "warm";
  config::Config config;
  config.set("output_dir", work.scratch);
  config.set("max_length", std::to_string(work.max_length));
  config.set("dataset_columns", work.columns);
  config.set("packing", packed ? "true" : "false");
  if (work.kind == "streaming") config.set("dataset_streaming", "true");
  if (work.cache) config.set("dataset_cache_dir", base::join_path(work.scratch, "cache"));
  return config;
}

// Of ids, labels and the lengths of the documents of every row, in order.
std::string digest_of(data::Examples& examples) {
  base::Xxh3 hash;
  const auto add = [&](const std::vector<int32_t>& values) {
    hash.update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(int32_t)});
  };
  for (int64_t row = 0; row < examples.size(); ++row) {
    const data::Example example = examples.read(row);
    add(example.input_ids);
    add(example.labels);
    add(example.seq_lengths);
  }
  return fmt::format("{:016x}", hash.digest());
}

}  // namespace

void run_pipeline(const PipelineWork& work) {
  const config::Config config = config_of(work);
  const config::TrainingArguments training = config::training_arguments(config);
  const config::DataArguments arguments = config::data_arguments(config);
  const auto tokenizer = data::training_tokenizer(*data::open_tokenizer(work.model), arguments);
  base::NullLog log;
  base::MemoryCounter memory;
  base::ThreadPool pool(work.threads);
  data::PrepareContext context;
  context.tokenizer = tokenizer.get();
  context.arguments = &arguments;
  context.log = &log;
  context.pool = &pool;
  context.memory = &memory;
  context.packing = arguments.packing;
  context.directory = training.output_dir;

  const double begin = now();
  const double cpu_begin = cpu_seconds();
  base::Json out;
  const data::OrderOptions order = data::train_order(training, arguments);
  const data::BatchLayout layout = data::layout_of(arguments);
  std::unique_ptr<data::BatchStream> stream;
  data::Examples* examples = nullptr;
  if (arguments.streaming) {
    data::Shards shards;
    shards.push_back(data::open_file_source(work.rows));
    stream = data::batches_as_read(std::move(shards), context, order.batch_size, data::streamed_sft(layout));
  } else {
    const auto table = data::open_file_table(work.rows, {context.directory, size_t{32} << 20, &memory});
    out["open_seconds"] = now() - begin;
    out["rows"] = table->size();
    out["bytes"] = table->total_bytes();
    auto prepared = data::prepare_sft(table, context);
    examples = prepared.get();
    stream = data::batches_in_order(std::move(prepared), order, layout);
  }
  stream->start_epoch(0);
  out["prepare_seconds"] = now() - begin;
  out["prepare_cpu_seconds"] = cpu_seconds() - cpu_begin;
  data::Batch batch;
  stream->next(batch);
  out["first_batch_seconds"] = now() - work.process_start;
  const auto make_batches = [&] {
    for (int64_t i = 0; i < work.batches && stream->next(batch); ++i) {
    }
  };
  make_batches();
  if (work.to_the_end) {
    out["tokens"] = examples->total_tokens();
    out["prepared_rows"] = examples->size();
    out["pass_seconds"] = now() - begin;
    make_batches();
  }
  if (work.digest) out["digest"] = digest_of(*examples);
  out["peak_bytes"] = status_bytes("VmHWM");
  std::puts(out.dump().c_str());
}

}  // namespace trl::bench
