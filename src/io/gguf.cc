// Layout (ggml's gguf specification, versions 2 and 3): magic, version, counts, key-value pairs, tensor
// infos, padding to general.alignment, data. Every count is compared with the remaining bytes before anything
// is allocated for it.
#include "io/gguf.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text/nearest.h"
#include "base/text/utf8.h"
#include "io/gguf_types.h"
#include "io/safetensors.h"

namespace trl::io {

namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kMaxAlignment = 1 << 20;

class Reader {
 public:
  Reader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}
  size_t position() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }

  std::string_view take(uint64_t count, std::string_view what) {
    if (count > left()) {
      fail(Status::format, "{}: truncated: {} at byte {} needs {} bytes, {} are left", Place::in(path_), what,
           at_, count, left());
    }
    const std::string_view part = bytes_.substr(at_, count);
    at_ += count;
    if (at_ > here_) {
      base::MappedFile::need(bytes_.substr(here_, std::max<size_t>(at_ - here_, kAtOnce)));
      here_ = std::min(bytes_.size(), std::max(at_, here_ + kAtOnce));
    }
    return part;
  }
  template <typename T>
  T read(std::string_view what) {
    T value;
    std::memcpy(&value, take(sizeof(T), what).data(), sizeof(T));
    return value;
  }
  std::string_view string(std::string_view what) { return take(read<uint64_t>(what), what); }
  // Reads a key or a tensor name: they appear in messages, so they must be text.
  std::string name(std::string_view what) {
    const std::string_view text = string(what);
    const bool printable =
        std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 32; });
    if (!printable || base::find_invalid_utf8(text) != base::kValid)
      fail(Status::format, "{}: {} before byte {} is not text", Place::in(path_), what, at_);
    return std::string(text);
  }
  // Checks a count of things that take at least min_bytes each.
  uint64_t count(uint64_t value, uint64_t min_bytes, std::string_view what) const {
    if (value > left() / min_bytes) {
      fail(Status::format, "{}: truncated: {} {} cannot lie in the {} bytes that are left", Place::in(path_),
           value, what, left());
    }
    return value;
  }

 private:
  static constexpr size_t kAtOnce = size_t{1} << 18;  // of a host's file

  std::string_view bytes_;
  const std::string& path_;
  size_t at_ = 0;
  size_t here_ = 0;  // the end of what was needed of a host's file
};

// Calls body with a value of the number's type; false: the type is not that of a number.
template <typename Body>
bool with_number(uint32_t type, const Body& body) {
  switch (type) {
    case kU8:
      return body(uint8_t{}), true;
    case kI8:
      return body(int8_t{}), true;
    case kU16:
      return body(uint16_t{}), true;
    case kI16:
      return body(int16_t{}), true;
    case kU32:
      return body(uint32_t{}), true;
    case kI32:
      return body(int32_t{}), true;
    case kU64:
      return body(uint64_t{}), true;
    case kI64:
      return body(int64_t{}), true;
    case kF32:
      return body(float{}), true;
    case kF64:
      return body(double{}), true;
    default:
      return false;
  }
}

// The widest type of a kind of numbers; in arrays, unsigned ones are signed too.
template <typename T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double,
                                std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>>;
template <typename T>
using WideItem = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

template <typename T>
std::vector<WideItem<T>> read_numbers(Reader& reader, uint64_t count, const std::string& key,
                                      const std::string& path) {
  std::vector<WideItem<T>> values;
  values.reserve(reader.count(count, sizeof(T), "array items"));
  for (uint64_t i = 0; i < count; ++i) {
    const T value = reader.read<T>(key);
    if constexpr (std::is_same_v<T, uint64_t>) {
      if (value > static_cast<uint64_t>(INT64_MAX))
        fail(Status::format, "{}: {}: item {} is larger than 2^63 - 1", Place::in(path), key, i);
    }
    values.push_back(static_cast<WideItem<T>>(value));
  }
  return values;
}

GgufValue read_array(Reader& reader, const std::string& key, const std::string& path) {
  const uint32_t type = reader.read<uint32_t>(key);
  const uint64_t count = reader.read<uint64_t>(key);
  GgufValue array;
  const auto read = [&](auto number) { array = read_numbers<decltype(number)>(reader, count, key, path); };
  if (with_number(type == kBool ? uint32_t{kU8} : type, read)) return array;
  if (type == kArray) fail(Status::format, "{}: {}: arrays of arrays are not read", Place::in(path), key);
  if (type != kString)
    fail(Status::format, "{}: {}: array items have the unknown type {}", Place::in(path), key, type);
  std::vector<std::string> values;
  values.reserve(reader.count(count, sizeof(uint64_t), "array items"));
  for (uint64_t i = 0; i < count; ++i) values.emplace_back(reader.string(key));
  return values;
}

