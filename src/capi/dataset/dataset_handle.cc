// trl_dataset_* and trl_record_*.
#include "capi/dataset/dataset_handle.h"

#include "base/memory/memory.h"
#include "capi/callback.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "data/source/formats.h"
#include "io/arrow_abi.h"

namespace trl::capi {
namespace {

// The bytes of a memory dataset, counted as long as they are held.
class HeldBytes {
 public:
  explicit HeldBytes(std::string_view bytes) : size_(static_cast<int64_t>(bytes.size())) {
    process().memory().charge(base::MemoryKind::data, size_);
    try {
      bytes_ = bytes;
    } catch (...) {
      process().memory().release(base::MemoryKind::data, size_);
      throw;
    }
  }
  ~HeldBytes() { process().memory().release(base::MemoryKind::data, size_); }
  HeldBytes(const HeldBytes&) = delete;
  HeldBytes& operator=(const HeldBytes&) = delete;
  const std::string& get() const { return bytes_; }

 private:
  const int64_t size_;
  std::string bytes_;
};

struct HostRows {
  trl_next_record_fn next;
  trl_rewind_fn rewind;
  UserData user_data;
};

data::CallbackRows adapt(std::shared_ptr<HostRows> rows) {
  data::CallbackRows adapted;
  adapted.next = [rows](base::Json& row) {
    row = base::Json::object();
    trl_record record(row);
    const int32_t code = call_host("next", [&] { return rows->next(rows->user_data.get(), &record); });
    if (code != TRL_OK && code != TRL_END) fail_callback("next", code);
    return code == TRL_OK;
  };
  adapted.rewind = [rows] {
    const int32_t code = call_host("rewind", [&] { return rows->rewind(rows->user_data.get()); });
    if (code < 0) fail_callback("rewind", code);
  };
  return adapted;
}

// Rows of a callback. A host may give other rows each time, so nothing is kept.
class CallbackOrigin final : public data::Origin {
 public:
  explicit CallbackOrigin(std::shared_ptr<HostRows> rows) : rows_(std::move(rows)) {}
  const std::string& name() const override { return name_; }
  std::vector<data::SourcePart> parts() const override {
    const auto open = [rows = rows_] {
      auto source = data::open_callback_source(adapt(rows));
      source->rewind();
      return source;
    };
    return {{open, {}}};
  }
  std::shared_ptr<const data::Table> table(const data::Spool& spool) const override {
    return data::spool_rows(*source(), spool);
  }

 private:
  const std::string name_ = "dataset";
  const std::shared_ptr<HostRows> rows_;
};

std::shared_ptr<const data::Origin> arrow_origin(ArrowArrayStream* stream) {
  const std::string name = "dataset";
  ArrowArrayStream guarded = guarded_stream(stream);
  const std::unique_ptr<ArrowArrayStream, void (*)(ArrowArrayStream*)> until_taken(
      &guarded, [](ArrowArrayStream* left) {
        if (left->release != nullptr) left->release(left);
      });
  const auto source = std::make_shared<std::unique_ptr<data::Source>>(data::arrow_source(&guarded, name));
  return data::once_origin([source] { return std::move(*source); }, name);
}

void check_column(const trl_record* record, const char* name) {
  if (record == nullptr) fail_null("record");
  record->check(Tag::record, "record");
  text(name, "name");
}

void set_column(trl_record* record, const char* name, base::Json value) {
  check_column(record, name);
  record->row[std::string(name)] = std::move(value);
}

// A source that must be the only open reader.
class OnlySource final : public data::Source {
 public:
  OnlySource(std::shared_ptr<void> reading, std::unique_ptr<data::Source> source)
      : reading_(std::move(reading)), source_(std::move(source)) {}
  bool read_text(data::RowText& text) override { return source_->next_text(text); }
  void start_over() override { source_->rewind(); }
  const std::string& name() const override { return source_->name(); }

 private:
  const std::shared_ptr<void> reading_;
  const std::unique_ptr<data::Source> source_;
};

trl_dataset* new_dataset(std::shared_ptr<Runtime> runtime, config::Config options,
                         std::shared_ptr<const data::Origin> rows) {
  return new trl_dataset(
      std::make_shared<Dataset>(std::move(runtime), std::move(options), true, std::move(rows)));
}

}  // namespace

Dataset::Dataset(std::shared_ptr<Runtime> runtime, config::Config options, bool shareable,
                 std::shared_ptr<const data::Origin> rows)
    : runtime_(std::move(runtime)),
      rows_(std::move(rows)),
      shareable_(shareable),
      options_(std::move(options)) {}

config::Config Dataset::apply_options(config::Config config) const {
  for (const std::string_view key : {"dataset_columns", "dataset_select_columns"})
    if (options_.is_set(key)) config.set(key, options_.get(key));
  return config;
}

// Marks the rows as being read for the life of the result.
std::shared_ptr<void> Dataset::start_reading() const {
  if (shareable_) return nullptr;
  if (reading_->exchange(true)) fail(Status::busy, "dataset: another call reads the rows of its callback");
  return {reading_.get(), [reading = reading_](void*) { reading->store(false); }};
}

std::unique_ptr<data::Source> Dataset::source(const data::Spool& spool) const {
  auto reading = start_reading();
  const LogScope scope(runtime_->shared_log());
  auto source = rows_->source();
  if (source == nullptr) source = data::read_table(rows_->table(spool));
  if (reading == nullptr) return source;
  return std::make_unique<OnlySource>(std::move(reading), std::move(source));
}

std::vector<std::unique_ptr<data::Source>> Dataset::shards(const data::Spool& spool) const {
  if (std::vector<std::unique_ptr<data::Source>> out = rows_->shards(); out.size() > 1) return out;
  std::vector<std::unique_ptr<data::Source>> whole;
  whole.push_back(source(spool));
  return whole;
}

std::shared_ptr<const data::Table> Dataset::table(const data::Spool& spool) const {
  const auto reading = start_reading();
  const LogScope scope(runtime_->shared_log());
  return rows_->table(spool);
}

}  // namespace trl::capi

