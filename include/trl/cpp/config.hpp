// The library, its options, configurations and runtimes. Included by trl/trl.hpp.
#ifndef TRL_CPP_CONFIG_HPP
#define TRL_CPP_CONFIG_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <locale>
#include <sstream>
#include <string>
#include <type_traits>
#include <utility>
#if __cplusplus >= 201703L
#include <string_view>
#endif

#include "core.hpp"

namespace trl {
inline namespace cpp {

// ---- version and features --------------------------------------------------------------------------------

inline std::string version() { return trl_version_string(); }
inline std::uint32_t version_number() noexcept { return trl_version(); }
inline std::string build_info() { return trl_build_info(); }  // JSON
inline bool has_feature(const std::string& name) noexcept {
  return name.find('\0') == std::string::npos && trl_has_feature(name.c_str()) == 1;
}

// Ends the threads that the library keeps between calls.
inline void shutdown() { detail::call(trl_runtime_shutdown); }

// ---- options: the keys of a configuration ----------------------------------------------------------------

class Option {
 public:
  explicit Option(const trl_option* option) noexcept : option_(option) {}

  const trl_option* get() const noexcept { return option_; }
  std::string name() const { return trl_option_name(option_); }
  std::string section() const { return trl_option_section(option_); }
  std::string group() const { return trl_option_group(option_); }
  std::string origin() const { return trl_option_origin(option_); }
  bool nullable() const noexcept { return trl_option_nullable(option_) == 1; }
  std::string trainers() const { return trl_option_trainers(option_); }
  std::string aliases() const { return trl_option_aliases(option_); }
  std::string other_names() const { return trl_option_other_names(option_); }
  std::string since() const { return trl_option_since(option_); }
  std::string unsupported_reason() const { return trl_option_unsupported_reason(option_); }
  std::string ignored_reason() const { return trl_option_ignored_reason(option_); }
  std::string taken() const { return trl_option_taken(option_); }

  // As the table says, or with "sft", "dpo", ... in one trainer; -1 and nullptr if that does not have the
  // option. The texts live as long as the process.
  std::int32_t type(const char* trainer = nullptr) const noexcept {  // OptionType
    return trl_option_type(option_, trainer);
  }
  const char* default_value(const char* trainer = nullptr) const noexcept {
    return trl_option_default(option_, trainer);
  }
  const char* accepted(const char* trainer = nullptr) const noexcept {
    return trl_option_accepted(option_, trainer);
  }
  const char* doc(const char* trainer = nullptr) const noexcept { return trl_option_doc(option_, trainer); }

 private:
  const trl_option* option_;
};

namespace detail {

struct OptionPosition {
  using value_type = Option;
  const trl_option* option;

  Option item() const noexcept { return Option(option); }
  void next() noexcept { option = trl_option_next(option); }
  bool same(const OptionPosition& other) const noexcept { return option == other.option; }
};

}  // namespace detail

// The table of options, to iterate over: for (const trl::Option& option : trl::OptionTable()).
class OptionTable {
 public:
  using value_type = Option;
  using iterator = detail::Iterator<detail::OptionPosition>;

  iterator begin() const { return iterator({trl_option_next(nullptr)}); }
  iterator end() const { return iterator(); }
};

// ---- configuration ---------------------------------------------------------------------------------------

// The value of a key as text: a text as it is, a number or a truth value as JSON writes it, nullptr as null.
class Value {
 public:
  Value(const char* text) : text_(text) {}
  Value(const std::string& text) : text_(text) {}
#if __cplusplus >= 201703L
  Value(std::string_view text) : text_(text) {}
#endif
  Value(std::nullptr_t) : text_("null") {}
  template <class Number, class = typename std::enable_if<std::is_arithmetic<Number>::value>::type>
  Value(Number number) : text_(write(number)) {}

  const std::string& text() const noexcept { return text_; }

 private:
  static std::string write(bool value) { return value ? "true" : "false"; }
  template <class Number>
  static std::string write(Number number) {
    std::ostringstream out;
    out.imbue(std::locale::classic());
    out.precision(std::numeric_limits<Number>::max_digits10);
    out << +number;
    return out.str();
  }

  std::string text_;
};

// Keys and values: {{"max_steps", 20}, {"output_dir", "out"}}
using Settings = std::initializer_list<std::pair<std::string, Value>>;

class Config : public detail::Handle<trl_config, trl_config_destroy> {
 public:
  using Handle::Handle;
  Config() { detail::call(trl_config_create, receive()); }
  Config(Settings settings) : Config() {
    for (const auto& setting : settings) set(setting.first, setting.second);
  }

  void set(const std::string& key, const Value& value) {
    detail::call(trl_config_set, get(), detail::terminated(key), detail::terminated(value.text()));
  }
  void unset(const std::string& key) { detail::call(trl_config_unset, get(), detail::terminated(key)); }
  std::string value(const std::string& key) const {
    return detail::ask(trl_config_get, get(), detail::terminated(key));
  }
  std::string origin(const std::string& key) const {
    return detail::ask(trl_config_get_origin, get(), detail::terminated(key));
  }
  void load(const std::string& path) { detail::call(trl_config_load, get(), detail::terminated(path)); }
  void load_text(TextView text) { detail::call(trl_config_load_text, get(), text.data(), text.size()); }
  std::string describe() const { return detail::ask(trl_config_describe, get()); }
  std::string warnings() const { return detail::ask(trl_config_get_warnings, get()); }
  // The JSON schema of a configuration file: of all keys, or of those that a trainer reads.
  static std::string schema() { return schema_of(nullptr); }
  static std::string schema(const std::string& trainer) { return schema_of(detail::terminated(trainer)); }

 private:
  static std::string schema_of(const char* trainer) { return detail::ask(trl_config_get_schema, trainer); }
};

// The options of a call: nothing, a Config, or keys and values in braces.
class Options {
 public:
  Options() noexcept : own_(nullptr), config_(nullptr) {}
  Options(const Config& config) noexcept : own_(nullptr), config_(config.get()) {}
  Options(Settings settings) : own_(settings), config_(own_.get()) {}

  const trl_config* get() const noexcept { return config_; }

 private:
  Config own_;
  const trl_config* config_;
};

// ---- runtime and log -------------------------------------------------------------------------------------

namespace detail {

template <class Function>
void on_log(void* function, std::int32_t level, const char* component, const char* text, std::size_t size) {
  guard([&] {
    return answer(*static_cast<Function*>(function), level, TextView(component), TextView(text, size));
  });
}

template <class Function>
std::int32_t on_progress(void* function, const char* phase, std::int64_t done, std::int64_t total) {
  return guard([&] { return answer(*static_cast<Function*>(function), TextView(phase), done, total); });
}

// Files of the host: a function that reads and one that writes, or nullptr.
template <class Read, class Write>
struct Files {
  Read read;
  Write write;
};

template <class Files>
std::int64_t read_file(void* files, const char* file, std::uint64_t offset, void* buffer, std::size_t size) {
  return guard<std::int64_t>([&] {
    return answer<std::int64_t>(static_cast<Files*>(files)->read, TextView(file), offset,
                                static_cast<char*>(buffer), size);
  });
}

template <class Files>
std::int32_t write_file(void* files, std::int32_t what, const char* file, std::uint64_t offset,
                        const void* data, std::size_t size) {
  const auto body = [&] {
    return answer(static_cast<Files*>(files)->write, what, TextView(file), offset,
                  TextView(static_cast<const char*>(data), size));
  };
  return what == WriteKind::dropped ? guard_after_all(body) : guard(body);
}

template <class Files, class Read>
trl_read_fn reader_of(const Read&) noexcept {
  return read_file<Files>;
}
template <class Files>
trl_read_fn reader_of(std::nullptr_t) noexcept {
  return nullptr;
}
template <class Files, class Write>
trl_write_fn writer_of(const Write&) noexcept {
  return write_file<Files>;
}
template <class Files>
trl_write_fn writer_of(std::nullptr_t) noexcept {
  return nullptr;
}

}  // namespace detail

struct Memory {
  std::int64_t now;
  std::int64_t peak;
};

class Runtime : public detail::Handle<trl_runtime, trl_runtime_destroy> {
 public:
  using Handle::Handle;
  Runtime() { detail::call(trl_runtime_create, nullptr, receive()); }
  explicit Runtime(const Options& config) { detail::call(trl_runtime_create, config.get(), receive()); }

  // function(std::int32_t level, trl::TextView component, trl::TextView text)
  template <class Function>
  void set_log(Function function) {
    detail::call(trl_runtime_set_log, get(), detail::on_log<Function>,
                 detail::Given<Function>(std::move(function)), detail::forget<Function>);
  }
  void set_log(std::nullptr_t) { detail::call(trl_runtime_set_log, get(), nullptr, nullptr, nullptr); }

  // function(trl::TextView phase, std::int64_t done, std::int64_t total); a result above 0 ends the call.
  template <class Function>
  void set_progress(Function function) {
    detail::call(trl_runtime_set_progress, get(), detail::on_progress<Function>,
                 detail::Given<Function>(std::move(function)), detail::forget<Function>);
  }
  void set_progress(std::nullptr_t) {
    detail::call(trl_runtime_set_progress, get(), nullptr, nullptr, nullptr);
  }

  // Makes "host://NAME" and "host://NAME/FOLDER" paths of folders whose files the host reads and writes.
  // std::int64_t read(trl::TextView file, std::uint64_t offset, char* buffer, std::size_t size) returns how
  // many bytes it put into buffer; without a buffer the bytes of the whole file; Status::not_found if there
  // is no such file. write(std::int32_t what, trl::TextView file, std::uint64_t offset, trl::TextView data)
  // gets a WriteKind; WriteKind::dropped also after something was thrown. Either may be nullptr.
  template <class Read, class Write>
  void mount(const std::string& name, Read read, Write write) {
    using Files = detail::Files<Read, Write>;
    const trl_read_fn reader = detail::reader_of<Files>(read);
    const trl_write_fn writer = detail::writer_of<Files>(write);
    detail::call(trl_runtime_mount, get(), detail::terminated(name), reader, writer,
                 detail::Given<Files>(Files{std::move(read), std::move(write)}), detail::forget<Files>);
  }

  void set_memory_limit(std::int64_t bytes) { detail::call(trl_runtime_set_memory_limit, get(), bytes); }
  Memory memory() const { return memory_of(nullptr); }
  Memory memory(const std::string& kind) const { return memory_of(detail::terminated(kind)); }
  std::string describe() { return detail::ask(trl_runtime_describe, get()); }
  void cancel() const noexcept {
    if (get() != nullptr) trl_runtime_cancel(get());  // NULL would be the whole process
  }

 private:
  Memory memory_of(const char* kind) const {
    Memory bytes = {0, 0};
    detail::call(trl_runtime_memory, get(), kind, &bytes.now, &bytes.peak);
    return bytes;
  }
};

// Ends the calls that are in progress in the whole process.
inline void cancel_all() noexcept { trl_runtime_cancel(nullptr); }

}  // namespace cpp
}  // namespace trl

#endif  // TRL_CPP_CONFIG_HPP
