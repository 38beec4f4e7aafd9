#include "cli/arguments.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "cli/keys.h"
#include "cli/open_runtime.h"
#include "cli/terminal.h"

namespace trl::cli {

namespace {

struct Flag {
  std::string key;
  int32_t type;
  bool negated;   // --no_flag
  bool of_texts;  // a list of which each word is an item, with its spaces and commas
  std::vector<std::string> values;
  CLI::Option* option;
};

// Maps "a_b" to "--a_b,--a-b".
std::string spellings(const std::string& name) {
  std::string dashed = name;
  std::ranges::replace(dashed, '_', '-');
  return dashed == name ? "--" + name : "--" + name + ",--" + dashed;
}

class Flags {
 public:
  explicit Flags(const CommandLine& line) : app_(line.summary, "trl " + line.name), line_(line) {
    app_.allow_extras();
    app_.set_help_flag();
    app_.add_flag("--help,-h", help_);
    app_.add_flag("--help-all,--help_all", help_all_);
    if (line.takes_config) app_.add_option("--config", files_)->allow_extra_args(false);
    app_.add_option("--hub", hub_)->take_last();
    for (const TextFlag& text : line.texts) {
      app_.add_option(spellings(text.name), *text.value)->take_last();
      texts_.push_back(text.value);
    }
    for (const ListFlag& list : line.lists) {
      CLI::Option* const option = app_.add_option(spellings(list.name), *list.values);
      option->expected(list.given != nullptr ? 0 : 1, 1 << 20);
      lists_.push_back({list, option});
    }
    for (const Switch& one : line.switches) app_.add_flag(spellings(one.name), *one.value);
    for (const trl_option* key : keys_of(line)) add(key);
  }

  bool parse(Words words, Config& config) {
    const std::string last = words.empty() ? "" : words.back();
    need_values(words);
    std::ranges::reverse(words);     // CLI11 takes them from the back,
    for (std::string& word : words)  // and would take a list in brackets apart at its commas
      if (word.starts_with('[')) word.insert(0, 1, kMark);
    try {
      app_.parse(words);
    } catch (const CLI::ArgumentMismatch& error) {
      std::string flag = error.what();
      flag.resize(flag.find(':'));
      if (flag.empty()) flag = last.substr(0, last.find('='));  // CLI11 does not name an alias
      throw Failure(kUsage, flag + " needs a value");
    } catch (const CLI::ParseError& error) {
      throw Failure(kUsage, error.what());
    }
    if (help_ || help_all_) return true;
    for (std::string& file : files_) unmark(file);
    for (std::optional<std::string>* own : texts_)
      if (own->has_value()) unmark(**own);
    for (const auto& [list, option] : lists_) {
      for (std::string& word : *list.values) unmark(word);
      if (list.given != nullptr) *list.given = option->count() > 0;
    }
    Error error;
    load(config, error);
    take_words();
    for (const Flag& flag : flags_)
      if (flag.option->count() > 0)
        check(trl_config_set(config.get(), flag.key.c_str(), text(flag).c_str(), error.out()), error);
    return false;
  }

  std::string help_text() const {
    const int width = columns(STDOUT_FILENO);
    return help_all_ ? full_help(line_, width) : short_help(line_, width);
  }
  const std::string& hub() const { return hub_; }
  // Warns of a key that the file gives twice. Other warnings are about a run, which writes them.
  void warn_of_file(const Config& config) const {
    Error error;
    const char* json = nullptr;
    check(trl_config_get_warnings(config.get(), &json, error.out()), error);
    for (const auto& text : nlohmann::json::parse(json).get<std::vector<std::string>>())
      if (!files_.empty() && text.starts_with(files_[0] + ":")) warn_once(text);
  }

 private:
  CLI::Option* option_of(const std::string& word) {
    return word.starts_with("--") ? app_.get_option_no_throw(word.substr(0, word.find('='))) : nullptr;
  }

  // CLI11 would take the flag after a list's for the first word of the list.
  void need_values(const Words& words) {
    for (size_t i = 0; i + 1 < words.size(); ++i) {
      const CLI::Option* const list = option_of(words[i]);
      if (list == nullptr || list->get_expected_max() <= 1 || list->get_expected_min() == 0) continue;
      if (words[i].find('=') == std::string::npos && option_of(words[i + 1]) != nullptr)
        throw Failure(kUsage,
                      fmt::format("{} needs a value; one that is the name of a flag is written as {}={}",
                                  words[i], words[i], words[i + 1]));
    }
  }

  void load(Config& config, Error& error) const {
    if (files_.empty()) return;
    if (files_.size() > 1)
      throw Failure(kUsage,
                    fmt::format("--config: it is given twice, {} and {}: give one file with the keys of both",
                                files_[0], files_[1]));
    const std::string& file = files_[0];
    if (file.empty()) throw Failure(kUsage, "--config: a file is expected, and the name is empty");
    const trl_status status = trl_config_load(config.get(), file.c_str(), error.out());
    if (status == TRL_E_FORMAT) throw Failure(kUsage, trl_error_message(error.get()));
    check(status, error);
  }

  void take_words() {
    LeftWords left{line_, {}, names(), {}};
    for (std::string& word : app_.remaining()) left.words.push_back(unmark(word));
    if (line_.word != nullptr && !left.words.empty() && !left.words[0].starts_with('-')) {
      *line_.word = left.words[0];
      left.words.erase(left.words.begin());
    }
    if (left.words.empty()) return;
    for (const std::string& name : left.flags)
      if (app_.count("--" + name) > 0) left.given.push_back(name);
    refuse(left);
  }

