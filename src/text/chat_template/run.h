// The state of one render and its limits: steps, bytes, nesting, objects. Everything that makes text or lists
// uses it, so that a hostile template ends in an error and never in a hang or in exhausted memory.
#pragma once
#include <fmt/format.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/interrupt.h"
#include "base/json/json.h"
#include "text/chat_template/value.h"
#include "text/tokenizer/byte_ranges.h"

namespace trl::text::jinja {

inline constexpr int64_t kMaxSteps = 50'000'000;  // evaluated nodes, walked items, 64 scanned bytes
inline constexpr int64_t kStepsPerPoll = 1 << 14;
inline constexpr int64_t kMaxProduced = int64_t{1} << 29;  // bytes of all texts and lists that a render makes
inline constexpr size_t kMaxText = size_t{1} << 26;        // bytes of one text, the output included
inline constexpr size_t kMaxItems = size_t{1} << 22;       // items of a list made by repetition
inline constexpr int64_t kMaxRange = 100'000;              // items of range(), as in Jinja's sandbox
inline constexpr size_t kMaxDigits = 4300;                 // digits of an integer, as in Python
inline constexpr int kMaxNesting = 200;                    // nested lists and dicts
inline constexpr int kMaxDepth = 500;                      // levels of the evaluator's own recursion

class Run {
 public:
  explicit Run(int64_t now) : now_(now) {}
  virtual ~Run();
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Throws Error(format): "chat template, line 3: ...".
  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> text, Args&&... args) const {
    fail_text(fmt::format(text, std::forward<Args>(args)...));
  }
  [[noreturn]] void fail_text(const std::string& message) const;
  [[noreturn]] void fail_undefined(const Value& value) const { fail_text(value.undefined_message()); }

  void spend(int64_t steps) {
    const int64_t before = steps_;
    steps_ -= steps;
    if (before / kStepsPerPoll != steps_ / kStepsPerPoll) base::poll();
    if (steps_ < 0) fail("more than {} steps; the template does not end", kMaxSteps);
  }
  void produce(size_t bytes);

  Value text(std::string bytes, bool markup = false);
  // Copies a part of a value's text; what is given of it remains so.
  Value part(std::string_view bytes, bool markup = false);
  // Makes a text that a function has made of all bytes of another one, such as its upper case.
  Value mapped(const Value& from, std::string bytes);
  Value sequence(SequenceType type, Values items);
  Value list(Values items) { return sequence(SequenceType::list, std::move(items)); }
  Value tuple(Values items) { return sequence(SequenceType::tuple, std::move(items)); }
  Value range(const Range& bounds, Values items);
  Value mapping(Mapping entries);
  void set(Mapping& mapping, Value key, Value value);  // refuses a key that cannot be hashed
  // given: its texts are remembered as given, wherever templates copy parts of them.
  Value from_json(const base::Json& json, bool given = false, int depth = 0);
  // Parts of texts that come from outside the template are known by the addresses of their bytes, so that
  // functions need not pass them on: whoever copies bytes asks for them. Texts with such parts live as long
  // as the run.
  void give(const Value& text, ByteRanges ranges);
  // Adds the given parts of bytes, which are copied to this place.
  void find_given(std::string_view bytes, size_t place, ByteRanges& out);

  template <typename T, typename... Args>
  T* make(Args&&... args) {
    produce(sizeof(T) + 64);
    objects_.push_back(std::make_unique<T>(std::forward<Args>(args)...));
    return static_cast<T*>(objects_.back().get());
  }

  int line() const { return line_; }
  void set_line(int line) { line_ = line; }
  int64_t now() const { return now_; }

 private:
  int64_t steps_ = kMaxSteps;
  int64_t produced_ = 0;
  int64_t now_;
  int line_ = 1;
  std::vector<std::unique_ptr<Object>> objects_;
  struct Given {
    Value text;
    ByteRanges ranges;
  };
  std::map<const char*, Given, std::less<>> given_;  // by the address of the first byte
};

// Collects text that grows under the limits.
class Writer {
 public:
  explicit Writer(Run& run) : run_(run) {}
  void append(std::string_view bytes) {
    reserve(bytes.size());
    take_over(bytes);
  }
  void append(const Writer& other) {
    reserve(other.size());
    for (const auto& [begin, end] : other.given_) add_range(given_, size() + begin, size() + end);
    text_.append(other.text_);
  }
  void append(size_t count, std::string_view bytes) {  // count times
    if (bytes.empty()) return;
    reserve(count > kMaxText ? kMaxText + 1 : count * bytes.size());
    for (; count > 0; --count) take_over(bytes);
  }
  size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  std::string take() { return std::move(text_); }
  const ByteRanges& given() const { return given_; }
  Value value(bool markup = false);

 private:
  void reserve(size_t more);
  void take_over(std::string_view bytes) {
    run_.find_given(bytes, text_.size(), given_);
    text_.append(bytes);
  }
  Run& run_;
  std::string text_;
  ByteRanges given_;
};

// Namespace, macro, loop, bound method, global function.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string type_name() const = 0;  // Python's name of the class
  virtual std::string describe() const { return "<" + type_name() + ">"; }
  virtual bool callable() const { return false; }
  virtual Value call(Run& run, Arguments arguments);
  virtual Value attribute(Run& run, std::string_view name);  // undefined if it has none
};

// Arguments bound to parameter names, as a Python function binds them.
class Parameters {
 public:
  Parameters(Run& run, std::string_view function, Arguments arguments,
             std::initializer_list<std::string_view> names, size_t required = 0)
      : Parameters(run, function, std::move(arguments), std::span(names.begin(), names.size()), required) {}
  Parameters(Run& run, std::string_view function, Arguments arguments,
             std::span<const std::string_view> names, size_t required);
  bool given(size_t i) const { return given_[i]; }
  const Value& operator[](size_t i) const { return values_[i]; }
  Value value(size_t i, const Value& fallback) const { return given_[i] ? values_[i] : fallback; }
  int64_t integer(size_t i, int64_t fallback) const;
  bool truth(size_t i, bool fallback) const;
  std::string_view text(size_t i, std::string_view fallback = {}) const;  // must be a string
  bool none(size_t i) const { return !given_[i] || values_[i].is_none(); }

 private:
  Run& run_;
  std::string_view function_;
  std::vector<std::string_view> names_;
  Values values_;
  std::vector<bool> given_;
};

}  // namespace trl::text::jinja
