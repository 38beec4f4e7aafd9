#include "config/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <list>
#include <sstream>
#include <system_error>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

constexpr size_t kLongestText = size_t{16} << 20;
constexpr int kDeepest = 64;
constexpr int64_t kMostNodes = 100000;  // aliases count each time they are used

// Records where documents start. Two steps of a parser find a second one; YAML::LoadAll never ends on a stray
// bracket.
class Marks final : public YAML::EventHandler {
 public:
  YAML::Mark start = YAML::Mark::null_mark();
  void OnDocumentStart(const YAML::Mark& mark) override { start = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t, const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
  }
  void OnMapEnd() override {}
};

bool is_text(const YAML::Node& node) {  // quoted, or tagged as text
  return node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str";
}

struct Reader {
  std::string origin;
  std::vector<std::string>* warnings = nullptr;  // null: warnings are errors
  int64_t nodes = 0;

  [[noreturn]] void fail_at(const YAML::Mark& mark, std::string_view text) const {
    const Place line{origin, mark.line + 1};
    throw Error(Status::format, fmt::format("{}: {}", line, text), {}, 0,
                line.in_line(line.line, mark.column + 1));
  }

  void count(const YAML::Node& node, int depth) {
    if (depth > kDeepest) fail_at(node.Mark(), "nested too deeply");
    if (++nodes > kMostNodes) fail_at(node.Mark(), "too many values");
  }

  struct Pair {
    std::string key;
    YAML::Node value;
    int64_t line, column;
  };

  // Returns whether a key is repeated; the last value counts, as in PyYAML.
  bool repeated(const Pair& first, const YAML::Mark& mark) const {
    const std::string text =
        fmt::format("{}: the key is given twice, first in line {}", first.key, first.line);
    if (warnings == nullptr) fail_at(mark, text);
    warnings->push_back(fmt::format("{}:{}: {}; this one counts", origin, mark.line + 1, text));
    return true;
  }

  // Returns the pairs of a mapping; pairs merged by `<<` are last and only added if the key is missing. A
  // list, because assignment to a node of yaml-cpp changes the node it referred to, so nothing here may move.
  std::list<Pair> pairs(const YAML::Node& map, int depth) {
    count(map, depth);
    std::list<Pair> own, merged;
    for (const auto& item : map) {
      const YAML::Mark mark = item.first.Mark();
      if (!item.first.IsScalar()) fail_at(mark, "a key must be a text");
      const std::string& key = item.first.Scalar();
      if (key == "<<" && item.first.Tag() != "!") {
        merge(item.second, depth + 1, merged);
        continue;
      }
      std::erase_if(own, [&](const Pair& other) { return other.key == key && repeated(other, mark); });
      own.push_back({key, item.second, mark.line + 1, mark.column + 1});
      if (++nodes > kMostNodes) fail_at(mark, "too many values");
    }
    for (Pair& pair : merged) {
      const bool known = std::ranges::any_of(own, [&](const Pair& p) { return p.key == pair.key; });
      if (!known) own.push_back(std::move(pair));
    }
    return own;
  }

  void merge(const YAML::Node& source, int depth, std::list<Pair>& out) {
    count(source, depth);
    if (source.IsMap())
      for (Pair& pair : pairs(source, depth + 1)) out.push_back(std::move(pair));
    else if (source.IsSequence())
      for (const auto& item : source) merge(item, depth + 1, out);
    else
      fail_at(source.Mark(), "<<: only mappings can be merged");
  }

  base::Json scalar(const YAML::Node& node) {
    if (is_text(node)) return node.Scalar();
    const std::string text = decimal(node.Scalar());
    if (const std::optional<int64_t> integer = base::parse_int64(text)) return *integer;
    if (const std::optional<double> number = base::parse_double(text); number && std::isfinite(*number))
      return *number;
    if (text.size() > 1) {  // y, n, t, f are texts in YAML
      if (const std::optional<bool> flag = parse_bool(text)) return *flag;
    }
    return text;
  }

  base::Json convert(const YAML::Node& node, int depth) {
    count(node, depth);
    if (!node.IsDefined() || node.IsNull()) return nullptr;
    if (node.IsScalar()) return scalar(node);
    if (node.IsSequence()) {
      base::Json list = base::Json::array();
      for (const auto& item : node) list.push_back(convert(item, depth + 1));
      return list;
    }
    base::Json map = base::Json::object();
    for (const Pair& pair : pairs(node, depth)) map[pair.key] = convert(pair.value, depth + 1);
    return map;
  }

