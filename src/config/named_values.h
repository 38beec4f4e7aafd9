// Entries of one option (lr_scheduler_kwargs, optim_args), read by name: each with a type and a range, and at
// the end an error for entries that nothing asked for.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace trl::config {

class NamedValues {
 public:
  // owner: the owner of the entries, for messages: "lr_scheduler_type cosine".
  NamedValues(std::string_view key, std::string owner,
              std::vector<std::pair<std::string, std::string>> values)
      : key_(key), owner_(std::move(owner)), values_(std::move(values)) {}

  // If an entry is not given, out is unchanged. range: as in the option table; "": any number.
  void number(std::string_view name, std::string_view range, double& out);
  void number(std::string_view name, std::string_view range, std::optional<double>& out);
  void integer(std::string_view name, std::string_view range, int64_t& out);
  void integer(std::string_view name, std::string_view range, std::optional<int64_t>& out);
  void flag(std::string_view name, bool& out);
  // Returns the index of one of the words.
  std::optional<size_t> word(std::string_view name, const std::vector<std::string_view>& words);
  bool given(std::string_view name) const;
  void finish() const;  // Error(invalid_config) for an entry that was not asked for

 private:
  const std::string* ask(std::string_view name);  // null: not given, or null
  [[noreturn]] void refuse(std::string_view name, std::string_view value, const std::string& accepted) const;

  std::string_view key_;
  std::string owner_;
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::string_view> asked_;
};

}  // namespace trl::config
