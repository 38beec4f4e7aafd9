#include "cli/arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <deque>

#include "cli/nearest_flag.h"
#include "cli/output.h"

namespace trl::cli {

namespace {

struct Flag {
  std::string key;
  int32_t type;
  bool negated;  // --no_flag
  std::vector<std::string> values;
  CLI::Option* option;
};

bool contains(std::string_view list, std::string_view name) {
  while (!list.empty()) {
    const size_t comma = list.find(',');
    if (list.substr(0, comma) == name) return true;
    if (comma == std::string_view::npos) break;
    list.remove_prefix(comma + 1);
  }
  return false;
}

bool wanted(const CommandLine& line, const trl_option* option) {
  const auto has = [](const std::vector<std::string>& names, const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const char* const section = trl_option_section(option);
  const bool trains =
      !has({"convert", "estimate", "generate", "profile", "save"}, section);  // those are of other calls
  return (trains && !line.trainer.empty() && contains(trl_option_trainers(option), line.trainer)) ||
         has(line.sections, section) || has(line.keys, trl_option_name(option));
}

// "a_b" -> "--a_b,--a-b"; "generate.a_b" -> that of "a_b" for the command generate, and "--generate.a_b"
// elsewhere.
std::string spellings(std::string name, const std::string& command) {
  if (name.starts_with(command + ".")) name.erase(0, command.size() + 1);
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed == name ? "--" + name : "--" + name + ",--" + dashed;
}

// trainer: whose texts and defaults are shown; empty: the table's.
std::string help(const trl_option* option, const std::string& trainer) {
  const bool of_one = !trainer.empty() && contains(trl_option_trainers(option), trainer);
  const std::string accepted =
      of_one ? trl_option_accepted_for(option, trainer.c_str()) : trl_option_accepted(option);
  std::string text = of_one ? trl_option_doc_for(option, trainer.c_str()) : trl_option_doc(option);
  if (!accepted.empty()) text += " (" + accepted + ")";
  text += fmt::format(" [{}]",
                      of_one ? trl_option_default_for(option, trainer.c_str()) : trl_option_default(option));
  return text;
}

// Some keys are a list to one trainer and a word to the others.
int32_t type_of(const trl_option* option, const std::string& trainer) {
  const bool of_one = !trainer.empty() && contains(trl_option_trainers(option), trainer);
  const bool list = of_one && trl_option_default_for(option, trainer.c_str())[0] == '[';
  return list ? TRL_TYPE_LIST : trl_option_type(option);
}

class Flags {
 public:
  explicit Flags(const CommandLine& line)
      : app_(line.summary, "trl " + line.name), command_(line.name), trainer_(line.trainer) {
    app_.allow_extras();
    app_.set_help_flag();
    app_.add_flag("--help,-h", help_, "Show this and quit");
    app_.add_option("--config", file_, "A YAML or JSON file with any of these keys; flags win over it")
        ->type_name("FILE")
        ->take_last();
    app_.add_option("--hub", hub_,
                    "off: names of the hub are looked up in the local cache alone, without the network [on]")
        ->type_name("on|off")
        ->take_last();
    for (const TextFlag& text : line.texts) {
      app_.add_option(spellings(text.name, command_), *text.value, text.help)->type_name("TEXT")->take_last();
      texts_.push_back(text.value);
    }
    for (const Switch& one : line.switches)
      app_.add_flag(spellings(one.name, command_), *one.value, one.help);
    for (const trl_option* o = trl_option_next(nullptr); o != nullptr; o = trl_option_next(o)) {
      if (wanted(line, o) && std::string_view(trl_option_name(o)) != "config") add(o);
    }
  }

  bool parse(Words words, Config& config) {
    const std::string last = words.empty() ? "" : words.back();
    std::reverse(words.begin(), words.end());  // CLI11 takes them from the back,
    for (std::string& word : words) {          // and would take a list in brackets apart at its commas
      if (word.starts_with('[')) word.insert(0, 1, kMark);
    }
    try {
      app_.parse(words);
    } catch (const CLI::ArgumentMismatch& error) {
      std::string flag = error.what();
      flag.resize(flag.find(':'));
      if (flag.empty()) flag = last.substr(0, last.find('='));  // CLI11 has no name for an alias
      throw Failure(kUsage, flag + " needs a value");
    } catch (const CLI::ParseError& error) {
      throw Failure(kUsage, error.what());
    }
    if (help_) return true;
    unmark(file_);
    for (std::optional<std::string>* own : texts_) {
      if (own->has_value()) unmark(**own);
    }
    Error error;
    if (app_.count("--config") > 0) {
      if (file_.empty()) throw Failure(kUsage, "--config: a file is expected, and the name is empty");
      const trl_status status = trl_config_load(config.get(), file_.c_str(), error.out());
      if (status == TRL_E_FORMAT) throw Failure(kUsage, trl_error_message(error.get()));
      check(status, error);
    }
    for (std::string& word : app_.remaining()) refuse(unmark(word), config);
    for (const Flag& flag : flags_) {
      if (flag.option->count() > 0)
        check(trl_config_set(config.get(), flag.key.c_str(), text(flag).c_str(), error.out()), error);
    }
    return false;
  }

  std::string help_text() const { return app_.help(); }
  const std::string& hub() const { return hub_; }

 private:
  void add(const trl_option* o) {
    const std::string name = trl_option_name(o);
    const int32_t type = type_of(o, trainer_);
    add_flag(o, name, spellings(name, command_), type, false)->group(trl_option_section(o));
    if (type == TRL_TYPE_BOOLEAN && std::string_view(trl_option_default(o)) == "true")
      add_flag(o, name, spellings("no_" + name, command_), type, true)->group("");
    for (std::string rest = trl_option_aliases(o); !rest.empty();) {
      const size_t comma = rest.find(',');
      std::string alias = rest.substr(0, comma);
      alias.erase(0, alias.find_first_not_of(' '));
      add_flag(o, alias, spellings(alias, command_), type, false)->group("");
      rest = comma == std::string::npos ? "" : rest.substr(comma + 1);
    }
  }

  CLI::Option* add_flag(const trl_option* o, const std::string& key, const std::string& names, int32_t type,
                        bool negated) {
    Flag& flag = flags_.emplace_back(Flag{key, type, negated, {}, nullptr});
    flag.option = app_.add_option(names, flag.values, help(o, trainer_))->type_name("");
    if (type == TRL_TYPE_LIST && !negated) return flag.option->expected(1, 1 << 20);
    flag.option->take_last()->allow_extra_args(false);
    if (negated) return flag.option->expected(0);
    return type == TRL_TYPE_BOOLEAN ? flag.option->expected(0, 1) : flag.option->expected(1);
  }

  static std::string& unmark(std::string& word) {
    if (word.starts_with(kMark)) word.erase(0, 1);
    return word;
  }

  static std::string text(Flag flag) {
    for (std::string& value : flag.values) unmark(value);
    if (flag.negated) return "false";
    if (flag.values.empty() || flag.values.back().empty()) return flag.type == TRL_TYPE_BOOLEAN ? "true" : "";
    if (flag.type != TRL_TYPE_LIST || flag.values.size() == 1) return flag.values.back();
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

  // For a word that is not a flag of this command: its nearest flag is named, or else the library says which
  // key is nearest, or that the key belongs elsewhere.
  [[noreturn]] void refuse(const std::string& word, Config& config) const {
    if (!word.starts_with("--")) throw Failure(kUsage, "unexpected argument '" + word + "'");
    std::string key =
        word.substr(2, word.find('=') == std::string::npos ? std::string::npos : word.find('=') - 2);
    std::replace(key.begin(), key.end(), '-', '_');
    Error error;
    const char* value = nullptr;
    const trl_status status = trl_config_get(config.get(), key.c_str(), &value, error.out());
    const std::string near = nearest_flag(key, names());
    if (status != TRL_OK && !near.empty())
      throw Failure(kUsage, word + ": not an option of this command; the nearest is --" + near);
    check(status, error);
    throw Failure(kUsage, word + ": not an option of this command");
  }

  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const CLI::Option* option : app_.get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back(name);
    }
    return names;
  }

  static constexpr char kMark = '\x1f';  // before a bracket that begins a word
  CLI::App app_;
  std::string command_;
  std::string trainer_;  // or empty
  bool help_ = false;
  std::string file_, hub_;
  std::vector<std::optional<std::string>*> texts_;
  std::deque<Flag> flags_;  // stable addresses: CLI11 keeps pointers to the values
};

}  // namespace

std::string trainer_of(const Words& words) {
  constexpr std::string_view kFlag = "--method";
  std::string trainer = "sft";
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == kFlag && i + 1 < words.size()) trainer = words[i + 1];
    if (words[i].starts_with(std::string(kFlag) + "=")) trainer = words[i].substr(kFlag.size() + 1);
  }
  return trainer;
}

bool parse(const CommandLine& line, const Words& words, Config& config) {
  Flags flags(line);
  if (!flags.parse(words, config)) return resolve_names(config, flags.hub(), line.opens), false;
  print(flags.help_text());
  return true;
}

}  // namespace trl::cli