  YAML::Node load(std::string_view text) {
    if (text.size() > kLongestText)
      fail(Status::format, "{}: longer than {} bytes", Place{origin}, kLongestText);
    const size_t bad = base::find_invalid_utf8(text);
    if (bad != base::kValid) fail(Status::format, "{}: byte {} is not valid UTF-8", Place{origin}, bad);
    if (text.find('\0') != std::string_view::npos)
      fail(Status::format, "{}: holds a NUL character", Place{origin});
    try {
      std::istringstream stream{std::string(text)};
      YAML::Parser parser(stream);
      Marks marks;
      parser.HandleNextDocument(marks);
      if (parser.HandleNextDocument(marks))
        fail_at(marks.start, "more text after the end of the document; give one mapping");
      return YAML::Load(std::string(text));
    } catch (const YAML::Exception& error) {
      fail_at(error.mark, "not valid YAML: " + error.msg);
    }
  }
};

// Returns the number that four hexadecimal digits begin the text with.
std::optional<uint32_t> hex4(std::string_view text) {
  uint32_t value = 0;
  if (text.size() < 4) return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + 4, value, 16);
  return error == std::errc() && stop == text.data() + 4 ? std::optional(value) : std::nullopt;
}

// Joins surrogates: JSON writes a character beyond U+FFFF as two \u escapes, YAML as one \U. This is the only
// form of JSON that is not YAML.
std::string join_surrogates(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] != '\\' || i + 1 == text.size()) continue;
    if (text[i + 1] == 'u') {
      const std::optional<uint32_t> high = hex4(text.substr(i + 2));
      if (high && *high >= 0xD800 && *high < 0xDC00 && text.substr(i + 6).starts_with("\\u")) {
        const std::optional<uint32_t> low = hex4(text.substr(i + 8));
        if (low && *low >= 0xDC00 && *low < 0xE000) {
          out += fmt::format("U{:08X}", 0x10000 + ((*high - 0xD800) << 10) + (*low - 0xDC00));
          i += 11;
          continue;
        }
      }
    }
    out += text[++i];
  }
  return out;
}

std::string as_yaml(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t start = text.find_first_not_of(" \t\r\n");
  const bool json = start != std::string_view::npos && (text[start] == '{' || text[start] == '[');
  std::string yaml = json ? join_surrogates(text) : std::string(text);
  for (size_t i = 0; i < yaml.size(); ++i)  // a line break that yaml-cpp does not know
    if (yaml[i] == '\r' && !std::string_view(yaml).substr(i + 1).starts_with('\n')) yaml[i] = '\n';
  // Adds an empty comment: yaml-cpp accepts an open quote if the text ends at the end of its line; with the
  // comment it sees the end within the quote.
  if (yaml.ends_with('\n')) yaml += '#';
  return yaml;
}

}  // namespace

std::string decimal(const std::string& text) {
  std::string digits = text;
  std::erase(digits, '_');
  const size_t sign = digits.starts_with('-') || digits.starts_with('+') ? 1 : 0;
  const std::string_view number = std::string_view(digits).substr(sign);
  const int base = number.starts_with("0x")                     ? 16
                   : number.starts_with("0b")                   ? 2
                   : number.size() > 1 && number.front() == '0' ? 8
                                                                : 10;
  if (base == 10) return text;
  const size_t begin = sign + (base == 8 ? 1 : 2);
  int64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data() + begin, end, value, base);
  if (stop != end || error != std::errc() || value < 0) return text;
  return std::to_string(digits.front() == '-' ? -value : value);
}

std::string YamlEntry::text() const { return as_text(value); }

std::vector<YamlEntry> parse_yaml_mapping(std::string_view text, std::string_view origin,
                                          std::vector<std::string>& warnings) {
  Reader reader{std::string(origin), &warnings};
  const YAML::Node root = reader.load(as_yaml(text));
  if (!root.IsMap()) {
    const std::string_view kind = root.IsSequence() ? "a list" : root.IsScalar() ? "a single value" : "empty";
    fail(Status::invalid_config, "{}: a configuration is a mapping (key: value), and this is {}",
         Place{std::string(origin)}, kind);
  }
  std::vector<YamlEntry> entries;
  for (const Reader::Pair& pair : reader.pairs(root, 0)) {
    YamlEntry entry{pair.key, pair.line, pair.column, nullptr};
    if (pair.value.IsScalar()) {
      entry.value = pair.value.Scalar();
      entry.plain = !is_text(pair.value);
    } else {
      entry.value = reader.convert(pair.value, 1);
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

base::Json parse_flow(std::string_view text, std::string_view key) {
  try {
    Reader reader{std::string(key)};
    return reader.convert(reader.load(as_yaml(text)), 0);
  } catch (const Error& error) {
    throw Error(Status::invalid_config, error.message(), std::string(key));
  }
}

}  // namespace trl::config