  void add(const trl_option* o) {
    const std::string name = trl_option_name(o);
    const int32_t type = type_of(o, line_.trainer);
    const std::string flag = flag_name(name, line_.name);
    add_flag(o, name, name == "quiet" ? "-q,--quiet" : spellings(flag), type, false);
    if (type == TRL_TYPE_BOOLEAN && std::string_view(trl_option_default(o, nullptr)) == "true")
      add_flag(o, name, spellings("no_" + name), type, true);
    for (const std::string& alias : aliases_of(o)) add_flag(o, alias, spellings(alias), type, false);
  }

  void add_flag(const trl_option* o, const std::string& key, const std::string& names, int32_t type,
                bool negated) {
    const std::string_view name = trl_option_name(o);
    const bool of_texts = name == "generate.stop" || name == "generate.bad_words" ||
                          name == "generate.choice" || name == "serve.lora_modules";
    Flag& flag = flags_.emplace_back(Flag{key, type, negated, of_texts, {}, nullptr});
    flag.option = app_.add_option(names, flag.values);
    if (type == TRL_TYPE_LIST && !negated) {
      flag.option->expected(1, 1 << 20);
      // Adds sets of options to each other; for any other flag the last one counts.
      if (std::string_view(trl_option_accepted(o, nullptr)) != "key=value") flag.option->trigger_on_parse();
      return;
    }
    flag.option->take_last()->allow_extra_args(false);
    if (negated)
      flag.option->expected(0);
    else if (type == TRL_TYPE_BOOLEAN)
      flag.option->expected(0, 1);
    else
      flag.option->expected(1);
  }

  static std::string& unmark(std::string& word) {
    if (word.starts_with(kMark)) word.erase(0, 1);
    return word;
  }

  static std::string text(Flag flag) {
    for (std::string& value : flag.values) unmark(value);
    if (flag.negated) return "false";
    if (flag.values.empty()) flag.values.emplace_back();
    const std::string& last = flag.values.back();
    if (flag.type == TRL_TYPE_BOOLEAN && last.empty()) return "true";
    const auto is_json_list = [&] { return nlohmann::json::parse(last, nullptr, false).is_array(); };
    const bool is_text = flag.of_texts && last != "null" && !is_json_list();
    const bool is_list = flag.values.size() > 1 || is_text;
    if (flag.type != TRL_TYPE_LIST || !is_list) return last;
    std::string list;
    for (const std::string& value : flag.values) list += (list.empty() ? "[" : ", ") + quoted(value);
    return list + "]";
  }

  static std::string quoted(const std::string& value) {
    std::string text = "\"";
    for (const char c : value) {
      if (static_cast<unsigned char>(c) < 0x20) {
        text += fmt::format("\\u{:04x}", c);  // YAML would fold a line break
        continue;
      }
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    return text + "\"";
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app_.get_options())
      for (const std::string& name : option->get_lnames()) names.push_back(name);
    return names;
  }

  static constexpr char kMark = '\x1f';  // before a bracket that begins a word
  CLI::App app_;
  const CommandLine& line_;
  bool help_ = false, help_all_ = false;
  std::vector<std::string> files_;
  std::string hub_;
  std::vector<std::optional<std::string>*> texts_;
  std::vector<std::pair<ListFlag, CLI::Option*>> lists_;
  std::deque<Flag> flags_;  // stable addresses: CLI11 keeps pointers to the values
};

std::optional<CommandLine>* g_outline = nullptr;  // parse leaves its line here instead of parsing

}  // namespace

std::string trainer_of(const Words& words) {
  constexpr std::string_view kFlag = "--method";
  std::string trainer = default_trainer().name;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kFlag && i + 1 < words.size()) trainer = words[i + 1];
    if (words[i].starts_with(std::string(kFlag) + "=")) trainer = words[i].substr(kFlag.size() + 1);
  }
  const config::MethodRow* const known = config::find_method(trainer);
  return known != nullptr ? known->name : trainer;
}

CommandLine outline_of(const Command& command) {
  std::optional<CommandLine> line;
  g_outline = &line;
  command.run({});
  g_outline = nullptr;
  if (!line) throw std::logic_error("a command that parses nothing");
  for (TextFlag& text : line->texts) text.value = nullptr;  // the command's value, which no longer exists
  for (ListFlag& list : line->lists) {
    list.values = nullptr;
    list.given = nullptr;
  }
  for (Switch& one : line->switches) one.value = nullptr;
  line->word = line->hub = nullptr;
  return *line;
}

bool parse(const CommandLine& line, const Words& words, Config& config) {
  if (g_outline != nullptr) {
    *g_outline = line;
    return true;
  }
  Flags flags(line);
  if (flags.parse(words, config)) return print(flags.help_text()), true;
  for (const auto& [key, value] : line.defaults)
    if (origin_of(config, key.c_str()) == "default") set(config, key.c_str(), value);
  set_log_level(config);
  flags.warn_of_file(config);
  if (line.hub != nullptr) *line.hub = flags.hub();
  resolve_names(config, flags.hub(), line.opens);
  return false;
}

}  // namespace trl::cli
