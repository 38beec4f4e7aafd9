// One configuration: key -> canonical text value, checked against the option table when it is set.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/method.h"
#include "config/table/option.h"

namespace trl::config {

class Config {
 public:
  Config() = default;
  // Begins with this method, which may be one that this version does not have yet.
  explicit Config(const MethodRow& trainer);

  // Sets a value by name or alias, as text ("1e-4", "true", "[a, b]", "null"). Throws Error(invalid_config)
  // naming key, value and the accepted values, or the nearest spelling of an unknown key; the config is then
  // unchanged. A value set before is replaced; a different value that set() was given under another name of
  // the same key is an error.
  void set(std::string_view key, std::string_view value);
  // Restores the default, as if the key had never been set. Throws as set() does for an unknown key.
  void unset(std::string_view key);
  // Sets several, over all earlier values under any name of their keys: all or nothing.
  void overlay(const std::vector<std::pair<std::string, std::string>>& options);
  // Loads YAML or JSON, as `trl --config`: all of it, or on an error nothing. Replaces earlier values.
  void load_file(const std::string& path);
  void load_text(std::string_view text, std::string_view origin);  // messages begin with "<origin>:<line>: "

  bool is_set(std::string_view key) const;
  // Returns the origin of the value: "default", "set", or the place in a file, as "recipe.yaml:3".
  std::string origin(std::string_view key) const;
  // Returns canonical text; if the key was not set, the method's default.
  std::string get(std::string_view key) const;
  std::optional<std::string> get_text(std::string_view key) const;  // nullopt: null
  bool get_bool(std::string_view key) const;
  int64_t get_int(std::string_view key) const;
  std::optional<int64_t> get_optional_int(std::string_view key) const;
  double get_double(std::string_view key) const;
  std::optional<double> get_optional_double(std::string_view key) const;
  std::optional<bool> get_optional_bool(std::string_view key) const;
  // Returns a list; null: empty; a single choice: a list of it.
  std::vector<std::string> get_list(std::string_view key) const;
  // Returns a map, in order; null: empty.
  std::vector<std::pair<std::string, std::string>> get_pairs(std::string_view key) const;

  const MethodRow& method() const;       // that of the key `method`
  bool has(std::string_view key) const;  // the method has this key of the table
  // Throws Error(invalid_config) if something was set that the method does not have, or does not accept.
  void check_method() const;

  std::string to_json() const;  // the keys that were set, typed
  // Maps canonical names to canonical text.
  const std::map<std::string, std::string>& values() const { return values_; }
  // Returns the values of the options that affect `first` to `last`, a line each: equal texts, equal effects.
  std::string values_that_affect(Affects first, Affects last) const;
  const std::vector<std::string>& warnings() const { return warnings_; }  // one line for each key, in order

 private:
  struct Spelling {
    std::string name;  // the text as it was written
    int source;        // the file or other origin: within one, two names of a key must not differ
    std::string place;
  };
  static constexpr int kCalls = 0;       // all calls of set()
  void forget(const std::string& name);  // canonical
  void assign(std::string_view key, std::string_view value, int source, std::string place = "set");

  std::map<std::string, std::string> values_;
  std::map<std::string, Spelling> spellings_;
  std::vector<std::string> warnings_;
  int sources_ = kCalls;
};

}  // namespace trl::config