using namespace trl::capi;
namespace data = trl::data;

trl_status trl_dataset_open(trl_runtime* runtime, const char* path, const trl_config* options,
                            trl_dataset** out_dataset, trl_error** error) noexcept {
  return guard(error, out_dataset, [&] {
    need(out_dataset, "out_dataset");
    const std::string file = path_of(path);
    const auto shared = runtime_of(runtime);
    const trl::config::Config config = options_of(options);
    trl::config::DatasetArguments rows;
    rows.entries.emplace_back().path = file;
    rows.entries.front().split = config.get("dataset_train_split");
    rows.entries.front().config = config.get_text("dataset_config").value_or("");
    const RuntimeScope scope(*shared);
    auto opened = data::open_rows(rows, shared->log());
    *out_dataset = new_dataset(shared, config, std::move(opened.train));
  });
}

trl_status trl_dataset_from_buffer(trl_runtime* runtime, const char* format, const char* data, size_t size,
                                   const trl_config* options, trl_dataset** out_dataset,
                                   trl_error** error) noexcept {
  return guard(error, out_dataset, [&] {
    need(out_dataset, "out_dataset");
    const auto held = std::make_shared<HeldBytes>(bytes(data, size, "data"));
    *out_dataset = new_dataset(runtime_of(runtime), options_of(options),
                               data::memory_origin(text(format, "format"), {held, &held->get()}, "buffer"));
  });
}

trl_status trl_dataset_from_callback(trl_runtime* runtime, trl_next_record_fn next, trl_rewind_fn rewind,
                                     void* user_data, trl_destroy_fn destroy, const trl_config* options,
                                     trl_dataset** out_dataset, trl_error** error) noexcept {
  return guard(error, out_dataset, [&, owned = UserData(user_data, destroy)]() mutable {
    need(out_dataset, "out_dataset");
    if (next == nullptr) fail_null("next");
    if (rewind == nullptr) fail_null("rewind");
    auto rows = std::make_shared<HostRows>(HostRows{next, rewind, std::move(owned)});
    *out_dataset = new trl_dataset(std::make_shared<Dataset>(
        runtime_of(runtime), options_of(options), false, std::make_shared<CallbackOrigin>(std::move(rows))));
  });
}

trl_status trl_dataset_from_arrow(trl_runtime* runtime, ArrowArrayStream* stream, const trl_config* options,
                                  trl_dataset** out_dataset, trl_error** error) noexcept {
  return guard(error, out_dataset, [&] {
    if (stream == nullptr) fail_null("stream");
    if (stream->release == nullptr)
      trl::fail(trl::Status::invalid_argument, "stream: it has already been released");
    auto rows = arrow_origin(stream);
    need(out_dataset, "out_dataset");
    *out_dataset = new_dataset(runtime_of(runtime), options_of(options), std::move(rows));
  });
}

trl_status trl_dataset_open_config(trl_runtime* runtime, const trl_config* config, trl_dataset** out_train,
                                   trl_dataset** out_eval, trl_error** error) noexcept {
  return guard(error, out_train, out_eval, [&] {
    const trl::config::Config keys = get(config, "config")->copy();
    need(out_train, "out_train");
    need(out_eval, "out_eval");
    const auto shared = runtime_of(runtime);
    const auto arguments = trl::config::dataset_arguments(keys);
    const RuntimeScope scope(*shared);
    data::OpenedRows rows = data::open_rows(arguments, shared->log());
    std::unique_ptr<trl_dataset> train(new_dataset(shared, {}, std::move(rows.train)));
    if (rows.eval != nullptr) *out_eval = new_dataset(shared, {}, std::move(rows.eval));
    *out_train = train.release();
  });
}

trl_status trl_record_set_text(trl_record* record, const char* name, const char* text, size_t size,
                               trl_error** error) noexcept {
  return guard<From::anywhere>(
      error, [&] { set_column(record, name, trl::base::Json(std::string(utf8(text, size, "text")))); });
}

trl_status trl_record_set_ids(trl_record* record, const char* name, const int32_t* ids, size_t count,
                              trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    check_column(record, name);
    const auto given = elements(ids, count, "ids");
    set_column(record, name, trl::base::Json(std::vector<int32_t>(given.begin(), given.end())));
  });
}

trl_status trl_record_set_json(trl_record* record, const char* name, const char* json, size_t size,
                               trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    check_column(record, name);
    set_column(record, name, trl::base::parse_exact_json(utf8(json, size, "json"), name));
  });
}

trl_status trl_dataset_get_row_count(const trl_dataset* dataset, int64_t* out_count,
                                     trl_error** error) noexcept {
  return guard(error, out_count, [&] {
    const auto shared = get(dataset, "dataset");
    need(out_count, "out_count");
    int64_t count = 0;
    const RuntimeScope scope(*shared->runtime());
    const auto source = shared->source({.directory = {}, .memory = &process().memory()});
    for (data::Row row; source->next(row); trl::base::progress("rows", ++count, -1)) trl::base::poll();
    *out_count = count;
  });
}

void trl_dataset_destroy(trl_dataset* dataset) noexcept { destroy(dataset); }
