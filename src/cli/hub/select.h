// Which files of a repository are taken. Pickles never are: opening one runs the code in it.
#pragma once
#include <string>
#include <vector>

#include "cli/hub/listing.h"
#include "cli/hub/repo.h"

namespace trl::cli::hub {

struct Want {
  enum class Part {
    all,
    text,
    rows
  } part = Part::all;       // text: of a model its tokenizer and configuration alone
  std::string file;         // of a model: this GGUF file alone, or empty
  bool configured = false;  // rows: of one configuration alone, the one that
  std::string config;       // this names, or the default one
  bool parquet = true;      // rows: whether Parquet files can be read
};

// The files that are taken. card: the text of a dataset's README.md, or empty. Throws HubError where nothing
// of use is left, and says why.
Listing select(const Listing& listing, const Repo& repo, const Want& want, const std::string& card);

// The GGUF file among the files of a model, or nothing where they are a directory that is opened whole.
const HubFile* gguf_of(const Listing& taken);

}  // namespace trl::cli::hub
