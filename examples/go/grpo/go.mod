module example/grpo

go 1.19

require libtrl/trl v0.0.0

replace libtrl/trl => ../../../bindings/go
