// Chooses the files of a repository to download. Pickles are never chosen: opening one runs the code in it.
#pragma once
#include <string>
#include <vector>

#include "cli/hub/listing.h"
#include "cli/hub/repo.h"

namespace trl::cli::hub {

struct Want {
  enum class Part { all, text, rows } part = Part::all;  // text: only a model's tokenizer and configuration
  std::string file;                                      // for a model: only this GGUF file, or empty
  bool configured = false;                               // rows: only one configuration
  std::string config;                                    // its name; empty: the default one
  bool parquet = true;                                   // rows: whether Parquet files can be read
};

// Returns the chosen files. card: the text of a dataset's README.md, or empty. Throws HubError, with the
// reason, if no usable file is left.
Listing select(const Listing& listing, const Repo& repo, const Want& want, const std::string& card);

// Returns the GGUF file among the files of a model, or nothing if they are a directory that is opened whole.
const HubFile* gguf_of(const Listing& taken);

}  // namespace trl::cli::hub
