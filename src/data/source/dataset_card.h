// What the README.md of a dataset's directory says about its files: the configurations in its YAML header,
// each with the files of its splits, as the datasets library reads them.
#pragma once
#include <string_view>

#include "config/mixture.h"

namespace trl::data {

// An entry that names a directory with such a card: the files of its configuration become its data_files, by
// split. True: it did. An entry that names files itself, or a folder within the directory, stays as it is.
// Throws Error(invalid_config) with the key for a configuration that is not there, or where there are several
// and none is named or the default one, and Error(format) for a header that is not YAML.
bool apply_card(std::string_view key, config::DatasetEntry& entry);

// That the entry's splits are among those of its card; after apply_card returned true.
void check_card_splits(const config::DatasetEntry& entry);
bool card_has_splits(const config::DatasetEntry& entry);

}  // namespace trl::data
