// Errors, views, handles, and how functions of the host are called. Included by trl/trl.hpp.
#ifndef TRL_CPP_CORE_HPP
#define TRL_CPP_CORE_HPP

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <ios>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#if __cplusplus >= 201703L
#include <string_view>
#endif

#include "../trl.h"
#include "constants.hpp"

namespace trl {
inline namespace cpp {  // types of the library itself have the same names

// ---- errors ----------------------------------------------------------------------------------------------

// A place in what was read.
struct Place {
  Place() noexcept : line(0), column(0), row(-1) {}
  // Copies the place of an error of trl.h.
  explicit Place(const trl_error* error) : Place() {
    const char* name = nullptr;
    trl_error_place(error, &name, &line, &column, &row);
    if (name != nullptr) file = name;
  }

  std::string file;     // or the name of what is not a file, such as "text"; empty: there is no place
  std::int64_t line;    // from 1; 0: not known
  std::int64_t column;  // in bytes, from 1; 0: not known
  std::int64_t row;     // of the dataset, from 0; -1: not known
};

// The wording of the message may change; act on the status, the key and the place.
class TRL_API Error : public std::runtime_error {
 public:
  Error(trl_status status, const std::string& message, const std::string& key = std::string(),
        std::int32_t callback_code = 0, const Place& place = Place())
      : std::runtime_error(message),
        status_(status),
        key_(key),
        callback_code_(callback_code),
        place_(place) {}
  // Copies an error of trl.h.
  explicit Error(const trl_error* error)
      : Error(trl_error_code(error), trl_error_message(error),
              trl_error_key(error) ? trl_error_key(error) : "", trl_error_callback_code(error),
              Place(error)) {}

  trl_status status() const noexcept { return status_; }
  const char* status_name() const noexcept { return trl_status_name(status_); }
  const std::string& key() const noexcept { return key_; }                // empty: none is at fault
  std::int32_t callback_code() const noexcept { return callback_code_; }  // what a callback returned
  const Place& place() const noexcept { return place_; }

 private:
  trl_status status_;
  std::string key_;
  std::int32_t callback_code_;
  Place place_;
};

// ---- views: parameters that are borrowed for a call ------------------------------------------------------

// Elements of a vector, an array, a std::span, or anything else with data() and size().
template <class T>
class View {
 public:
  View() noexcept : data_(nullptr), size_(0) {}
  View(const T* data, std::size_t size) noexcept : data_(data), size_(size) {}
  template <class Elements, class = typename std::enable_if<std::is_convertible<
                                decltype(std::declval<const Elements&>().data()), const T*>::value>::type>
  View(const Elements& elements) : data_(elements.data()), size_(elements.size()) {}

  const T* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }
  const T* begin() const noexcept { return data_; }
  const T* end() const noexcept { return data_ + size_; }

 private:
  const T* data_;
  std::size_t size_;
};

// Text with its size, which may hold NUL: of a literal, a std::string, a std::string_view, or a function's
// argument.
class TextView : public View<char> {
 public:
  TextView() noexcept = default;
  TextView(const char* text) noexcept : View<char>(text, text ? std::strlen(text) : 0) {}
  TextView(const char* data, std::size_t size) noexcept : View<char>(data, size) {}
  template <class Text, class = typename std::enable_if<std::is_convertible<
                            decltype(std::declval<const Text&>().data()), const char*>::value>::type>
  TextView(const Text& text) : View<char>(text) {}

  std::string str() const { return size() ? std::string(data(), size()) : std::string(); }
  operator std::string() const { return str(); }
#if __cplusplus >= 201703L
  operator std::string_view() const noexcept { return std::string_view(data(), size()); }
#endif
};

template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out, const TextView& text) {
  return out.write(text.data(), static_cast<std::streamsize>(text.size()));
}

// ---- what every class stands on --------------------------------------------------------------------------

