// What a configuration names, by the rules of those who write it so: TRL's datasets (get_dataset), open-r1's
// dataset_mixture and alignment-handbook's dataset_mixer. Shuffles and splits are those of datasets: numpy's
// permutation.
#include <cmath>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "config/local_path.h"
#include "data/numpy_shuffle.h"
#include "data/origin.h"

namespace trl::data {

namespace {

using config::DatasetArguments;
using config::DatasetEntry;
using config::Mixing;

std::vector<uint32_t> permutation(std::string_view key, uint64_t seed, const Table& table) {
  if (table.size() > UINT32_MAX)
    fail(Status::unsupported, "{}: {} rows cannot be shuffled; at most {} can", key, table.size(),
         UINT32_MAX);
  return numpy_permutation<uint32_t>(seed, table.size());
}

// An origin made of others: its table is made anew when one of theirs is.
class DerivedOrigin : public Origin {
 public:
  explicit DerivedOrigin(std::vector<std::shared_ptr<const Origin>> bases) : bases_(std::move(bases)) {}
  std::unique_ptr<Source> source() const override { return nullptr; }
  std::shared_ptr<const Table> table(const Spool& spool) const final {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<const Table>> tables;
    for (const auto& base : bases_) tables.push_back(base->table(spool));
    if (table_ == nullptr || tables != tables_) {
      table_.reset();
      table_ = derive(tables);
      tables_ = std::move(tables);
    }
    return table_;
  }

 protected:
  const std::vector<std::shared_ptr<const Origin>> bases_;

 private:
  virtual std::shared_ptr<const Table> derive(
      const std::vector<std::shared_ptr<const Table>>& tables) const = 0;

  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const Table>> tables_;
  mutable std::shared_ptr<const Table> table_;
};

class MixtureOrigin final : public DerivedOrigin {
 public:
  MixtureOrigin(std::vector<std::shared_ptr<const Origin>> bases, const DatasetArguments& arguments)
      : DerivedOrigin(std::move(bases)),
        key_(arguments.key),
        entries_(arguments.entries),
        mixing_(arguments.mixing),
        seed_(arguments.seed) {}

  std::unique_ptr<Source> source() const override {
    std::vector<SourcePart> parts;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (mixing_ != Mixing::fractions || entries_[i].share) return nullptr;
      parts.push_back({[base = bases_[i]] { return base->source(); }, entries_[i].columns});
    }
    return chain_sources(std::move(parts), key_);
  }

 private:
  std::shared_ptr<const Table> derive(
      const std::vector<std::shared_ptr<const Table>>& tables) const override {
    const double whole = mixing_ == Mixing::fractions ? largest_mixture(tables) : 0;
    std::vector<Part> parts;
    for (size_t i = 0; i < tables.size(); ++i) {
      const DatasetEntry& entry = entries_[i];
      const auto size = static_cast<double>(tables[i]->size());
      Part& part = parts.emplace_back(Part{tables[i], tables[i]->size(), entry.columns});
      if (!entry.share) continue;
      // Half to even, as Python's round; its int cuts off.
      part.take = static_cast<int64_t>(mixing_ == Mixing::fractions ? std::nearbyint(weight_of(i) * whole)
                                                                    : size * *entry.share);
      if (mixing_ != Mixing::weights) continue;
      std::vector<uint32_t> rows = permutation(key_, seed_, *tables[i]);
      rows.resize(static_cast<size_t>(part.take));
      rows.shrink_to_fit();
      part.table = select_rows(tables[i], std::move(rows));
    }
    std::shared_ptr<const Table> all = concatenate(std::move(parts));
    return mixing_ == Mixing::fractions ? all : select_rows(all, permutation(key_, seed_, *all));
  }

  double weight_of(size_t i) const {
    double sum = 0;
    for (const DatasetEntry& entry : entries_) sum += entry.share.value_or(0);
    return *entries_[i].share / sum;
  }
  // The most rows that all datasets together can give in these shares.
  double largest_mixture(const std::vector<std::shared_ptr<const Table>>& tables) const {
    double whole = INFINITY;
    for (size_t i = 0; i < tables.size(); ++i) {
      if (entries_[i].share && weight_of(i) > 0)
        whole = std::min(whole, static_cast<double>(tables[i]->size()) / weight_of(i));
    }
    return whole;
  }

