// Tensors as DLPack has them. Included by trl/trl.hpp.
#ifndef TRL_CPP_TENSOR_HPP
#define TRL_CPP_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>
#if defined(__STDCPP_BFLOAT16_T__)
#include <stdfloat>
#endif

#include "core.hpp"

namespace trl {
inline namespace cpp {

namespace detail {

// The layout of DLManagedTensorVersioned, version 1, which a program may have from DLPack's own header: what
// is there is therefore copied to be read.
struct ManagedTensor {
  std::uint32_t major, minor;
  void* context;
  void (*deleter)(DLManagedTensorVersioned* self);
  std::uint64_t flags;
  void* data;
  std::int32_t device, device_id;  // device 1: the host
  std::int32_t ndim;
  std::uint8_t code, bits;
  std::uint16_t lanes;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};
constexpr std::uint64_t kReadOnlyTensor = 1;

inline ManagedTensor look(const DLManagedTensorVersioned* tensor) noexcept {
  ManagedTensor copy;
  std::memcpy(&copy, static_cast<const void*>(tensor), sizeof copy);
  return copy;
}

inline void free_tensor(DLManagedTensorVersioned* tensor) {
  if (tensor == nullptr) return;
  const ManagedTensor managed = look(tensor);
  if (managed.deleter != nullptr) managed.deleter(tensor);
}

// Memory for a DLManagedTensorVersioned.
class TensorStruct {
 public:
  void set(const ManagedTensor& tensor) noexcept { std::memcpy(bytes_, &tensor, sizeof tensor); }
  DLManagedTensorVersioned* get() noexcept {
    return static_cast<DLManagedTensorVersioned*>(static_cast<void*>(bytes_));
  }

 private:
  alignas(ManagedTensor) unsigned char bytes_[sizeof(ManagedTensor)];
};

// A tensor for a function that takes one over: its owner keeps it.
class LentTensor {
 public:
  explicit LentTensor(const DLManagedTensorVersioned* tensor) noexcept : given_(tensor != nullptr) {
    if (!given_) return;
    ManagedTensor managed = look(tensor);
    managed.deleter = nullptr;
    lent_.set(managed);
  }
  DLManagedTensorVersioned* get() noexcept { return given_ ? lent_.get() : nullptr; }

 private:
  bool given_;
  TensorStruct lent_;
};

// DLPack's code of a type of numbers.
template <class Number>
struct Code : std::integral_constant<std::uint8_t, std::is_same<Number, bool>::value       ? 6
                                                   : std::is_floating_point<Number>::value ? 2
                                                   : std::is_signed<Number>::value         ? 0
                                                                                           : 1> {
  static_assert(std::is_arithmetic<Number>::value, "a tensor has numbers");
};
#if defined(__STDCPP_BFLOAT16_T__)
template <>
struct Code<std::bfloat16_t> : std::integral_constant<std::uint8_t, 4> {};
#endif

inline std::string dtype_name(unsigned code, unsigned bits) {
  static const char* const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex"};
  if (code == 6 && bits == 8) return "bool";
  const bool known = code < sizeof kinds / sizeof kinds[0];
  return (known ? kinds[code] : "dlpack" + std::to_string(code) + "_") + std::to_string(bits);
}

inline std::size_t count_of(View<std::int64_t> shape) {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) {
    const auto size = static_cast<std::size_t>(extent);
    if (extent < 0 || (size != 0 && count > std::numeric_limits<std::size_t>::max() / size))
      throw std::invalid_argument("a tensor cannot have an extent of " + std::to_string(extent));
    count *= size;
  }
  return count;
}

inline std::vector<std::int64_t> strides_of(View<std::int64_t> shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape.data()[i];
  return strides;
}

// A tensor of the host, with its numbers.
template <class Numbers>
struct HostTensor {
  using Element = typename std::remove_pointer<decltype(std::declval<Numbers&>().data())>::type;
  using Number = typename std::remove_const<Element>::type;

  HostTensor(Numbers&& given, std::vector<std::int64_t>&& extents, const std::string& dtype)
      : numbers(std::move(given)), shape(std::move(extents)), strides(strides_of(shape)) {
    ManagedTensor managed = ManagedTensor();
    managed.major = 1;
    managed.context = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      delete static_cast<HostTensor*>(look(self).context);
    };
    managed.flags = std::is_const<Element>::value ? kReadOnlyTensor : 0;
    managed.data = const_cast<Number*>(numbers.data());
    managed.device = 1;
    managed.ndim = static_cast<std::int32_t>(shape.size());
    managed.bits = 8 * sizeof(Number);
    managed.code = code_of(dtype, managed.bits);
    managed.lanes = 1;
    managed.shape = shape.data();
    managed.strides = strides.data();
    tensor.set(managed);
    if (numbers.size() != count_of(shape))
      throw std::invalid_argument("a tensor of " + std::to_string(count_of(shape)) + " numbers was given " +
                                  std::to_string(numbers.size()));
  }
  HostTensor(const HostTensor&) = delete;
  HostTensor& operator=(const HostTensor&) = delete;

  static std::uint8_t code_of(const std::string& dtype, unsigned bits) {
    if (dtype.empty()) return Code<Number>::value;
    for (std::uint8_t code = 0; code < 7; ++code)
      if (dtype_name(code, bits) == dtype) return code;
    throw std::invalid_argument("numbers of " + std::to_string(bits) + " bits cannot be " + dtype);
  }

  Numbers numbers;
  std::vector<std::int64_t> shape, strides;
  TensorStruct tensor;
};

}  // namespace detail

