module libtrl/trl

go 1.19
