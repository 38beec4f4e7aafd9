// Conversion of stored weights, in pieces over all threads, and the way of mapped files through memory.
#pragma once
#include <ATen/ATen.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/arithmetic/bfloat16.h"
#include "base/files/files.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

// Elements converted at once, on the stack; a multiple of every block.
inline constexpr int64_t kBuffer = 4096;

// Calls body(begin, end) for ranges of the `rows` rows of a mapped tensor. The next one is fetched meanwhile,
// and each leaves memory after it has been read, so that no file is in memory together with the values made
// from it.
template <typename Body>
void by_stretch(const void* data, size_t bytes, int64_t rows, const Body& body) {
  constexpr int64_t kStretch = int64_t{8} << 20;
  if (rows == 0 || tensor::Rehearsal::current() != nullptr) return;
  const int64_t size = static_cast<int64_t>(bytes) / rows;
  const int64_t at_once = std::max<int64_t>(1, kStretch / std::max<int64_t>(1, size));
  const auto part = [&](int64_t begin) {
    const int64_t count = std::clamp<int64_t>(rows - begin, 0, at_once);
    return std::string_view(static_cast<const char*>(data) + begin * size, static_cast<size_t>(count * size));
  };
  base::MappedFile::fetch(part(0));
  for (int64_t begin = 0; begin < rows; begin += at_once) {
    if (begin + at_once < rows) base::MappedFile::fetch(part(begin + at_once));
    body(begin, std::min(rows, begin + at_once));
    base::MappedFile::drop(part(begin));
  }
}

// Brings a tensor of a host's file into memory. A rehearsal reads only small ones, which may say how others
// are stored.
inline void read_host(std::string_view stored) {
  constexpr size_t kSmall = size_t{64} << 10;
  if (stored.size() <= kSmall || tensor::Rehearsal::current() == nullptr) base::MappedFile::need(stored);
}

inline std::string_view stretch_of(std::string_view stored, int64_t first, int64_t bytes) {
  return stored.substr(static_cast<size_t>(first), static_cast<size_t>(bytes));
}

// Fills rows first to last of out. read(first, count, float*) for pieces of each row; row_of(i): the source
// row of row i.
template <typename Read, typename RowOf>
void convert(at::Tensor& out, int64_t width, int64_t first, int64_t last, const Read& read,
             const RowOf& row_of) {
  const bool narrow = out.scalar_type() == at::kBFloat16;
  void* data = out.data_ptr();
  tensor::parallel_for(last - first, std::max<int64_t>(1, 65536 / std::max<int64_t>(1, width)),
                       [&](int64_t begin, int64_t end) {
                         float piece[kBuffer];
                         for (int64_t row = first + begin; row < first + end; ++row) {
                           for (int64_t at = 0; at < width; at += kBuffer) {
                             const int64_t count = std::min(kBuffer, width - at);
                             const int64_t from = row_of(row) * width + at;
                             const int64_t to = row * width + at;
                             if (!narrow) {
                               read(from, count, static_cast<float*>(data) + to);
                               continue;
                             }
                             read(from, count, piece);
                             uint16_t* bits = static_cast<uint16_t*>(data) + to;
                             for (int64_t i = 0; i < count; ++i) bits[i] = base::to_bf16(piece[i]).bits;
                           }
                         }
                       });
}

inline int64_t row_count(const std::vector<int64_t>& shape) { return shape.size() > 1 ? shape.front() : 1; }

}  // namespace trl::model
