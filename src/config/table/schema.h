// The JSON schema (draft 2020-12) of a configuration file, made from the option table.
#pragma once
#include <string>
#include <string_view>

namespace trl::config {

// trainer: the keys that it has, with its values; empty: all keys. Each file that Config::load_file takes is
// valid, except that it also takes older names of values, dashes in keys, 0 and 1 as booleans, texts in place
// of other values, and the reverse. load_file takes every valid file, with two exceptions: a size as text
// that is out of range, which only the parser checks, and one option under two names.
std::string schema(std::string_view trainer);

}  // namespace trl::config
