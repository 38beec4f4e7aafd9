// One configuration: key -> canonical text value, checked against the option table when it is set.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/option.h"

namespace trl::config {

class Config {
 public:
  // Name or alias, value as text ("1e-4", "true", "[a, b]", "null"). Throws Error(invalid_config) naming key,
  // value and what is accepted, or the nearest spelling of an unknown key; the config is then as before. A
  // value set before is replaced, one that was set under another name of the same key by set() is an error
  // when it differs.
  void set(std::string_view key, std::string_view value);
  // Back to the default, and to as if it had never been set. Throws as set() does for an unknown key.
  void unset(std::string_view key);
  // set() for several, over whatever was set before under any name of their keys: all or nothing.
  void overlay(const std::vector<std::pair<std::string, std::string>>& options);
  // YAML or JSON, as `trl --config`: all of it, or on an error nothing. Replaces what was set before.
  void load_file(const std::string& path);
  void load_text(std::string_view text, std::string_view origin);  // messages begin with "<origin>:<line>: "

  bool is_set(std::string_view key) const;
  // Where the value is from: "default", "set", or the place in a file, as "recipe.yaml:3".
  std::string origin(std::string_view key) const;
  // Canonical text; if the key was not set, the method's default.
  std::string get(std::string_view key) const;
  std::optional<std::string> get_text(std::string_view key) const;  // nullopt: null
  bool get_bool(std::string_view key) const;
  int64_t get_int(std::string_view key) const;
  std::optional<int64_t> get_optional_int(std::string_view key) const;
  double get_double(std::string_view key) const;
  std::optional<double> get_optional_double(std::string_view key) const;
  std::optional<bool> get_optional_bool(std::string_view key) const;
  std::vector<std::string> get_list(std::string_view key) const;  // null: empty; a choice alone: that
  std::vector<std::pair<std::string, std::string>> get_pairs(
      std::string_view key) const;  // a map, in order; null: empty

  std::string_view method() const;  // sft, dpo, ...; valid until the config changes
  // Throws Error(invalid_config) where something was set that the method does not have, or does not accept.
  void check_method() const;

  std::string to_json() const;  // the keys that were set, typed
  const std::map<std::string, std::string>& values() const {
    return values_;
  }                                                                       // canonical name -> canonical text
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
