// Shuffles and splits are those of datasets: numpy's permutation.
#include "data/source/derived_origin.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "base/text/number.h"
#include "data/source/numpy_shuffle.h"

namespace trl::data {

namespace {

class PartsOrigin final : public DerivedOrigin {
 public:
  PartsOrigin(std::vector<std::shared_ptr<const Origin>> bases, std::vector<config::SplitPart> parts,
              std::string key)
      : DerivedOrigin(std::move(bases)), parts_(std::move(parts)), key_(std::move(key)) {}

  const std::string& name() const override { return key_; }
  std::vector<SourcePart> parts() const override {
    std::vector<SourcePart> all;
    for (size_t i = 0; i < parts_.size(); ++i) {
      std::vector<SourcePart> parts = bases_[i]->parts();
      if (parts_[i].sliced() || parts.empty()) return {};
      std::move(parts.begin(), parts.end(), std::back_inserter(all));
    }
    return all;
  }

 private:
  std::shared_ptr<const Table> derive(
      const std::vector<std::shared_ptr<const Table>>& tables) const override {
    std::vector<Part> taken;
    std::vector<std::string> sizes;
    int64_t rows = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const config::RowRange range = config::rows_of(key_, parts_[i], tables[i]->size());
      taken.push_back({tables[i], range.to - range.from, {}, range.from});
      rows += taken.back().take;
      sizes.push_back(fmt::format("'{}' has {}", parts_[i].name, tables[i]->size()));
    }
    if (rows == 0) fail_key(key_, "{}: the split keeps no row: {}", key_, fmt::join(sizes, ", "));
    return concatenate(std::move(taken));
  }

  const std::vector<config::SplitPart> parts_;
  const std::string key_;
};

using config::DatasetArguments;
using config::DatasetEntry;
using config::Mixing;

std::vector<uint32_t> permutation(std::string_view key, uint64_t seed, const Table& table) {
  if (table.size() > UINT32_MAX)
    fail(Status::unsupported, "{}: {} rows cannot be shuffled; at most {} can", key, table.size(),
         UINT32_MAX);
  return numpy_permutation<uint32_t>(seed, table.size());
}

class MixtureOrigin final : public DerivedOrigin {
 public:
  MixtureOrigin(std::vector<std::shared_ptr<const Origin>> bases, const DatasetArguments& arguments,
                std::vector<DatasetEntry> entries, base::LogSink& log)
      : DerivedOrigin(std::move(bases)),
        key_(arguments.key),
        entries_(std::move(entries)),
        mixing_(arguments.mixing),
        seed_(arguments.seed),
        log_(log) {}

  const std::string& name() const override { return key_; }
  std::vector<SourcePart> parts() const override {
    std::vector<SourcePart> all;
    for (size_t i = 0; i < entries_.size(); ++i) {
      std::vector<SourcePart> parts = bases_[i]->parts();
      if (mixing_ != Mixing::fractions || entries_[i].share || parts.empty()) return {};
      for (SourcePart& part : parts) all.push_back({std::move(part.open), entries_[i].columns});
    }
    return all;
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
    tell_emptied(tables, parts);
    std::shared_ptr<const Table> all = concatenate(std::move(parts));
    return mixing_ == Mixing::fractions ? all : select_rows(all, permutation(key_, seed_, *all));
  }

  // Warns of every dataset that gives no row; throws if no dataset gives a row although some have rows.
  void tell_emptied(const std::vector<std::shared_ptr<const Table>>& tables,
                    const std::vector<Part>& parts) const {
    constexpr std::array<std::string_view, 3> kShares = {"fraction", "weight", "share"};
    std::vector<std::string> lines;
    bool any_rows = false;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Table& table = *tables[i];
      any_rows = any_rows || table.size() > 0;
      if (parts[i].take > 0) continue;
      lines.push_back(table.size() == 0
                          ? fmt::format("{} holds no rows", table.name())
                          : fmt::format("{}: {} {} of {} keeps none", table.name(),
                                        kShares[static_cast<size_t>(mixing_)], *entries_[i].share,
                                        base::quantity(table.size(), "row")));
    }
    if (any_rows && lines.size() == parts.size()) fail_key(key_, "{}: {}", key_, fmt::join(lines, "; "));
    for (const std::string& line : lines) log_.warning("data", "{}: {}", key_, line);
  }

  double weight_of(size_t i) const {
    double sum = 0;
    for (const DatasetEntry& entry : entries_) sum += entry.share.value_or(0);
    return *entries_[i].share / sum;
  }
  // Returns the most rows that all datasets together can give in these shares.
  double largest_mixture(const std::vector<std::shared_ptr<const Table>>& tables) const {
    double whole = INFINITY;
    for (size_t i = 0; i < tables.size(); ++i)
      if (entries_[i].share && weight_of(i) > 0)
        whole = std::min(whole, static_cast<double>(tables[i]->size()) / weight_of(i));
    return whole;
  }

  const std::string key_;
  const std::vector<DatasetEntry> entries_;
  const Mixing mixing_;
  const uint64_t seed_;
  base::LogSink& log_;
};

// datasets' train_test_split: the first rows of a permutation are the test rows.
class SplitOrigin final : public DerivedOrigin {
 public:
  SplitOrigin(std::shared_ptr<const Origin> base, double size, uint64_t seed, bool test)
      : DerivedOrigin({std::move(base)}), test_split_size_(size), seed_(seed), test_(test) {}

  const std::string& name() const override { return bases_.front()->name(); }
  std::vector<SourcePart> parts() const override { return {}; }

 private:
  std::shared_ptr<const Table> derive(
      const std::vector<std::shared_ptr<const Table>>& tables) const override {
    const Table& all = *tables.front();
    const double rows = static_cast<double>(all.size());
    const double test = test_split_size_ < 1 ? std::ceil(test_split_size_ * rows) : test_split_size_;
    if (test >= rows) {
      throw Error(Status::invalid_config,
                  fmt::format("test_split_size: {} of {} leaves none to train on ({})", test_split_size_,
                              base::quantity(all.size(), "row"), all.name()),
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

}  // namespace

std::shared_ptr<const Origin> parts_origin(std::vector<std::shared_ptr<const Origin>> bases,
                                           std::vector<config::SplitPart> parts, std::string key) {
  if (parts.size() == 1 && !parts.front().sliced()) return std::move(bases.front());
  return std::make_shared<PartsOrigin>(std::move(bases), std::move(parts), std::move(key));
}

std::shared_ptr<const Origin> mixture_origin(std::vector<std::shared_ptr<const Origin>> bases,
                                             const DatasetArguments& arguments,
                                             std::vector<DatasetEntry> entries, base::LogSink& log) {
  return std::make_shared<MixtureOrigin>(std::move(bases), arguments, std::move(entries), log);
}

std::shared_ptr<const Origin> split_origin(std::shared_ptr<const Origin> base, double size, uint64_t seed,
                                           bool test) {
  return std::make_shared<SplitOrigin>(std::move(base), size, seed, test);
}

}  // namespace trl::data
