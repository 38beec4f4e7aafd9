#include "kernels/head/head_rows.h"

#include <algorithm>

namespace trl::kernels {

namespace {

class PatchedHead final : public tensor::Encoded {
 public:
  PatchedHead(Parameter& head, const OwnRows& own, at::ScalarType type)
      : Encoded(head.shape().vec()),
        encoded_(head.encoded()),
        table_(encoded_ == nullptr ? std::optional(head.read_either(type, &convert)) : std::nullopt),
        rows_(own.rows->read()) {
    for (size_t i = 0; i < own.ids.size(); ++i) places_.emplace_back(own.ids[i], static_cast<int64_t>(i));
    std::sort(places_.begin(), places_.end());
  }

  std::string form() const override { return "a table with rows of an adapter"; }
  int64_t unit() const override { return encoded_ != nullptr ? encoded_->unit() : 1; }
  void decode(const tensor::Part2d& part, at::ScalarType type, void* to,
              int64_t stride) const noexcept override {
    const auto copy = [&](const at::Tensor& from, int64_t from_row, int64_t row) {
      cpu().convert(
          at_byte(from, from_row * width() + part.column), type_of(from),
          static_cast<char*>(to) + (row - part.row) * stride * static_cast<int64_t>(c10::elementSize(type)),
          type_of(type), part.columns);
    };
    if (encoded_ != nullptr) {
      encoded_->decode(part, type, to, stride);
    } else {
      for (int64_t row = part.row; row < part.row + part.rows; ++row) copy(**table_, row, row);
    }
    auto place = std::lower_bound(places_.begin(), places_.end(), std::pair<int64_t, int64_t>(part.row, 0));
    for (; place != places_.end() && place->first < part.row + part.rows; ++place)
      copy(*rows_, place->second, place->first);
  }

 private:
  const tensor::Encoded* const encoded_;  // instead of table_
  const std::optional<tensor::Reading> table_;
  const tensor::Reading rows_;
  std::vector<std::pair<int64_t, int64_t>> places_;  // row of the head, row of the adapter's
};

}  // namespace

std::unique_ptr<const tensor::Encoded> with_own_rows(Parameter& head, const OwnRows& own,
                                                     at::ScalarType type) {
  return std::make_unique<PatchedHead>(head, own, type);
}

}  // namespace trl::kernels
