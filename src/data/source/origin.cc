// Files and buffers that can be opened repeatedly.
#include "data/source/origin.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/threads/polled_lock.h"
#include "data/source/formats.h"
#include "io/stream.h"

namespace trl::data {

namespace {

class FilesOrigin final : public Origin {
 public:
  FilesOrigin(std::vector<RowFile> files, std::string name)
      : files_(std::move(files)), name_(std::move(name)) {}

  const std::string& name() const override { return name_; }
  std::vector<SourcePart> parts() const override {
    std::vector<SourcePart> parts;
    for (const RowFile& file : files_) parts.push_back({[file] { return open_source(file); }, {}});
    return parts;
  }
  std::shared_ptr<const Table> table(const Spool& spool) const override {
    const auto lock = base::polled_lock(mutex_);
    std::string stamp = files_stamp(files_);
    if (table_ == nullptr || stamp != stamp_) {
      table_.reset();
      table_ = open_tables(files_, spool);
      stamp_ = std::move(stamp);
    }
    return table_;
  }

 private:
  const std::vector<RowFile> files_;
  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::string stamp_;
  mutable std::shared_ptr<const Table> table_;
};

class OnceOrigin final : public Origin {
 public:
  OnceOrigin(std::function<std::unique_ptr<Source>()> open, std::string name)
      : name_(std::move(name)), open_(std::move(open)) {}
  const std::string& name() const override { return name_; }
  std::vector<SourcePart> parts() const override { return {}; }
  std::shared_ptr<const Table> table(const Spool& spool) const override {
    const auto lock = base::polled_lock(mutex_);
    if (failed_) std::rethrow_exception(failed_);
    if (table_ != nullptr) return table_;
    try {
      if (source_ == nullptr) source_ = open_();
      table_ = spool_rows(*source_, spool, begun_);
    } catch (const Error& error) {
      if (error.status() == Status::cancelled) {
        if (begun_ == nullptr) {
          failed_ = cut_short();
          source_.reset();
        }
        throw;
      }
      failed_ = std::current_exception();
    } catch (...) {
      failed_ = std::current_exception();
    }
    begun_.reset();
    source_.reset();
    open_ = nullptr;
    if (failed_) std::rethrow_exception(failed_);
    return table_;
  }

 private:
  std::exception_ptr cut_short() const {
    return std::make_exception_ptr(Error(
        Status::io,
        fmt::format(
            "{}: a call that was cancelled has read a part of it, and it can be read once: open it again",
            name_)));
  }
  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::function<std::unique_ptr<Source>()> open_;
  mutable std::unique_ptr<Source> source_;
  mutable std::shared_ptr<const Table> begun_, table_;
  mutable std::exception_ptr failed_;
};

class MemoryOrigin final : public Origin {
 public:
  MemoryOrigin(std::string_view format, std::shared_ptr<const std::string> bytes, std::string name)
      : format_(format), bytes_(std::move(bytes)), name_(std::move(name)) {
    memory_format(format_);  // throws if it is unknown
  }
  const std::string& name() const override { return name_; }
  std::vector<SourcePart> parts() const override {
    return {
        {[format = format_, bytes = bytes_, name = name_] { return open_memory_source(format, bytes, name); },
         {}}};
  }
  std::shared_ptr<const Table> table(const Spool& spool) const override {
    const auto lock = base::polled_lock(mutex_);
    if (table_ == nullptr) table_ = open_memory_table(format_, bytes_, name_, spool);
    return table_;
  }

 private:
  const std::string format_;
  const std::shared_ptr<const std::string> bytes_;
  const std::string name_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Table> table_;
};

}  // namespace

std::unique_ptr<Source> Origin::source() const {
  std::vector<SourcePart> files = parts();
  if (files.empty()) return nullptr;
  if (files.size() == 1 && files.front().columns.empty()) return files.front().open();
  return chain_sources(std::move(files), name());
}

std::vector<std::unique_ptr<Source>> Origin::shards() const {
  std::vector<std::unique_ptr<Source>> out;
  for (SourcePart& file : parts()) out.push_back(chain_sources({std::move(file)}, name()));
  return out;
}

std::shared_ptr<const Origin> files_origin(std::vector<RowFile> files, std::string name) {
  if (std::ranges::none_of(files, [](const RowFile& file) { return io::is_read_once(file.path); }))
    return std::make_shared<FilesOrigin>(std::move(files), std::move(name));
  const auto open = [files = std::move(files), name] {
    std::vector<SourcePart> parts;
    for (const RowFile& file : files) parts.push_back({[file] { return open_source(file); }, {}});
    return chain_sources(std::move(parts), name);
  };
  return once_origin(open, std::move(name));
}

std::shared_ptr<const Origin> once_origin(std::function<std::unique_ptr<Source>()> open, std::string name) {
  return std::make_shared<OnceOrigin>(std::move(open), std::move(name));
}

std::shared_ptr<const Origin> memory_origin(std::string_view format, std::shared_ptr<const std::string> bytes,
                                            std::string name) {
  return std::make_shared<MemoryOrigin>(format, std::move(bytes), std::move(name));
}

}  // namespace trl::data
