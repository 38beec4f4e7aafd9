// Makes config.json from the metadata and the tensors of a GGUF file.
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "io/gguf.h"
#include "model/config/families.h"
#include "model/gguf/architectures.h"

namespace trl::model {

class GgufConfigReader {
 public:
  // Throws Error(unsupported) if the file's architecture is unknown.
  explicit GgufConfigReader(const io::Gguf& file);

  // Returns config.json without ids of tokens. Call once.
  base::Json made();

 private:
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }
  int64_t integer(std::string_view name) const { return file_.integer(key(name)); }
  int64_t integer_or(std::string_view name, int64_t otherwise) const {
    return has(name) ? integer(name) : otherwise;
  }
  double number(std::string_view name) const { return file_.number(key(name)); }
  double number_or(std::string_view name, double otherwise) const {
    return has(name) ? number(name) : otherwise;
  }
  bool has_tensor(std::string_view name) const { return file_.tensors().find(name) != file_.tensors().end(); }

  const io::GgufValue& flag(std::string_view name) const;

  void sizes();
  int64_t head_width() const;
  void need_equal(std::string_view name, int64_t width) const;
  void biases();
  void rope();
  void scales();
  void windows();
  std::vector<bool> sliding_layers(int64_t window) const;
  void experts();
  int64_t expert_width(int64_t count) const;

  const io::Gguf& file_;
  const std::string architecture_;
  const GgufFamily* row_;
  const Family* family_;
  base::Json config_;
  int64_t hidden_ = 0, heads_ = 0, layers_ = 0, width_ = 0;
};

}  // namespace trl::model
