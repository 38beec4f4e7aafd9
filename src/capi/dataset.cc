// trl_dataset_* and trl_record_*.
#include "capi/dataset.h"

#include "base/memory.h"
#include "capi/callback.h"
#include "capi/config.h"
#include "capi/guard.h"
#include "config/local_path.h"

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

[[noreturn]] void fail_callback(std::string_view which, int32_t code) {
  throw Error(Status::callback, fmt::format("the host's {} callback returned {}", which, code), {}, code);
}

data::CallbackRows adapt(std::shared_ptr<HostRows> rows) {
  data::CallbackRows adapted;
  adapted.next = [rows](base::Json& row) {
    row = base::Json::object();
    trl_record record(row);
    const CallbackScope scope;
    const int32_t code = rows->next(rows->user_data.get(), &record);
    if (code < 0) fail_callback("next", code);
    return code == TRL_OK;
  };
  adapted.rewind = [rows] {
    const CallbackScope scope;
    const int32_t code = rows->rewind(rows->user_data.get());
    if (code < 0) fail_callback("rewind", code);
  };
  return adapted;
}

void set_column(trl_record* record, const char* name, base::Json value) {
  if (record == nullptr) fail_null("record");
  record->check(Tag::record, "record");
  record->row[std::string(text(name, "name"))] = std::move(value);
}

}  // namespace

Dataset::Dataset(std::shared_ptr<Runtime> runtime, config::Config options, bool shareable, Open open)
    : runtime_(std::move(runtime)),
      open_(std::move(open)),
      shareable_(shareable),
      options_(std::move(options)) {}

config::Config Dataset::apply_options(config::Config config) const {
  for (const std::string_view key : {"dataset_columns", "dataset_select_columns"}) {
    if (options_.is_set(key)) config.set(key, options_.get(key));
  }
  return config;
}

void Dataset::read(const std::function<void(data::Source&)>& body) const {
  std::unique_lock lock(reading_, std::defer_lock);
  if (!shareable_ && !lock.try_lock())
    fail(Status::busy, "dataset: another call reads the rows of its callback");
  const LogScope scope(runtime_->log());
  const auto source = open_();
  body(*source);
}

std::shared_ptr<const data::Table> Dataset::table(const data::Spool& spool) const {
  std::shared_ptr<const data::Table> table;
  read([&](data::Source& source) { table = data::spool_rows(source, spool); });
  return table;
}

std::unique_ptr<data::Source> Dataset::source() const { return open_(); }

}  // namespace trl::capi

using namespace trl::capi;
namespace data = trl::data;

trl_status trl_dataset_open(trl_runtime* runtime, const char* path, const trl_config* options,
                            trl_dataset** out_dataset, trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        need(out_dataset, "out_dataset");
        need(path, "path");
        trl::config::check_local_path("dataset_name", path);
        const auto dataset =
            std::make_shared<Dataset>(runtime_of(runtime), options_of(options), true,
                                      [file = std::string(path)] { return data::open_file_source(file); });
        dataset->read([](data::Source&) {});  // a file that is not there or no dataset fails here
        *out_dataset = new trl_dataset(dataset);
      },
      out_dataset);
}

trl_status trl_dataset_from_buffer(trl_runtime* runtime, const char* format, const char* data, size_t size,
                                   const trl_config* options, trl_dataset** out_dataset,
                                   trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        need(out_dataset, "out_dataset");
        const std::string kind(text(format, "format"));
        if (kind != "jsonl" && kind != "json") {
          trl::fail(trl::Status::invalid_argument, "format: '{}' is not one of jsonl, json", kind);
        }
        const auto held = std::make_shared<HeldBytes>(bytes(data, size, "data"));
        *out_dataset = new trl_dataset(std::make_shared<Dataset>(
            runtime_of(runtime), options_of(options), true,
            [held, kind] { return data::open_memory_source(kind, held->get(), "buffer"); }));
      },
      out_dataset);
}

trl_status trl_dataset_from_callback(trl_runtime* runtime, trl_next_record_fn next, trl_rewind_fn rewind,
                                     void* user_data, trl_destroy_fn destroy, const trl_config* options,
                                     trl_dataset** out_dataset, trl_error** error) noexcept {
  return guard(
      error,
      [&, owned = UserData(user_data, destroy)]() mutable {
        need(out_dataset, "out_dataset");
        if (next == nullptr) fail_null("next");
        if (rewind == nullptr) fail_null("rewind");
        auto rows = std::make_shared<HostRows>(HostRows{next, rewind, std::move(owned)});
        *out_dataset = new trl_dataset(std::make_shared<Dataset>(
            runtime_of(runtime), options_of(options), false, [rows = std::move(rows)] {
              auto source = data::open_callback_source(adapt(rows));
              source->rewind();
              return source;
            }));
      },
      out_dataset);
}

trl_status trl_record_set_text(trl_record* record, const char* name, const char* text, size_t size,
                               trl_error** error) noexcept {
  return guard<From::anywhere>(
      error, [&] { set_column(record, name, trl::base::Json(std::string(utf8(text, size, "text")))); });
}

trl_status trl_record_set_json(trl_record* record, const char* name, const char* json, size_t size,
                               trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] {
    set_column(record, name,
               trl::base::parse_json(utf8(json, size, "json"), name != nullptr ? name : "json"));
  });
}

trl_status trl_dataset_get_row_count(const trl_dataset* dataset, int64_t* out_count,
                                     trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(dataset, "dataset");
        need(out_count, "out_count");
        int64_t count = 0;
        shared->read([&](data::Source& source) {
          for (data::Row row; source.next(row);) ++count;
        });
        *out_count = count;
      },
      out_count);
}

void trl_dataset_destroy(trl_dataset* dataset) noexcept { destroy(dataset); }
