// All that needs the network. A build without libcurl (TRL_HUB=OFF) has them too, and they refuse.
#pragma once
#include "cli/hub/api.h"
#include "cli/hub/download.h"