GgufValue read_value(Reader& reader, const std::string& key, const std::string& path) {
  const uint32_t type = reader.read<uint32_t>(key);
  GgufValue value;
  const auto read = [&](auto number) { value = Wide<decltype(number)>{reader.read<decltype(number)>(key)}; };
  if (with_number(type, read)) return value;
  if (type == kBool) return reader.read<uint8_t>(key) != 0;
  if (type == kString) return std::string(reader.string(key));
  if (type == kArray) return read_array(reader, key, path);
  fail(Status::format, "{}: {}: value has the unknown type {}", Place::in(path), key, type);
}

struct TensorInfo {
  std::string name;
  GgufTensor tensor;
  uint64_t offset;
};

const GgmlType& tensor_type(uint32_t number, const std::string& name, const std::string& path) {
  const GgmlType* type = find_ggml_type(number);
  if (type != nullptr && type->block > 0) return *type;
  fail(Status::unsupported, "{}: tensor {}: type {} is not read; these are: {}", Place::in(path), name,
       type != nullptr ? std::string(type->name) : fmt::format("{}", number), readable_ggml_types());
}

TensorInfo read_info(Reader& reader, const std::string& path) {
  TensorInfo info;
  info.name = reader.name("tensor name");
  const uint32_t dimensions = reader.read<uint32_t>(info.name);
  if (dimensions == 0 || dimensions > 4)
    fail(Status::format, "{}: tensor {}: {} dimensions; 1 to 4 are possible", Place::in(path), info.name,
         dimensions);
  uint64_t elements = 1;
  for (uint32_t i = 0; i < dimensions; ++i) {
    const uint64_t extent = reader.read<uint64_t>(info.name);
    if (extent == 0 || __builtin_mul_overflow(elements, extent, &elements) || elements > uint64_t{1} << 60) {
      fail(Status::format, "{}: tensor {}: dimension {} is {}, or the shape is too large", Place::in(path),
           info.name, i, extent);
    }
    info.tensor.shape.insert(info.tensor.shape.begin(), static_cast<int64_t>(extent));
  }
  info.tensor.type = reader.read<uint32_t>(info.name);
  const GgmlType& type = tensor_type(info.tensor.type, info.name, path);
  info.tensor.type_name = type.name;
  const uint64_t row = static_cast<uint64_t>(info.tensor.shape.back());
  if (row % static_cast<uint64_t>(type.block) != 0) {
    fail(Status::format, "{}: tensor {}: rows of {} are not a multiple of the {} elements of a {} block",
         Place::in(path), info.name, row, type.block, type.name);
  }
  info.tensor.bytes = elements / static_cast<uint64_t>(type.block) * static_cast<uint64_t>(type.bytes);
  info.offset = reader.read<uint64_t>(info.name);
  return info;
}

// Gives every tensor its bytes; none may leave the data, be misaligned or overlap another.
void place(std::vector<TensorInfo>& infos, std::string_view data, uint64_t alignment,
           const std::string& path) {
  std::ranges::sort(infos, [](const TensorInfo& a, const TensorInfo& b) { return a.offset < b.offset; });
  uint64_t end = 0;
  for (TensorInfo& info : infos) {
    if (info.offset % alignment != 0) {
      fail(Status::format, "{}: tensor {}: offset {} is not a multiple of the alignment {}", Place::in(path),
           info.name, info.offset, alignment);
    }
    if (info.offset < end) {
      fail(Status::format, "{}: tensor {}: offset {} lies inside another tensor", Place::in(path), info.name,
           info.offset);
    }
    if (info.offset > data.size() || info.tensor.bytes > data.size() - info.offset) {
      fail(Status::format, "{}: truncated: tensor {} needs bytes {} to {} of the data, there are {}",
           Place::in(path), info.name, info.offset, info.offset + info.tensor.bytes, data.size());
    }
    info.tensor.data = data.data() + info.offset;
    end = info.offset + info.tensor.bytes;
  }
}

