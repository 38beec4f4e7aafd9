// Values of a template: immutable, reference counted, cheap to copy. Strings carry their length in code
// points. Objects (namespaces, macros, loops) belong to the Run that made them, so that no cycle can outlive
// a render.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace trl::text::jinja {

class Object;
class Value;

struct Text {
  std::string bytes;  // UTF-8
  size_t length;      // code points
  bool markup;        // the result of `safe` or `escape`: text joined to it with + is escaped
  bool ascii() const { return length == bytes.size(); }
};

// Everything that holds items in order. An iterator is like one of Python's generators: it can be walked
// once.
enum class SequenceType : uint8_t { list, tuple, group, range, keys, values, items, iterator };

struct Sequence;
struct Mapping;

enum class Kind : uint8_t { undefined, none, boolean, integer, real, text, sequence, mapping, object, large };

class Value {
 public:
  Value() = default;  // undefined
  static Value undefined(std::string message);
  static Value none() { return Value(Data(std::in_place_index<1>, nullptr)); }
  static Value boolean(bool value) { return Value(Data(std::in_place_index<2>, value)); }
  static Value integer(int64_t value) { return Value(Data(std::in_place_index<3>, value)); }
  static Value size(size_t value) { return integer(static_cast<int64_t>(value)); }
  static Value real(double value) { return Value(Data(std::in_place_index<4>, value)); }
  static Value text(std::string bytes, bool markup = false);
  static Value sequence(std::shared_ptr<const Sequence> value) { return Value(Data(std::move(value))); }
  static Value mapping(std::shared_ptr<const Mapping> value) { return Value(Data(std::move(value))); }
  // Parses a decimal number without a point: an integer, or a large one, which is carried, compared and
  // written.
  static Value whole(std::string_view digits);
  static Value object(Object* value) { return Value(Data(std::in_place_index<8>, value)); }

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is(Kind kind) const { return this->kind() == kind; }
  bool is_undefined() const { return is(Kind::undefined); }
  bool is_none() const { return is(Kind::none); }
  bool is_text() const { return is(Kind::text); }
  bool is_integral() const { return is(Kind::integer) || is(Kind::boolean); }  // bool is an int, as in Python
  bool is_large() const { return is(Kind::large); }                            // an int beyond 64 bits
  bool is_number() const { return is_integral() || is(Kind::real); }
  bool is_sequence(SequenceType type) const;

  const std::string& undefined_message() const;
  bool boolean() const { return std::get<2>(data_); }
  int64_t integer() const { return is(Kind::boolean) ? int64_t{boolean()} : std::get<3>(data_); }
  const std::string& digits() const {
    return *std::get<9>(data_);
  }  // digits of a large one, after a minus if negative
  double real() const { return is(Kind::real) ? std::get<4>(data_) : static_cast<double>(integer()); }
  const Text& text() const { return *std::get<5>(data_); }
  const std::string& bytes() const { return text().bytes; }
  const Sequence& sequence() const { return *std::get<6>(data_); }
  const Mapping& mapping() const { return *std::get<7>(data_); }
  Object* object() const { return std::get<8>(data_); }
  const void* identity() const;  // address of the shared value, or nullptr
  int depth() const;             // nesting of sequences and mappings

 private:
  using Data = std::variant<std::shared_ptr<const std::string>, std::nullptr_t, bool, int64_t, double,
                            std::shared_ptr<const Text>, std::shared_ptr<const Sequence>,
                            std::shared_ptr<const Mapping>, Object*, std::shared_ptr<const std::string>>;
  explicit Value(Data data) : data_(std::move(data)) {}
  Data data_;
};

using Values = std::vector<Value>;

// The bounds of range(start, stop, step).
struct Range {
  int64_t start = 0, stop = 0, step = 1;
};

struct Sequence {
  SequenceType type;
  Values items;
  int depth;
  Range range = {};
  mutable size_t walked = 0;  // items already taken from an iterator
};

// Keeps insertion order; keys compare by Python's equality (1 == 1.0 == True).
struct Mapping {
  std::vector<std::pair<Value, Value>> entries;
  std::unordered_multimap<uint64_t, uint32_t> index;  // by key hash; only of mappings larger than kLinear
  int depth = 1;
  static constexpr size_t kLinear = 8;
  const Value* find(const Value& key) const;  // key must be hashable
  const Value* find(std::string_view key) const;
  void set(Value key, Value value);  // only while it is being built
};

double large_as_real(const Value& large);  // the nearest; infinite if out of range
bool hashable(const Value& value);
uint64_t key_hash(const Value& key);
bool same_key(const Value& a, const Value& b);

struct Arguments {
  Values positional;
  std::vector<std::pair<Value, Value>> named;  // name, which is a text, and value
};

}  // namespace trl::text::jinja