namespace detail {

// Calls of this thread: how many are in progress, one within a callback of another, and what a callback of
// the innermost one has thrown.
struct Thread {
  int calls = 0;
  std::exception_ptr thrown;  // by a function of the host in the innermost call
  std::exception_ptr reward;  // by a reward there, whose failure may be let pass (on_reward_error)
};

inline Thread& this_thread() {
  thread_local Thread thread;
  return thread;
}

inline void check_version() {
  const std::uint32_t version = trl_version();
  const bool minor =
      TRL_VERSION_MAJOR > 0 || (version >> 8 & 255) == TRL_VERSION_MINOR;  // free to change in 0.x
  if (minor && version >> 16 == TRL_VERSION_MAJOR) return;
  std::ostringstream message;
  message << "libtrl.so is version " << trl_version_string() << ", and trl.hpp is for " << TRL_VERSION_MAJOR
          << "." << TRL_VERSION_MINOR;
  throw std::runtime_error(message.str());
}

// Owns an object of the library.
template <class T, void (*destroy)(T*)>
class Handle {
 public:
  explicit Handle(T* owned = nullptr) noexcept : pointer_(owned) {}
  Handle(Handle&& other) noexcept : pointer_(other.release()) {}
  Handle& operator=(Handle&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Handle() { destroy(pointer_); }

  explicit operator bool() const noexcept { return pointer_ != nullptr; }
  T* get() const noexcept { return pointer_; }
  T* release() noexcept {
    T* pointer = pointer_;
    pointer_ = nullptr;
    return pointer;
  }
  void reset(T* owned = nullptr) noexcept {
    T* before = pointer_;
    pointer_ = owned;
    destroy(before);
  }
  T** receive() noexcept {
    reset();
    return &pointer_;
  }

 private:
  T* pointer_;
};

// Calls a function whose last parameter is `trl_error**`. Throws what a callback has thrown in the call,
// whatever the status, or else the error.
template <class... Parameters, class... Arguments>
trl_status call(trl_status (*function)(Parameters...), Arguments... arguments) {
  check_version();
  Handle<trl_error, trl_error_destroy> error;
  Thread& thread = this_thread();
  ++thread.calls;
  std::exception_ptr thrown, reward;
  reward.swap(thread.reward);  // of the call around this one
  const trl_status status = function(arguments..., error.receive());
  --thread.calls;
  thrown.swap(thread.thrown);
  reward.swap(thread.reward);
  if (!thrown && status == TRL_E_CALLBACK && trl_error_callback_code(error.get()) == 0) thrown = reward;
  if (thrown) std::rethrow_exception(thrown);
  if (status >= 0) return status;
  if (error) throw Error(error.get());
  throw Error(status, trl_status_name(status));
}

// A text for a parameter that ends in NUL, where the library would not see what comes after one.
inline const char* terminated(const std::string& text) {
  const std::size_t at = text.find('\0');
  if (at == std::string::npos) return text.c_str();
  throw Error(TRL_E_INVALID_ARGUMENT, "a text has a NUL after \"" + text.substr(0, at) + "\"");
}

// Copies the text that a function gives by its last parameter but one.
template <class... Parameters, class... Arguments>
std::string ask(trl_status (*function)(Parameters...), Arguments... arguments) {
  const char* text = nullptr;
  call(function, arguments..., &text);
  return text;
}

// Asks for elements, and once more where there was too little room.
template <class Elements, class Ask>
Elements fill(std::size_t capacity, Ask ask) {
  Elements elements(capacity, 0);
  for (;;) {
    std::size_t size = 0;
    ask(elements.empty() ? nullptr : &elements[0], elements.size(), &size);
    const bool fits = size <= elements.size();
    elements.resize(size);
    if (fits) return elements;
  }
}

template <class Object>
auto raw(Object* object) noexcept -> decltype(object->get()) {
  return object ? object->get() : nullptr;
}

inline std::string text_or_empty(const char* text) { return text ? text : ""; }

// An input iterator. Position has value_type, item(), which gives the item by value, next() and same(other).
template <class Position>
class Iterator {
 public:
  using value_type = typename Position::value_type;
  struct pointer {
    value_type item;
    const value_type* operator->() const noexcept { return &item; }
  };
  using iterator_category = std::input_iterator_tag;
  using difference_type = std::ptrdiff_t;
  using reference = value_type;

  explicit Iterator(Position position = Position()) : position_(std::move(position)) {}
  value_type operator*() const { return position_.item(); }
  pointer operator->() const { return {**this}; }
  Iterator& operator++() {
    position_.next();
    return *this;
  }
  Iterator operator++(int) {
    Iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Iterator& a, const Iterator& b) noexcept {
    return a.position_.same(b.position_);
  }
  friend bool operator!=(const Iterator& a, const Iterator& b) noexcept { return !(a == b); }

 private:
  Position position_;
};

// A place in a container that has size() and operator[].
template <class Container>
struct Index {
  using value_type = typename Container::value_type;
  const Container* container;
  std::size_t index;

  value_type item() const { return (*container)[index]; }
  void next() noexcept { ++index; }
  bool same(const Index& other) const noexcept { return index == other.index; }
};

// ---- functions of the host: user_data is the address of one ----

// Calls one, if no other has thrown before in the same call of the library. Without such a call, as where
// another copy of this header made it, the exception is left to the library.
template <class Number = std::int32_t, class Body>
Number guard(Body body) {
  Thread& thread = this_thread();
  if (thread.thrown) return TRL_E_CALLBACK;
  try {
    return body();
  } catch (...) {
    if (thread.calls == 0) throw;
    thread.thrown = std::current_exception();
    return TRL_E_CALLBACK;
  }
}

// Calls one whatever another has thrown before.
template <class Body>
std::int32_t guard_after_all(Body body) {
  std::exception_ptr before;
  before.swap(this_thread().thrown);
  const std::int32_t code = guard(body);
  if (before) this_thread().thrown = before;
  return code;
}

template <class Function, class... Arguments>
using Result = decltype(std::declval<Function&>()(std::declval<Arguments>()...));

template <class Number = std::int32_t, class Function, class... Arguments>
typename std::enable_if<std::is_void<Result<Function, Arguments...>>::value, Number>::type answer(
    Function& function, Arguments&&... arguments) {
  function(std::forward<Arguments>(arguments)...);
  return 0;
}

template <class Number = std::int32_t, class Function, class... Arguments>
typename std::enable_if<!std::is_void<Result<Function, Arguments...>>::value, Number>::type answer(
    Function& function, Arguments&&... arguments) {
  using Value = typename std::decay<Result<Function, Arguments...>>::type;
  static_assert(std::is_integral<Value>::value || std::is_enum<Value>::value,
                "a function that the library calls returns an integer, a truth value or nothing");
  const Value value = function(std::forward<Arguments>(arguments)...);
  const Number number = static_cast<Number>(value);
  if (static_cast<Value>(number) == value) return number;
  throw std::out_of_range("a function that the library calls returned an integer of more than " +
                          std::to_string(8 * sizeof number) + " bits");
}

template <class Function>
void forget(void* function) {
  delete static_cast<Function*>(function);
}

// One as an argument of call(): the library frees it by forget() even if it refuses it, and this does if it
// is never called.
template <class Function>
class Given {
 public:
  explicit Given(Function function) : owned_(new Function(std::move(function))) {}
  operator void*() noexcept { return owned_.release(); }

 private:
  std::unique_ptr<Function> owned_;
};

}  // namespace detail

}  // namespace cpp
}  // namespace trl

#endif  // TRL_CPP_CORE_HPP
