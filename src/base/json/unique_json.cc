#include "base/json/unique_json.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/json/parse_by.h"
#include "base/text/utf8.h"

namespace trl::base {

namespace {

// Makes a value of what nlohmann's parser reads.
class UniqueNames {
 public:
  explicit UniqueNames(std::string_view origin) : origin_(origin) {}
  Json take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(int64_t value) { return put(value); }
  bool number_unsigned(uint64_t value) { return put(value); }
  bool number_float(double value, const std::string&) { return put(value); }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }  // JSON has none
  bool start_array(size_t) {
    open_.push_back({&place(), {}});
    *open_.back().value = Json::array();
    return true;
  }
  bool start_object(size_t) {
    open_.push_back({&place(), {}});
    *open_.back().value = Json::object();
    return true;
  }
  bool key(std::string& name) {
    std::set<std::string, std::less<>>& names = open_.back().names;
    if (names.contains(name)) refuse(name, "the name is there twice in one object; give it once");
    if (names.size() == kMostJsonNames)
      refuse(name, fmt::format("the object has more than {} names", kMostJsonNames));
    names.insert(name);
    // Appended, since the object has no such name.
    open_.back().value->get_ref<Json::object_t&>().emplace_back(std::move(name), Json());
    return true;
  }
  bool end_array() { return end(); }
  bool end_object() { return end(); }
  template <class Exception>
  bool parse_error(size_t, const std::string&, const Exception& error) {
    throw error;
  }

 private:
  struct Open {
    Json* value;
    std::set<std::string, std::less<>> names;
  };
  // Returns the place of the next value.
  Json& place() {
    if (open_.empty()) return root_;
    Json& around = *open_.back().value;
    if (around.is_object()) return around.get_ref<Json::object_t&>().back().second;
    return around.get_ref<Json::array_t&>().emplace_back();
  }
  template <class Value>
  bool put(Value&& value) {
    place() = Json(std::forward<Value>(value));
    return true;
  }
  bool end() {
    open_.pop_back();
    return true;
  }
  [[noreturn]] void refuse(const std::string& name, std::string_view why) const {
    std::string path;
    for (size_t i = 0; i + 1 < open_.size(); ++i)
      if (open_[i].value->is_object()) path += open_[i].value->get_ref<Json::object_t&>().back().first + ".";
    path = shortened(one_line(path + name));
    throw Error(Status::format, fmt::format("{}: {}: {}", origin_, path, why), path);
  }
  static std::string shortened(std::string text) {
    constexpr size_t kMost = 80;
    size_t end = std::min(text.size(), kMost);
    while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    return end < text.size() ? text.substr(0, end) + "..." : text;
  }

  const std::string_view origin_;
  Json root_;
  std::vector<Open> open_;
};

}  // namespace

Json parse_unique_json(std::string_view text, std::string_view origin) {
  return parse_by(text, origin, 1, 1, [&](PolledText begin, PolledText end) {
    UniqueNames names(origin);
    Json::sax_parse(begin, end, &names);
    return names.take();
  });
}

}  // namespace trl::base