void check_version(uint32_t version, const std::string& path) {
  if (version == 2 || version == 3) return;
  if (version == 0x02000000 || version == 0x03000000)
    fail(Status::unsupported, "{}: big-endian GGUF is not read", Place::in(path));
  fail(Status::unsupported, "{}: GGUF version {} is not read; 2 and 3 are", Place::in(path), version);
}

}  // namespace

Gguf::Gguf(const std::string& path) : file_(path, true) {
  Reader reader(file_.bytes(), path);
  if (reader.left() < kMagic.size() || reader.take(kMagic.size(), "magic") != kMagic)
    fail(Status::format, "{}: not a GGUF file: it does not begin with \"GGUF\"", Place::in(path));
  check_version(reader.read<uint32_t>("version"), path);
  const uint64_t tensor_count = reader.read<uint64_t>("tensor count");
  const uint64_t pair_count = reader.read<uint64_t>("metadata count");
  reader.count(pair_count, 13, "metadata pairs");  // key length, value type, one byte
  for (uint64_t i = 0; i < pair_count; ++i) {
    const std::string key = reader.name("metadata key");
    if (metadata_.contains(key))
      fail(Status::format, "{}: metadata key {} appears twice", Place::in(path), key);
    metadata_.emplace(key, read_value(reader, key, path));
  }
  uint64_t alignment = 32;
  if (find("general.alignment") != nullptr) {
    const int64_t value = integer("general.alignment");
    if (value < 1 || static_cast<uint64_t>(value) > kMaxAlignment ||
        !std::has_single_bit(static_cast<uint64_t>(value))) {
      fail(Status::format, "{}: general.alignment is {}; a power of two up to {} is possible",
           Place::in(path), value, kMaxAlignment);
    }
    alignment = static_cast<uint64_t>(value);
  }
  std::vector<TensorInfo> infos;
  infos.reserve(
      reader.count(tensor_count, 32, "tensors"));  // name length, dimensions, one extent, type, offset
  for (uint64_t i = 0; i < tensor_count; ++i) infos.push_back(read_info(reader, path));
  const size_t begin = (reader.position() + alignment - 1) / alignment * alignment;
  const std::string_view bytes = file_.bytes();
  base::MappedFile::drop(bytes);  // before its data are read
  place(infos, begin < bytes.size() ? bytes.substr(begin) : std::string_view(), alignment, path);
  for (TensorInfo& info : infos)
    if (!tensors_.emplace(info.name, std::move(info.tensor)).second)
      fail(Status::format, "{}: tensor {} appears twice", Place::in(path), info.name);
}

void Gguf::need_model() const {
  if (find("general.type") == nullptr || text("general.type") != "adapter") return;
  fail(Status::unsupported,
       "{}: it is the GGUF file of a LoRA adapter, which llama.cpp takes beside a model: give the model, and "
       "the adapter as the directory that the file was made from",
       Place::in(path()));
}

const GgufValue* Gguf::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

namespace {
const GgufValue& need(const GgufValue* value, const std::string& path, std::string_view key) {
  if (value == nullptr) fail(Status::format, "{}: metadata key {} is missing", Place::in(path), key);
  return *value;
}
}  // namespace

std::string Gguf::text(std::string_view key) const {
  const std::string* value = std::get_if<std::string>(&need(find(key), path(), key));
  if (value == nullptr) fail(Status::format, "{}: metadata key {} is not a string", Place::in(path()), key);
  return *value;
}

int64_t Gguf::integer(std::string_view key) const {
  const GgufValue& value = need(find(key), path(), key);
  if (const int64_t* number = std::get_if<int64_t>(&value)) return *number;
  const uint64_t* number = std::get_if<uint64_t>(&value);
  if (number == nullptr)
    fail(Status::format, "{}: metadata key {} is not an integer", Place::in(path()), key);
  if (*number > static_cast<uint64_t>(INT64_MAX))
    fail(Status::format, "{}: metadata key {} is {}, larger than 2^63 - 1", Place::in(path()), key, *number);
  return static_cast<int64_t>(*number);
}

double Gguf::number(std::string_view key) const {
  const GgufValue& value = need(find(key), path(), key);
  if (const double* number = std::get_if<double>(&value)) return *number;
  return static_cast<double>(integer(key));
}

bool is_gguf(const std::string& path) {
  if (!base::file_exists(path) || base::is_directory(path)) return false;
  const std::string start = base::file_start(path, 64);
  base::refuse_lfs_pointer(start, path);
  return start.starts_with(kMagic);
}

