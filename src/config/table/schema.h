// The JSON schema (draft 2020-12) of a configuration file, made from the option table.
#pragma once
#include <string>
#include <string_view>

namespace trl::config {

// trainer: the keys that it has, with its values; empty: all keys. Config::load_file is more lenient than the
// schema: it also takes older names of values, dashes in keys, 0 and 1 as booleans, quoted numbers and
// booleans, and unquoted texts. It refuses two things that the schema allows: a size as text that is out of
// range, and one option under two names.
std::string schema(std::string_view trainer);

}  // namespace trl::config
