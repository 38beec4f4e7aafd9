#include "kernels/attention/tree_rows.h"

#include <numeric>

#include "kernels/op.h"

namespace trl::kernels {

namespace {

constexpr size_t kReadable = 64;  // positions after the last that may be read

}  // namespace

void check_order(const Segments& segments) {
  const std::vector<int32_t>& prefix = segments.prefix;
  std::vector<int32_t> path;  // segments from the root to the previous one
  for (size_t i = 0; i < prefix.size(); ++i) {
    while (!path.empty() && path.back() != prefix[i]) path.pop_back();
    if (prefix[i] != -1 && path.empty()) {
      fail(Status::invalid_argument,
           "segment {} of a batch continues segment {}: the one before it, one that this continues, or -1 "
           "(none) is accepted",
           i, prefix[i]);
    }
    path.push_back(static_cast<int32_t>(i));
  }
}

TreeRows::TreeRows(const Segments& segments) {
  const std::vector<int32_t>& cu = segments.cu_seqlens;
  const size_t count = cu.size() - 1;
  const bool trees = std::ranges::any_of(segments.prefix, [](int32_t p) { return p != -1; });
  if (!trees && segments.padding.empty()) {
    starts.assign(cu.begin(), cu.end());
    return;
  }
  const std::vector<int32_t> prefix =
      segments.prefix.empty() ? std::vector<int32_t>(count, -1) : segments.prefix;
  std::vector<int32_t> ends(cu.begin() + 1, cu.end()), depth(count, 0), tree(count);  // one for each segment
  for (size_t i = count; i-- > 0;) {
    if (prefix[i] < 0) continue;
    int32_t& end = ends[static_cast<size_t>(prefix[i])];
    end = std::max(end, ends[i]);
  }
  until.resize(static_cast<size_t>(cu.back()));
  position.resize(until.size() + kReadable);
  for (size_t i = 0; i < count; ++i) {
    const auto above = static_cast<size_t>(prefix[i]);
    if (prefix[i] < 0) {
      tree[i] = cu[i];
      starts.push_back(cu[i]);
    } else {
      tree[i] = tree[above];
      depth[i] = depth[above] + cu[above + 1] - cu[above];
    }
    const int32_t seen = cu[i + 1] - (segments.padding.empty() ? 0 : segments.padding[i]);
    std::fill(until.begin() + cu[i], until.begin() + seen, ends[i] - tree[i]);
    std::iota(until.begin() + seen, until.begin() + cu[i + 1], seen - tree[i]);
    std::iota(position.begin() + cu[i], position.begin() + cu[i + 1], depth[i]);
  }
  starts.push_back(cu.back());
}

}  // namespace trl::kernels
