// See preparation.h. Rows are read in blocks of as many as TRL packs together; each block is tokenised on the
// pool and appended in source order, so that memory is bounded and nothing depends on the number of threads.
#include "data/prepare/preparation.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/interrupt.h"
#include "base/threads/thread_pool.h"
#include "data/source/numpy_shuffle.h"

namespace trl::data {

namespace {

constexpr int64_t kSmallBytes = int64_t{1}
                                << 20;  // bytes of JSON that are prepared in less time than a step takes
constexpr size_t kMemoryBytes = size_t{16}
                                << 20;  // bytes of prepared rows in memory if they may go to a file
constexpr uint64_t kFormat = 11;        // of kept rows and their tokenisation: another format is another key

// Hashes everything that prepared rows depend on.
uint64_t fingerprint_of(const Table& table, const PrepareContext& context, const RowKind& kind) {
  const config::DataArguments& a = *context.arguments;
  base::Xxh3 hash;
  const auto add = [&](std::string_view text) {
    const uint64_t size = text.size();
    hash.update({reinterpret_cast<const char*>(&size), sizeof size});
    hash.update(text);
  };
  add(TRL_VERSION_STRING);
  add(fmt::format("{} {:016x} {} {} {} {}", kFormat, table.digest(), table.size(),
                  static_cast<int>(context.packing),
                  a.shuffle_dataset ? static_cast<int64_t>(context.seed) : -1, context.vocab_size));
  add(kind.identity());
  add(a.row_options);
  for (const auto& [name, bytes] : context.tokenizer->files()) {
    add(name);
    add(bytes);
  }
  for (const auto& [name, source] : context.tokenizer->chat_templates()) {
    add(name);
    add(source);
  }
  add(context.tokenizer->special().eos.value_or(""));
  add(context.tokenizer->splits_special_tokens() ? "split" : "");
  add(context.tokenizer->built_as());  // depends on the model's type too, which is in none of these files
  return hash.digest();
}

}  // namespace

Preparation::Preparation(std::shared_ptr<const Table> table, const PrepareContext& context,
                         std::unique_ptr<const RowKind> kind)
    : table_(std::move(table)),
      arguments_(*context.arguments),
      context_([&] {
        PrepareContext own = context;
        own.arguments = &arguments_;
        return own;
      }()),
      cache_(arguments_.dataset_cache_dir, arguments_.dataset_cache_limit),
      kind_(std::move(kind)),
      fingerprint_(fingerprint_of(*table_, context_, *kind_)),
      pass_(context_.background) {
  store_ = cache_.find(fingerprint_, &counts_, context_.memory, *context_.log);
  if (store_ != nullptr) {
    kept_ = store_->size();
    done_ = true;
  } else {
    start();
  }
}

Preparation::~Preparation() {
  pass_.stop();
  if (thread_.joinable()) thread_.join();
}

void Preparation::start() {
  store_ = std::make_unique<RecordStore>(
      RecordStore::Options{context_.directory, kMemoryBytes, context_.memory, nullptr});
  if (table_->total_bytes() <= kSmallBytes) {
    run();
    return report();
  }
  if (kind_->row_by_row() && !context_.needs_lengths) {
    find_dropped();
    lazy_ = true;
  }
  thread_ = base::quiet_thread("trl-prepare", [this] {
    const base::InterruptScope interrupted_by(&pass_);
    run();
  });
}

// Finds the dropped rows of a dataset whose order is fixed before all rows are tokenised.
void Preparation::find_dropped() {
  const size_t least = kind_->least_bytes_to_drop();
  if (least == SIZE_MAX) return;
  std::vector<int64_t> rows;
  std::vector<RowText> texts;
  for (int64_t begin = 0; begin < table_->size(); begin += kPackingBlockRows) {
    rows.resize(static_cast<size_t>(std::min(kPackingBlockRows, table_->size() - begin)));
    std::iota(rows.begin(), rows.end(), begin);
    table_->fetch(rows, texts);
    std::vector<size_t> long_ones;
    for (size_t i = 0; i < texts.size(); ++i)
      if (texts[i].json.size() >= least) long_ones.push_back(i);
    std::vector<std::optional<Counts>> counts(long_ones.size());
    context_.pool->parallel_for(static_cast<int64_t>(long_ones.size()), 8, [&](int64_t from, int64_t to) {
      for (auto i = static_cast<size_t>(from); i < static_cast<size_t>(to); ++i)
        counts[i] = kind_->drops(texts[long_ones[i]]);
    });
    for (size_t i = 0; i < long_ones.size(); ++i) {
      if (!counts[i]) continue;
      counts_.add(*counts[i]);
      dropped_.push_back(rows[long_ones[i]]);
    }
  }
}

void Preparation::run() {
  Counts counts = counts_;  // including the rows dropped already
  std::exception_ptr error;
  std::string cache_problem;
  try {
    std::vector<uint32_t> order;
    const bool shuffled = arguments_.shuffle_dataset && context_.packing != Packing::none;
    if (shuffled) order = numpy_permutation<uint32_t>(context_.seed, table_->size());
    std::vector<int64_t> rows;
    for (int64_t begin = 0; begin < table_->size() && !pass_.stopped(); begin += kPackingBlockRows) {
      const auto count = static_cast<size_t>(std::min(kPackingBlockRows, table_->size() - begin));
      rows.resize(count);
      std::iota(rows.begin(), rows.end(), begin);
      if (shuffled) std::copy_n(order.begin() + begin, count, rows.begin());
      std::erase_if(rows, [&](int64_t row) { return std::ranges::binary_search(dropped_, row); });
      prepare_rows(rows, counts);
      base::progress("tokenize", begin + static_cast<int64_t>(count), table_->size());
      const std::lock_guard lock(mutex_);
      counts_ = counts;
    }
    if (!pass_.stopped() && !context_.may_be_empty) kind_->check(counts, table_->name());
    try {
      if (cache_.is_on() && !pass_.stopped()) cache_.add(fingerprint_, *store_, counts);
    } catch (const Error& problem) {
      cache_problem = problem.message();
    }
  } catch (const Error& problem) {
    // Rows that found no room are tokenised when they are trained on.
    if (!lazy_ || problem.status() != Status::out_of_memory) error = std::current_exception();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex_);
    counts_ = counts;
    error_ = error;
    cache_problem_ = cache_problem;
    done_ = true;
  }
  done_changed_.notify_all();
}

