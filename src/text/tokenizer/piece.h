// A piece of text that passes through the pipeline and, when offsets are wanted, the origin of each of its
// bytes. Steps pass pieces on by call, so that no list of words exists.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace trl::text {

// A callable that is borrowed for the duration of a call.
template <typename Signature>
class FunctionRef;
template <typename R, typename... A>
class FunctionRef<R(A...)> {
 public:
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>>>
  FunctionRef(F&& callable)  // NOLINT: converts on purpose
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, A... arguments) -> R {
          return (*static_cast<std::remove_reference_t<F>*>(object))(static_cast<A&&>(arguments)...);
        }) {}
  R operator()(A... arguments) const { return call_(object_, static_cast<A&&>(arguments)...); }

 private:
  void* object_;
  R (*call_)(void*, A...);
};

// Bytes [begin, end) of the text that was given to encode(). Always whole code points.
struct Span {
  uint32_t begin = 0;
  uint32_t end = 0;
};

struct Piece {
  std::string_view text;
  const Span* spans = nullptr;  // one per byte of text, or null: offsets are not wanted
  // The number of its first bytes that came from the first character of the text given to encode().
  size_t leading = 0;

  Piece part(size_t begin, size_t end) const {
    return {text.substr(begin, end - begin), spans ? spans + begin : nullptr,
            leading > begin ? std::min(leading, end) - begin : 0};
  }
};

// A text that a step wrote itself.
struct Buffer {
  std::string text;
  std::vector<Span> spans;
  size_t leading = 0;

  void clear() {
    text.clear();
    spans.clear();
    leading = 0;
  }
  // Returns the text that replaces `from`.
  Piece piece(const Piece& from) const { return {text, from.spans ? spans.data() : nullptr, leading}; }
};

using PieceSink = FunctionRef<void(const Piece&)>;

// Ids and, when wanted, their origins.
struct Tokens {
  std::vector<int32_t> ids;
  std::vector<Span> spans;
  bool tracked = false;
};

}  // namespace trl::text
