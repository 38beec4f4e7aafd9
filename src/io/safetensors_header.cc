#include "io/safetensors_header.h"

#include <optional>
#include <unordered_set>
#include <vector>

#include "base/error.h"

namespace trl::io {

namespace {

// Finds repeated keys of a JSON text as it is read. A callback of the parser would see them too, but the
// parser then visits all names of the header at the end of each tensor.
class RepeatedKey : public nlohmann::json_sax<base::SortedJson> {
 public:
  const std::optional<std::string>& found() const { return found_; }

  bool start_object(size_t) override {
    open_.emplace_back();
    return true;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool key(std::string& name) override {
    if (open_.back().insert(name).second) return true;
    found_ = name;
    return false;  // ends the parse
  }
  bool start_array(size_t) override { return true; }
  bool end_array() override { return true; }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(int64_t) override { return true; }
  bool number_unsigned(uint64_t) override { return true; }
  bool number_float(double, const std::string&) override { return true; }
  bool string(std::string&) override { return true; }
  bool binary(base::SortedJson::binary_t&) override { return true; }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  std::vector<std::unordered_set<std::string>> open_;  // names of each open object
  std::optional<std::string> found_;
};

}  // namespace

base::SortedJson parse_header(std::string_view text, const std::string& path) {
  constexpr int kDepth = 4;
  if (base::find_deeper(text, kDepth) != std::string_view::npos)
    fail(Status::format, "{}: header is nested deeper than {} levels", Place::in(path), kDepth);
  RepeatedKey repeated;
  const bool whole = base::SortedJson::sax_parse(text.begin(), text.end(), &repeated);
  if (repeated.found())
    fail(Status::format, "{}: header names \"{}\" twice", Place::in(path), *repeated.found());
  base::SortedJson header =
      whole ? base::SortedJson::parse(text.begin(), text.end(), nullptr, false) : base::SortedJson();
  if (!whole || header.is_discarded()) fail(Status::format, "{}: header is not valid JSON", Place::in(path));
  if (!header.is_object()) fail(Status::format, "{}: header is not a JSON object", Place::in(path));
  return header;
}

}  // namespace trl::io