namespace {

constexpr uint32_t kVersion = 3;
constexpr uint64_t kAlignment = 32;                   // the default, which needs no general.alignment
constexpr int64_t kEncodedAtOnce = int64_t{1} << 20;  // elements encoded between two polls

template <typename T>
void put(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void put_text(std::string& bytes, std::string_view text) {
  put(bytes, static_cast<uint64_t>(text.size()));
  bytes.append(text);
}

uint64_t aligned(uint64_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

int64_t elements_of(const GgufEntry& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape) elements *= extent;
  return elements;
}

uint64_t bytes_of(const GgufEntry& tensor) {
  return static_cast<uint64_t>(elements_of(tensor) / tensor.type->block * tensor.type->bytes);
}

std::string header_text(const GgufPairs& metadata, const std::vector<GgufEntry>& tensors) {
  std::string header = "GGUF";
  put(header, kVersion);
  put(header, static_cast<uint64_t>(tensors.size()));
  put(header, metadata.count());
  header += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufEntry& tensor : tensors) {
    put_text(header, tensor.name);
    put(header, static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) put(header, static_cast<uint64_t>(tensor.shape[i]));
    put(header, tensor.type->number);
    put(header, offset);
    offset = aligned(offset + bytes_of(tensor));
  }
  header.resize(aligned(header.size()), '\0');
  return header;
}

void write_tensor(base::FileWriter& writer, const GgufEntry& tensor, std::vector<uint8_t>& buffer,
                  Written& written) {
  const int64_t elements = elements_of(tensor);
  for (int64_t first = 0; first < elements; first += kEncodedAtOnce) {
    base::poll();
    const int64_t count = std::min(kEncodedAtOnce, elements - first);
    buffer.resize(static_cast<size_t>(count / tensor.type->block * tensor.type->bytes));
    tensor.encode(first, count, buffer.data());
    writer.write(buffer.data(), buffer.size());
    written.add(buffer.size());
  }
  const uint64_t size = bytes_of(tensor);
  writer.write(std::string(aligned(size) - size, '\0'));
}

}  // namespace

void GgufPairs::begin(std::string_view key, uint32_t type) {
  put_text(bytes_, key);
  put(bytes_, type);
  ++count_;
}

void GgufPairs::add(std::string_view key, uint32_t value) {
  begin(key, kU32);
  put(bytes_, value);
}

void GgufPairs::add(std::string_view key, float value) {
  begin(key, kF32);
  put(bytes_, value);
}

void GgufPairs::add(std::string_view key, bool value) {
  begin(key, kBool);
  put(bytes_, static_cast<uint8_t>(value));
}

void GgufPairs::add(std::string_view key, std::string_view value) {
  begin(key, kString);
  put_text(bytes_, value);
}

void GgufPairs::begin_array(std::string_view key, uint32_t type, size_t count) {
  begin(key, kArray);
  put(bytes_, type);
  put(bytes_, static_cast<uint64_t>(count));
}

void GgufPairs::add(std::string_view key, const std::vector<std::string>& values) {
  begin_array(key, kString, values.size());
  for (const std::string& value : values) put_text(bytes_, value);
}

void GgufPairs::add(std::string_view key, const std::vector<int32_t>& values) {
  begin_array(key, kI32, values.size());
  for (const int32_t value : values) put(bytes_, value);
}

void GgufPairs::add(std::string_view key, const std::vector<float>& values) {
  begin_array(key, kF32, values.size());
  for (const float value : values) put(bytes_, value);
}

void GgufPairs::add(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, kBool, values.size());
  for (const bool value : values) put(bytes_, static_cast<uint8_t>(value));
}

void GgufPairs::append(const GgufPairs& other) {
  bytes_ += other.bytes_;
  count_ += other.count_;
}

void write_gguf(base::FileWriter& writer, const GgufPairs& metadata, const std::vector<GgufEntry>& tensors) {
  writer.write(header_text(metadata, tensors));
  int64_t total = 0;
  for (const GgufEntry& tensor : tensors) total += static_cast<int64_t>(bytes_of(tensor));
  Written written(total);
  std::vector<uint8_t> buffer;
  for (const GgufEntry& tensor : tensors) write_tensor(writer, tensor, buffer, written);
}

}  // namespace trl::io
