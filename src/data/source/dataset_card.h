// Reads the README.md of a dataset's directory: the configurations in its YAML header, each with the files of
// its splits, as the datasets library does.
#pragma once
#include <string_view>

#include "config/dataset/datasets.h"

namespace trl::data {

// Applies the card of an entry that names a directory: the files of its configuration become its data_files,
// by split. Returns whether it did. An entry that names files itself, or a folder within the directory, stays
// as it is. Throws Error(invalid_config) with the key for an unknown configuration, or if the card has
// several, the entry names no configuration and none of them is the default; Error(format) for a header that
// is not YAML.
bool apply_card(std::string_view key, config::DatasetEntry& entry);

// Checks that the card has the entry's splits; call after apply_card returned true.
void check_card_splits(const config::DatasetEntry& entry);
bool card_has_splits(const config::DatasetEntry& entry);

}  // namespace trl::data
