// Tensors that this program and its peer compute with, as plain files.
#pragma once
#include <ATen/ATen.h>

#include <fstream>
#include <stdexcept>
#include <string>

namespace trl::bench {

inline void write_tensor(const std::string& path, const at::Tensor& x) {
  std::ofstream out(path, std::ios::binary);
  out.write(static_cast<const char*>(x.contiguous().data_ptr()), static_cast<std::streamsize>(x.nbytes()));
  if (!out.flush()) throw std::runtime_error(path + ": cannot be written");
}

// The first rows of what is there.
inline at::Tensor read_tensor(const std::string& path, at::IntArrayRef sizes, at::ScalarType type) {
  at::Tensor x = at::empty(sizes, type);
  std::ifstream in(path, std::ios::binary);
  if (!in.read(static_cast<char*>(x.data_ptr()), static_cast<std::streamsize>(x.nbytes())))
    throw std::runtime_error(path + ": too short");
  return x;
}

// N(0, size), bfloat16, always the same.
inline at::Tensor random_tensor(at::IntArrayRef sizes, uint64_t seed, double size) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::randn(sizes, generator, at::TensorOptions().dtype(at::kFloat)).mul_(size).to(at::kBFloat16);
}

inline double norm_of(const at::Tensor& x) { return x.detach().to(at::kDouble).norm().item<double>(); }

}  // namespace trl::bench