  const std::string key_;
  const std::vector<DatasetEntry> entries_;
  const Mixing mixing_;
  const uint64_t seed_;
};

// datasets' train_test_split: the first rows of a permutation are the test rows.
class SplitOrigin final : public DerivedOrigin {
 public:
  SplitOrigin(std::shared_ptr<const Origin> base, double size, uint64_t seed, bool test)
      : DerivedOrigin({std::move(base)}), test_split_size_(size), seed_(seed), test_(test) {}

 private:
  std::shared_ptr<const Table> derive(
      const std::vector<std::shared_ptr<const Table>>& tables) const override {
    const Table& all = *tables.front();
    const double rows = static_cast<double>(all.size());
    const double test = test_split_size_ < 1 ? std::ceil(test_split_size_ * rows) : test_split_size_;
    if (test >= rows) {
      throw Error(Status::invalid_config,
                  fmt::format("test_split_size: {} of {} rows leaves none to train on ({})", test_split_size_,
                              all.size(), all.name()),
                  "test_split_size");
    }
    std::vector<uint32_t> order = permutation("test_split_size", seed_, all);
    const auto cut = order.begin() + static_cast<int64_t>(test);
    return select_rows(tables.front(),
                       test_ ? std::vector(order.begin(), cut) : std::vector(cut, order.end()));
  }

  const double test_split_size_;
  const uint64_t seed_;
  const bool test_;
};

std::shared_ptr<const Origin> open_entry(std::string_view key, const DatasetEntry& entry,
                                         base::LogSink& log) {
  const std::optional<FileFormat> format = loader_format(entry.path);
  std::string folder = format ? "" : entry.path;
  if (!entry.data_dir.empty()) folder = base::join_path(folder, entry.data_dir);
  std::vector<std::string> paths;
  for (const std::string& file : entry.data_files) paths.push_back(base::join_path(folder, file));
  if (paths.empty()) {
    if (folder.empty())
      fail_key(key, "{}: {} is a loader, which needs data_files or data_dir", key, entry.path);
    paths.push_back(folder);
  }
  std::vector<RowFile> files;
  for (const std::string& path : paths) {
    const bool glob = !base::file_exists(path) && path.find_first_of("*?[") != std::string::npos;
    if (!glob) config::check_local_path(key, path);
    for (RowFile& file : find_files(path, entry.split, format)) files.push_back(std::move(file));
    if (entry.split != "train" && entry.split != "test" && entry.data_files.empty() &&
        !base::is_directory(path))
      log.warning("data", "{}: the split '{}' selects nothing of {}: it is read whole", key, entry.split,
                  path);
  }
  return files_origin(std::move(files), paths.front());
}

}  // namespace

OpenedRows open_rows(const DatasetArguments& arguments, base::LogSink& log) {
  for (const std::string& warning : arguments.warnings) log.warning("data", "{}", warning);
  std::vector<std::shared_ptr<const Origin>> origins;
  for (const DatasetEntry& entry : arguments.entries)
    origins.push_back(open_entry(arguments.key, entry, log));
  OpenedRows opened;
  opened.train = arguments.key == "dataset_name"
                     ? std::move(origins.front())
                     : std::make_shared<MixtureOrigin>(std::move(origins), arguments);
  if (arguments.test_split_size) {
    const auto all = std::move(opened.train);
    const auto part = [&](bool test) {
      return std::make_shared<SplitOrigin>(all, *arguments.test_split_size, arguments.split_seed, test);
    };
    opened.train = part(false);
    opened.eval = part(true);
  }
  if (arguments.eval) opened.eval = open_entry("eval_dataset_name", *arguments.eval, log);
  if (arguments.eval_split && names_split(arguments.eval_split->path, arguments.eval_split->split))
    opened.eval = open_entry(arguments.key, *arguments.eval_split, log);
  return opened;
}

}  // namespace trl::data
