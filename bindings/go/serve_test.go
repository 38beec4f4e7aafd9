package trl_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"libtrl/trl"
)

const adapter = source + "/tests/golden/trajectories/sft_lora/adapter_final"

func stateOf(t *testing.T, server *trl.Server) (state, model string) {
	t.Helper()
	var described struct {
		State  string
		Models []struct{ State string }
	}
	if err := json.Unmarshal(must(server.Describe())(t), &described); err != nil {
		t.Fatal(err)
	}
	return described.State, described.Models[len(described.Models)-1].State
}

func serve(t *testing.T, runtime *trl.Runtime) *trl.Server {
	t.Helper()
	if !trl.HasFeature("serve") {
		t.Skip("this library has no server")
	}
	server := must(trl.NewServer(runtime, trl.Keys{"serve.port": 0}))(t)
	opened := must(trl.OpenModel(nil, model, nil))(t)
	if err := server.AddModel("tiny", opened, nil, nil); err != nil {
		t.Fatal(err)
	}
	return server
}

func TestEngineAContextEndsAWaitAndNotTheServer(t *testing.T) {
	server := serve(t, nil)
	defer server.Close()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	if err := server.Wait(ctx); !errors.Is(err, trl.ECancelled) || !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if running := must(server.Running())(t); !running {
		t.Error("it has stopped")
	}
	time.AfterFunc(100*time.Millisecond, server.Cancel)
	if err := server.Wait(background); err != nil {
		t.Error(err)
	}
	if state, _ := stateOf(t, server); state != "stopped" {
		t.Error(state)
	}
}

func TestEngineClosingAServerEndsItsWait(t *testing.T) {
	server := serve(t, nil)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error)
	go func() { over <- server.Wait(background) }()
	time.Sleep(50 * time.Millisecond)
	server.Close()
	if err := <-over; err != nil && !errors.Is(err, trl.EInvalidArgument) { // closed between two looks
		t.Error(err)
	}
}

func TestEngineWhatAServerHasIsKept(t *testing.T) {
	runtime := must(trl.NewRuntime(nil))(t)
	lines := 0
	if err := runtime.SetLog(func(trl.LogLevel, string, string) { lines++ }); err != nil {
		t.Fatal(err)
	}
	server := serve(t, runtime)
	defer server.Close()
	tokenizer := must(trl.OpenTokenizer(nil, model, nil))(t)
	opened := must(trl.OpenModel(nil, model, nil))(t)
	if err := server.AddGenerator("other", must(opened.Generator(tokenizer))(t), tokenizer, nil); err != nil {
		t.Fatal(err)
	}
	opened.Close()
	tokenizer.Close()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if lines == 0 {
		t.Error("no line in the log")
	}
	if err := server.Sleep("other", 1<<32+1, ""); !errors.Is(err, trl.EInvalidArgument) {
		t.Error(err)
	}
	if err := server.Sleep("other", 2, "wait"); err != nil {
		t.Error(err)
	}
	if _, state := stateOf(t, server); state != "asleep" {
		t.Error(state)
	}
	if err := server.WakeUp("other", "weights,kv_cache"); err != nil {
		t.Error(err)
	}
	if err := server.SetAdapter("none", "style", adapter); !errors.Is(err, trl.ENotFound) {
		t.Error(err)
	}
	if err := server.Stop(0); err != nil {
		t.Error(err)
	}
}
