// As Python's pprint breaks lines: a dict, list or tuple that does not fit has an item a line, a string that
// does not fit becomes several, broken after white space. Keys of dicts are sorted.
#include "text/chat_template/pretty_text.h"

#include <algorithm>

#include "base/text/utf8.h"
#include "text/chat_template/python.h"
#include "text/chat_template/unicode.h"

namespace trl::text::jinja {

namespace {

constexpr int64_t kWidth = 80;

int64_t width_of(std::string_view text) { return static_cast<int64_t>(base::count_code_points(text)); }

// Keys without an order between them keep their own.
bool before(const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) return a.bytes() < b.bytes();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  return type_name(a) < type_name(b);
}

Value with_sorted_keys(Run& run, const Value& value) {
  run.spend(1);
  if (value.is(Kind::mapping)) {
    auto entries = value.mapping().entries;
    std::stable_sort(entries.begin(), entries.end(),
                     [](const auto& a, const auto& b) { return before(a.first, b.first); });
    Mapping sorted;
    for (auto& [key, item] : entries) run.set(sorted, key, with_sorted_keys(run, item));
    return run.mapping(std::move(sorted));
  }
  if (!value.is_sequence(SequenceType::list) && !value.is_sequence(SequenceType::tuple)) return value;
  Values items;
  for (const Value& item : value.sequence().items) items.push_back(with_sorted_keys(run, item));
  return run.sequence(value.sequence().type, std::move(items));
}

class PrettyPrinter {
 public:
  PrettyPrinter(Run& run, Writer& out) : run_(run), out_(out) {}

  // indent: the column that the value begins in; allowance: what follows it in its last line
  void write(const Value& value, int64_t indent, int64_t allowance, int level) {
    const std::string line = repr_of(run_, value);
    if (width_of(line) <= kWidth - indent - allowance) {
      out_.append(line);
      return;
    }
    if (value.is(Kind::mapping)) {
      write_mapping(value.mapping(), indent, allowance, level);
    } else if (value.is_sequence(SequenceType::list)) {
      write_sequence("[", "]", value, indent, allowance, level);
    } else if (value.is_sequence(SequenceType::tuple)) {
      const bool one = value.sequence().items.size() == 1;
      write_sequence("(", one ? ",)" : ")", value, indent, allowance, level);
    } else if (value.is_text() && !value.text().markup && !value.bytes().empty()) {
      write_text(value.bytes(), indent, allowance, level == 0);
    } else {
      out_.append(line);
    }
  }

 private:
  void new_line(int64_t indent) {
    out_.append("\n");
    out_.append(static_cast<size_t>(indent), " ");
  }

  void write_mapping(const Mapping& mapping, int64_t indent, int64_t allowance, int level) {
    out_.append("{");
    for (size_t i = 0; i < mapping.entries.size(); ++i) {
      const auto& [key, item] = mapping.entries[i];
      const bool last = i + 1 == mapping.entries.size();
      const std::string name = repr_of(run_, key);
      out_.append(name);
      out_.append(": ");
      write(item, indent + 1 + width_of(name) + 2, last ? allowance + 1 : 1, level + 1);
      if (last) break;
      out_.append(",");
      new_line(indent + 1);
    }
    out_.append("}");
  }

  void write_sequence(std::string_view open, std::string_view close, const Value& value, int64_t indent,
                      int64_t allowance, int level) {
    const Values& items = value.sequence().items;
    out_.append(open);
    for (size_t i = 0; i < items.size(); ++i) {
      const bool last = i + 1 == items.size();
      write(items[i], indent + 1, last ? allowance + static_cast<int64_t>(close.size()) : 1, level + 1);
      if (last) break;
      out_.append(",");
      new_line(indent + 1);
    }
    out_.append(close);
  }

  std::string text_repr(std::string_view text) { return repr_of(run_, Value::text(std::string(text))); }

  // A line's words, each with the white space after it.
  static std::vector<std::string_view> words_of(std::string_view line) {
    std::vector<std::string_view> words;
    size_t begin = 0;
    bool blank = false;
    for (size_t at = 0; at < line.size();) {
      const size_t here = at;
      const bool space = is_space(base::next_code_point(line, at));
      if (blank && !space) {
        words.push_back(line.substr(begin, here - begin));
        begin = here;
      }
      blank = space;
    }
    words.push_back(line.substr(begin));
    return words;
  }

  // The pieces of a line that is wider than room; the text's last one has less room.
  void break_line(std::string_view line, int64_t room, int64_t last_room, std::vector<std::string>& pieces) {
    const auto words = words_of(line);
    std::string_view current;
    for (size_t i = 0; i < words.size(); ++i) {
      const std::string_view candidate =
          current.empty() ? words[i] : std::string_view(current.data(), current.size() + words[i].size());
      const int64_t limit = i + 1 == words.size() ? last_room : room;
      if (width_of(text_repr(candidate)) <= limit) {
        current = candidate;
        continue;
      }
      if (!current.empty()) pieces.push_back(text_repr(current));
      current = words[i];
    }
    if (!current.empty()) pieces.push_back(text_repr(current));
  }

  // outermost: in parentheses, where it has several lines
  void write_text(std::string_view text, int64_t indent, int64_t allowance, bool outermost) {
    indent += outermost ? 1 : 0;
    allowance += outermost ? 1 : 0;
    const int64_t room = kWidth - indent;
    const auto lines = split_lines(text, true);
    std::vector<std::string> pieces;
    for (size_t i = 0; i < lines.size(); ++i) {
      const int64_t last_room = i + 1 == lines.size() ? room - allowance : room;
      std::string line = text_repr(lines[i]);
      if (width_of(line) <= last_room) {
        pieces.push_back(std::move(line));
      } else {
        break_line(lines[i], room, last_room, pieces);
      }
    }
    if (pieces.size() == 1) {
      out_.append(text_repr(lines.back()));
      return;
    }
    if (outermost) out_.append("(");
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) new_line(indent);
      out_.append(pieces[i]);
    }
    if (outermost) out_.append(")");
  }

  Run& run_;
  Writer& out_;
};

}  // namespace

Value pretty_text(Run& run, const Value& value) {
  Writer out(run);
  PrettyPrinter(run, out).write(with_sorted_keys(run, value), 0, 0, 0);
  return out.value();
}

}  // namespace trl::text::jinja
