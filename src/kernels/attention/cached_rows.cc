#include "kernels/attention/cached_rows.h"

#include <algorithm>
#include <unordered_map>

#include "kernels/op.h"

namespace trl::kernels {

CachedRows::CachedRows(at::ArrayRef<CachedRun> runs, int64_t heads, const CacheShape& shape,
                       at::Device device)
    : runs_(runs.begin(), runs.end()),
      heads_(heads),
      shape_(shape),
      layer_bytes_(cache_bytes(shape, device)) {
  size_t blocks = 0;
  for (const CachedRun& run : runs_) {
    check(run);
    rows_ += run.rows;
    blocks += run.blocks.size();
  }
  blocks_.reserve(blocks);
  for (size_t i = 0; i < runs_.size(); ++i) {
    char* const* const own = blocks_.data() + blocks_.size();
    for (const at::Tensor& block : runs_[i].blocks) blocks_.push_back(static_cast<char*>(block.data_ptr()));
    add_tasks(runs_[i], own, i + 1 < runs_.size() && goes_on(runs_[i], runs_[i + 1]));
  }
  sort_tasks();
}

void CachedRows::check(const CachedRun& run) const {
  const auto fits = [&](const at::Tensor& block) {
    return block.dim() == 2 && block.size(0) == runs_[0].blocks[0].size(0) && block.size(1) == layer_bytes_ &&
           block.element_size() == 1 && block.is_contiguous();
  };
  need(run.begin == rows_ && run.rows > 0 && run.position >= 0 &&
           std::ssize(run.blocks) * kCacheRows >= run.position + run.rows &&
           std::ranges::all_of(run.blocks, fits),
       "cached_attention", "runs of all rows in order, each with blocks [layers, bytes] of its positions");
}

// Whether the next run is of the same sequence: no other one has the block of this one's first row.
bool CachedRows::goes_on(const CachedRun& run, const CachedRun& next) {
  const auto block = static_cast<size_t>(run.position / kCacheRows);
  return next.position > run.position && block < next.blocks.size() &&
         next.blocks[block].data_ptr() == run.blocks[block].data_ptr();
}

// continued: the next run reads the keys of these rows.
void CachedRows::add_tasks(const CachedRun& run, char* const* blocks, bool continued) {
  for (int64_t row = 0, count; row < run.rows; row += count) {
    const int64_t position = run.position + row;
    count = std::min(run.rows - row, kCacheRows - position % kCacheRows);
    const Part part{run.begin + row, count, position, blocks};
    const int64_t most = std::clamp<int64_t>(kCacheRows / count, 1, group());
    const bool own = !continued && count == run.rows && most == group();
    if (!own) shared_.push_back(part);
    for (int64_t kv = 0; kv < shape_.kv_heads; ++kv)
      for (int64_t h = 0; h < group(); h += most)
        tasks_.push_back({part, kv * group() + h, std::min(most, group() - h), own});
  }
}

void CachedRows::sort_tasks() {
  const auto cost = [](const Task& task) { return task.part.position + task.part.rows * task.heads; };
  // The sequences that begin with one block count as its longest.
  std::unordered_map<const char*, int64_t> longest;
  for (const Task& task : tasks_) {
    int64_t& most = longest[task.part.blocks[0]];
    most = std::max(most, cost(task));
  }
  struct Place {
    int64_t most;
    const char* first;
    int64_t kv, cost;
    size_t task;
  };
  std::vector<Place> order;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const char* const first = tasks_[i].part.blocks[0];
    order.push_back({longest[first], first, tasks_[i].head / group(), cost(tasks_[i]), i});
  }
  std::ranges::sort(order, [](const Place& a, const Place& b) {
    return std::tuple(-a.most, a.first, a.kv, -a.cost, a.task) <
           std::tuple(-b.most, b.first, b.kv, -b.cost, b.task);
  });
  std::vector<Task> sorted;
  for (const Place& place : order) sorted.push_back(tasks_[place.task]);
  tasks_ = std::move(sorted);
}

}  // namespace trl::kernels