void Preparation::prepare_rows(std::span<const int64_t> rows, Counts& counts) {
  std::vector<RowText> texts;
  table_->fetch(rows, texts);
  store_->append(kind_->records(texts, rows, lazy_, counts), *context_.pool);
  kept_ = store_->size();
}

void Preparation::wait() {
  std::unique_lock lock(mutex_);
  while (!done_) {
    const int64_t read = counts_.read;
    lock.unlock();
    base::progress("tokenize", read, table_->size());
    base::poll();
    lock.lock();
    if (!done_) done_changed_.wait_for(lock, std::chrono::milliseconds(20));
  }
  lock.unlock();
  report();
}

int64_t Preparation::size() {
  if (!lazy_) wait();
  report();
  const int64_t rows = lazy_ ? table_->size() - static_cast<int64_t>(dropped_.size()) : kept_.load();
  if (arguments_.shuffle_dataset && shuffled_.empty())
    shuffled_ = numpy_permutation<uint32_t>(context_.seed, rows);
  return rows;
}

// Returns the source row with this number among the rows that are not dropped.
int64_t Preparation::source_row(int64_t row) const {
  int64_t below = 0, above = static_cast<int64_t>(dropped_.size());
  while (below < above) {  // counts the dropped rows before it
    const int64_t middle = (below + above) / 2;
    if (dropped_[static_cast<size_t>(middle)] - middle <= row)
      below = middle + 1;
    else
      above = middle;
  }
  return row + below;
}

std::string Preparation::read(int64_t row) {
  report();
  if (arguments_.shuffle_dataset && shuffled_.empty()) size();
  if (!shuffled_.empty()) row = shuffled_[static_cast<size_t>(row)];
  if (row < kept_) return store_->read(row);
  const int64_t source = source_row(row);
  std::vector<RowText> texts;
  table_->fetch({&source, 1}, texts);
  return kind_->record(texts.front(), source);
}

int64_t Preparation::total_tokens() {
  wait();
  return counts_.tokens;
}

void Preparation::report() {
  std::exception_ptr error;
  {
    const std::lock_guard lock(mutex_);
    if (!done_) return;
    error = error_;
  }
  if (error) std::rethrow_exception(error);
  if (std::exchange(reported_, true)) return;
  kind_->report(counts_, table_->name());
  if (!cache_problem_.empty()) {
    context_.log->warning("data", "dataset_cache_dir: {}; the prepared rows are not kept for the next run",
                          cache_problem_);
  }
}

void Preparation::tell() {
  std::string problem;
  {
    const std::lock_guard lock(mutex_);
    if (reported_) return;
    if (!done_ || error_) {
      reported_ = true;
      kind_->report(counts_, table_->name() + " (as far as it was read)");
    }
    if (done_ && error_) {
      try {
        std::rethrow_exception(error_);
      } catch (const std::exception& error) {
        problem = error.what();
      }
    }
  }
  if (!problem.empty()) context_.log->warning("data", "in rows that were not trained on: {}", problem);
  if (!reported_) report();
}

}  // namespace trl::data
