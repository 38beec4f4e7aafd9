// Reads settings as transformers 5 does: special_tokens_map.json and added_tokens.json count only without
// added_tokens_decoder, and the former then wins over tokenizer_config.json; files of chat templates win over
// those in tokenizer_config.json.
#include "text/tokenizer/settings.h"

#include <algorithm>
#include <unordered_set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/number.h"
#include "base/text/utf8.h"
#include "text/tokenizer/vocabulary.h"

namespace trl::text {

namespace {
using base::Json;
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kMap = "special_tokens_map.json";
constexpr const char* kAdded = "added_tokens.json";
constexpr size_t kMaxNames = 1024;  // bos_token, eos_token ...; the largest known map has about 20

Json read_object(const Files& files, const char* name, const std::string& directory) {
  const std::string* text = find_file(files, name);
  return text ? read_small_json(*text, base::join_path(directory, name)) : Json::object();
}

// A token is written as its text or as an object with its flags.
AddedToken read_named(const Field& field) {
  AddedToken token;
  if (field.is_object()) {
    token = read_added_token(field);
  } else {
    token.content = field.text();
    token.normalized = false;
  }
  token.special = true;
  return token;
}

void read_added(const Field& field, std::map<int32_t, AddedToken>& added) {
  if (!field.is_object())
    fail(Status::format, "{}: {} instead of an object", field.where(), kind_of(field.value()));
  for (const auto& [key, value] : field.value().items()) {
    const Field token(value, field.where() + "." + key);
    const std::optional<int64_t> id = base::parse_int64(key);
    if (!id || *id < 0 || *id > kMaxTokenId)
      fail(Status::format, "{}: '{}' is not a token id: 0 to {} are read", field.where(), key, kMaxTokenId);
    added[static_cast<int32_t>(*id)] = read_added_token(token);
  }
}

// Token to id: the format before added_tokens_decoder.
void read_added_file(const Field& file, Settings& settings) {
  settings.added_yields = true;
  std::unordered_set<std::string_view> special;
  for (const std::vector<AddedToken>* tokens : {&settings.named, &settings.extra})
    for (const AddedToken& token : *tokens) special.insert(token.content);
  for (const auto& [content, id] : file.value().items()) {
    AddedToken token;
    token.content = content;
    token.special = special.contains(content);
    token.normalized = !token.special;
    const Field field(id, fmt::format("{}: '{}'", file.where(), content));
    settings.added[static_cast<int32_t>(field.integer(0, kMaxTokenId))] = token;
  }
}

void read_tokens(const Field& config, Settings& settings) {
  const std::pair<const char*, std::optional<std::string>*> roles[] = {{"bos_token", &settings.special.bos},
                                                                       {"eos_token", &settings.special.eos},
                                                                       {"unk_token", &settings.special.unk},
                                                                       {"sep_token", nullptr},
                                                                       {"pad_token", &settings.special.pad},
                                                                       {"cls_token", nullptr},
                                                                       {"mask_token", nullptr}};
  for (const auto& [key, role] : roles) {  // in this order new ones get their ids
    const std::optional<Field> field = config.find(key);
    if (!field) continue;
    settings.named.push_back(read_named(*field));
    if (role)
      *role = settings.named.back().content;
    else
      settings.special.others[key] = settings.named.back().content;
  }
  const auto add_role = [&](const std::string& name, const Field& token) {  // that only this model has
    settings.named.push_back(read_named(token));
    settings.special.others[name] = settings.named.back().content;
  };
  for (const auto& [key, value] : config.value().items()) {
    const Field field(value, config.where() + "." + key);
    const bool known =
        std::any_of(std::begin(roles), std::end(roles), [&](const auto& role) { return role.first == key; });
    if (key == "additional_special_tokens" || key == "extra_special_tokens") {
      if (value.is_array())
        for (const Field& token : field.list()) settings.extra.push_back(read_named(token));
      else if (value.is_object())
        for (const auto& [name, token] : value.items())
          add_role(name, Field(token, field.where() + "." + name));
    } else if (key.ends_with("_token") && (value.is_string() || value.is_object()) && !known) {
      add_role(key, field);  // as image_token
    }
  }
}

Json sentinels(const Field& config) {
  constexpr int64_t kMost = 10'000;
  const std::optional<Field> count = config.find("extra_ids");
  Json tokens = Json::array();
  for (int64_t i = 0; i < (count ? count->integer(0, kMost) : 100); ++i)
    tokens.push_back(fmt::format("<extra_id_{}>", i));
  return tokens;
}

// Adds a class's own tokens, as if the files named them.
void put_defaults(Json& config, const ClassRow& row, const std::string& where) {
  const DefaultTokens& own = row.tokens;
  const std::pair<const char*, const char*> tokens[] = {
      {"bos_token", own.bos}, {"eos_token", own.eos}, {"unk_token", own.unk},  {"sep_token", own.sep},
      {"pad_token", own.pad}, {"cls_token", own.cls}, {"mask_token", own.mask}};
  for (const auto& [key, text] : tokens) {
    if (!text || config.contains(key)) continue;
    config[key] = *text ? Json(text) : Json(nullptr);
  }
  if (row.sentinels && !config.contains("extra_special_tokens") &&
      !config.contains("additional_special_tokens"))
    config["extra_special_tokens"] = sentinels(Field(config, where));
  if (!row.infilling) return;
  const std::pair<const char*, const char*> infilling[] = {{"prefix_token", "\xE2\x96\x81<PRE>"},
                                                           {"middle_token", "\xE2\x96\x81<MID>"},
                                                           {"suffix_token", "\xE2\x96\x81<SUF>"},
                                                           {"eot_token", "\xE2\x96\x81<EOT>"},
                                                           {"fill_token", "<FILL_ME>"}};
  for (const auto& [key, text] : infilling)
    if (!config.contains(key)) config[key] = text;
}

std::optional<Settings::Around> read_around(const Field& config, Surround surround) {
  const auto token = [&](const char* key) -> std::optional<std::string> {
    const std::optional<Field> field = config.find(key);
    return field ? std::optional(read_named(*field).content) : std::nullopt;
  };
  if (surround == Surround::file) return std::nullopt;
  if (surround == Surround::cls_sep) return Settings::Around{token("cls_token"), token("sep_token")};
  const bool both = surround == Surround::bos_eos;
  Settings::Around around;
  if (both || surround == Surround::bos) around.before = token("bos_token");
  if (both || surround == Surround::eos) around.after = token("eos_token");
  return around;
}

using Templates = std::map<std::string, std::string>;

// A string, a list of {"name", "template"}, or an object of them.
Templates read_templates(const Field& field) {
  Templates templates;
  if (field.value().is_string())
    templates["default"] = field.text();
  else if (field.is_object())
    for (const auto& [name, text] : field.value().items())
      templates[name] = Field(text, field.where() + "." + name).text();
  else
    for (const Field& item : field.list()) templates[item.at("name").text()] = item.at("template").text();
  return templates;
}

// "default" of chat_template.jinja, NAME of additional_chat_templates/NAME.jinja; empty: another file.
std::string template_name(std::string_view file) {
  if (file == kTemplate) return "default";
  const std::string folder = std::string(kMoreTemplates) + "/";
  if (!file.starts_with(folder) || !file.ends_with(kTemplateEnding)) return {};
  return std::string(file.substr(folder.size(), file.size() - folder.size() - kTemplateEnding.size()));
}

Templates read_template_files(const Files& files, const std::string& directory) {
  Templates templates;
  for (const auto& [name, text] : files) {
    const std::string key = template_name(name);
    if (key.empty()) continue;
    if (const size_t bad = base::find_invalid_utf8(text); bad != base::kValid)
      fail(Status::format, "{}: invalid UTF-8 at byte {}", Place::in(base::join_path(directory, name)), bad);
    templates[key] = text;
  }
  return templates;
}

void put_token(Json& config, const char* key, const std::optional<std::string>& token) {
  if (token) config[key] = *token;
}

// Puts tokens into added_tokens_decoder. special_tokens_map.json does not count together with that: its names
// move.
void put_added(Json& config, const Json& map, const std::map<int32_t, AddedToken>& added) {
  if (!config.contains("added_tokens_decoder")) {
    for (const auto& [key, value] : map.items()) config[key] = value;
    config["added_tokens_decoder"] = Json::object();
  }
  auto& entries = static_cast<Json::object_t::Container&>(
      config["added_tokens_decoder"].get_ref<Json::object_t&>());  // to find one takes a step for each
  std::unordered_set<std::string> known;
  for (const auto& [key, value] : entries) known.insert(key);
  for (const auto& [id, token] : added) {
    if (!known.insert(std::to_string(id)).second) continue;
    entries.emplace_back(std::to_string(id), Json{{"content", token.content},
                                                  {"lstrip", token.lstrip},
                                                  {"normalized", token.normalized},
                                                  {"rstrip", token.rstrip},
                                                  {"single_word", token.single_word},
                                                  {"special", token.special}});
  }
}

void replace_file(Files& files, const char* name, std::string text) {
  for (auto& [existing, bytes] : files) {
    if (existing != name) continue;
    bytes = std::move(text);
    return;
  }
  files.emplace_back(name, std::move(text));
}
}  // namespace

const std::string* find_file(const Files& files, std::string_view name) {
  const auto found = std::ranges::find_if(files, [&](const auto& file) { return file.first == name; });
  return found == files.end() ? nullptr : &found->second;
}

namespace {

Settings settings_of(const Files& files, const std::string& directory, const ClassRow* row) {
  Json config = read_object(files, kConfig, directory);
  Settings settings;
  const Field root(config, base::join_path(directory, kConfig));
  const std::optional<Field> added = root.find("added_tokens_decoder");
  if (added) {
    read_added(*added, settings.added);
  } else {
    const Json map = read_object(files, kMap, directory);
    if (map.size() > kMaxNames)
      fail(Status::format, "{}: {} tokens by name: at most {} are read",
           Place::in(base::join_path(directory, kMap)), map.size(), kMaxNames);
    for (const auto& [key, value] : map.items()) config[key] = value;
  }
  settings.lists_added = added.has_value();
  if (row) put_defaults(config, *row, root.where());
  read_tokens(root, settings);
  if (row) settings.around = read_around(root, row->surround);
  if (row) settings.plain = row->plain;
  if (!added) {
    const Json tokens = read_object(files, kAdded, directory);
    const std::string path = base::join_path(directory, kAdded);
    reading(path, [&] { read_added_file(Field(tokens, path), settings); });
  }
  settings.names_pad = config.contains("pad_token");
  if (const auto field = root.find("add_prefix_space")) settings.add_prefix_space = field->boolean();
  if (const auto field = root.find("add_bos_token")) settings.add_bos = field->boolean();
  if (const auto field = root.find("add_eos_token")) settings.add_eos = field->boolean();
  settings.legacy = root.boolean_or("legacy", false);
  settings.cleaning.lowercase = root.boolean_or("do_lower_case", true);
  settings.cleaning.ideographs = root.boolean_or("tokenize_chinese_chars", true);
  if (const auto field = root.find("strip_accents")) settings.cleaning.strip_accents = field->boolean();
  settings.chat_templates = read_template_files(files, directory);
  if (const std::optional<Field> field = root.find("chat_template"); field && settings.chat_templates.empty())
    settings.chat_templates = read_templates(*field);
  std::erase_if(settings.chat_templates, [](const auto& named) { return named.second.empty(); });
  return settings;
}

}  // namespace

Settings read_settings(const Files& files, const std::string& directory, const ClassRow* row) {
  return reading(base::join_path(directory, kConfig), [&] { return settings_of(files, directory, row); });
}

Files with_listed(Files files, const std::map<int32_t, AddedToken>& added) {
  Json config = read_object(files, kConfig, {});
  put_added(config, read_object(files, kMap, {}), added);
  replace_file(files, kConfig, config.dump(2) + "\n");
  return files;
}

Files with_overrides(Files files, const Tokenizer::Overrides& overrides,
                     const std::map<int32_t, AddedToken>& added) {
  const bool tokens = overrides.eos || overrides.pad;
  Json config = read_object(files, kConfig, {});
  const bool moves_template = overrides.chat_template && config.contains("chat_template");
  if (!find_file(files, kConfig) && find_file(files, "tokenizer.json"))
    config["tokenizer_class"] = "PreTrainedTokenizerFast";
  if (tokens && !added.empty()) put_added(config, read_object(files, kMap, {}), added);
  if (tokens || moves_template) {
    put_token(config, "eos_token", overrides.eos);
    put_token(config, "pad_token", overrides.pad);
    if (moves_template) config.erase("chat_template");
    replace_file(files, kConfig, config.dump(2) + "\n");
  }
  if (tokens && find_file(files, kMap)) {
    Json map = read_object(files, kMap, {});
    put_token(map, "eos_token", overrides.eos);
    put_token(map, "pad_token", overrides.pad);
    replace_file(files, kMap, map.dump(2) + "\n");
  }
  if (overrides.chat_template) {
    std::erase_if(files, [](const auto& file) { return !template_name(file.first).empty(); });
    replace_file(files, kTemplate, *overrides.chat_template);
  }
  return files;
}

}  // namespace trl::text
