// See split_origin.h.
#include "data/source/split_origin.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "data/source/derived_origin.h"

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

}  // namespace

std::shared_ptr<const Origin> parts_origin(std::vector<std::shared_ptr<const Origin>> bases,
                                           std::vector<config::SplitPart> parts, std::string key) {
  if (parts.size() == 1 && !parts.front().sliced()) return std::move(bases.front());
  return std::make_shared<PartsOrigin>(std::move(bases), std::move(parts), std::move(key));
}

}  // namespace trl::data