// Numbers with a shape, in memory of the library or of the host. get() and release() give it to all that
// takes DLPack, and the constructor of a pointer takes one of DLPack over.
class Tensor : public detail::Handle<DLManagedTensorVersioned, detail::free_tensor> {
 public:
  using Handle::Handle;
  Tensor() noexcept = default;
  // numbers, row by row, is kept: a vector that is moved in, or a View or std::span of memory that lives
  // longer. dtype is that of its elements, or the one whose bits they are: "bfloat16" of std::uint16_t.
  template <class Numbers>
  Tensor(Numbers numbers, std::vector<std::int64_t> shape, const std::string& dtype = std::string()) {
    auto* made = new detail::HostTensor<Numbers>(std::move(numbers), std::move(shape), dtype);
    reset(made->tensor.get());
  }

  View<std::int64_t> shape() const noexcept {
    const detail::ManagedTensor tensor = look();
    return View<std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.ndim));
  }
  std::size_t size() const { return get() ? detail::count_of(shape()) : 0; }          // how many numbers
  std::string dtype() const { return detail::dtype_name(look().code, look().bits); }  // "float32", "bfloat16"
  std::int32_t device() const noexcept { return look().device; }  // as DLPack counts them; 1: the host
  bool read_only() const noexcept { return (look().flags & detail::kReadOnlyTensor) != 0; }
  const void* data() const noexcept {
    const detail::ManagedTensor tensor = look();
    return static_cast<const char*>(tensor.data) + tensor.byte_offset;
  }
  // The numbers, row by row. An unsigned Number is also taken for the bits of any type of its size.
  template <class Number>
  View<Number> values() const {
    const detail::ManagedTensor tensor = look();
    const bool fits = tensor.lanes == 1 && tensor.bits == 8 * sizeof(Number) &&
                      (tensor.code == detail::Code<Number>::value || std::is_unsigned<Number>::value);
    if (!fits || tensor.device != 1 || !is_contiguous())
      throw std::invalid_argument("a tensor of " + dtype() + " on device " + std::to_string(tensor.device) +
                                  (is_contiguous() ? "" : ", with strides,") + " is not read as " +
                                  detail::dtype_name(detail::Code<Number>::value, 8 * sizeof(Number)));
    return View<Number>(static_cast<const Number*>(data()), size());
  }

 private:
  detail::ManagedTensor look() const noexcept {
    return get() ? detail::look(get()) : detail::ManagedTensor();
  }
  bool is_contiguous() const {
    const std::int64_t* strides = look().strides;
    const std::vector<std::int64_t> expected = detail::strides_of(shape());
    for (std::size_t i = 0; strides != nullptr && i < expected.size(); ++i)
      if (shape().data()[i] > 1 && strides[i] != expected[i]) return false;
    return true;
  }
};

}  // namespace cpp
}  // namespace trl

#endif  // TRL_CPP_TENSOR_HPP
