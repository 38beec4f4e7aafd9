// Reads the fields of PEFT's LoraConfig in a JSON object, each with its type, and at the end reports an error
// for fields that nothing asked for.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "config/lora_config.h"

namespace trl::config {

class LoraFields {
 public:
  // origin: the option or the file, with which messages begin; object must live as long as this does.
  LoraFields(const base::Json& object, std::string_view origin, Status status);

  // Leave `out` unchanged if the field is null or missing.
  void integer(std::string_view name, std::string_view range, int64_t& out);
  void number(std::string_view name, std::string_view range, double& out);
  void flag(std::string_view name, bool& out);
  void text(std::string_view name, std::string& out);
  void texts(std::string_view name, std::vector<std::string>& out);  // a text is a list of one, or of none
  void integers(std::string_view name, std::vector<int64_t>& out);   // an integer counts as a list of one
  void modules(std::string_view name, std::optional<ModuleNames>& out);
  void pattern(std::string_view name, std::vector<std::pair<std::string, int64_t>>& out);
  void pattern(std::string_view name, std::vector<std::pair<std::string, double>>& out);
  void tokens(std::string_view name, std::vector<std::pair<std::string, std::vector<int64_t>>>& out);
  const base::Json* find(std::string_view name);  // null: not given, or null
  void finish() const;                            // throws for a field that was not asked for and has a value
  // Throws "<origin>: <name>: <what>".
  [[noreturn]] void refuse(std::string_view name, const std::string& what) const;

 private:
  [[noreturn]] void refuse_value(std::string_view name, const base::Json& value,
                                 std::string_view accepted) const;
  std::vector<std::string> list_of_texts(std::string_view name, const base::Json& value) const;
  std::vector<int64_t> list_of_integers(std::string_view name, const base::Json& value) const;

  const base::Json& object_;
  const std::string origin_;
  const Status status_;
  std::vector<std::string_view> asked_;
};

}  // namespace trl::config
