package trl_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"libtrl/trl"
)

func online(t *testing.T, more trl.Keys, rewards ...trl.RolloutFunc) *trl.Trainer {
	t.Helper()
	keys := trl.Keys{"method": "grpo", "num_generations": 2, "max_completion_length": 5, "max_steps": 2}
	for key, value := range more {
		keys[key] = value
	}
	var sums []trl.Row
	for a := 0; a < 4; a++ {
		sums = append(sums, trl.Row{"prompt": fmt.Sprintf("%d + 1 =", a), "target": a + 1})
	}
	trainer := newTrainer(t, nil, sums, keys)
	for i, reward := range rewards {
		check(t, trainer.AddReward(fmt.Sprintf("reward%d", i), reward))
	}
	return trainer
}

func ones(rollout *trl.Rollout) error {
	for i := 0; i < rollout.Count(); i++ {
		if err := rollout.SetReward(i, 1); err != nil {
			return err
		}
	}
	return nil
}

func TestEngineRewards(t *testing.T) {
	answered := make(chan *trl.Rollout, 10)
	set := func(rollout *trl.Rollout) error {
		for i := 0; i < rollout.Count(); i++ {
			reward := math.NaN()
			if i == 0 {
				reward = 1
			}
			if err := rollout.SetReward(i, reward); err != nil {
				return err
			}
			if err := rollout.SetValue(i, "note", map[string]int{"index": i}); err != nil {
				return err
			}
		}
		if _, err := rollout.Row(rollout.Count()); !errors.Is(err, trl.EInvalidArgument) {
			return fmt.Errorf("a row past the end: %v", err)
		}
		return rollout.Log("mine", 2)
	}
	later := func(rollout *trl.Rollout) error {
		go func() {
			for i := 0; i < rollout.Count(); i++ {
				if err := rollout.SetReward(i, 0.5); err != nil {
					t.Error(err)
				}
			}
			if err := rollout.Finish(nil); err != nil {
				t.Error(err)
			}
			answered <- rollout
		}()
		return trl.Later
	}
	trainer := online(t, trl.Keys{"logging_strategy": "steps", "logging_steps": 1}, set, later)
	must(trainer.Train(background, nil))(t)
	record := unpack(t, must(trainer.Describe())(t))["log_history"].([]any)[0].(map[string]any)
	equal(t, []any{record["rewards/reward1/mean"], record["mine"]}, []any{0.5, 2.0})
	equal(t, (<-answered).Count(), 0)
	is(t, trainer.AddReward("reward0", ones), trl.EInvalidConfig)
	is(t, newTrainer(t, nil, few, nil).AddReward("reward", ones), trl.EInvalidArgument)
}

func TestEngineAFailureMayCountAsNone(t *testing.T) {
	asked := 0
	fails := func(*trl.Rollout) error {
		asked++
		return errors.New("in a reward")
	}
	trainer := online(t, trl.Keys{"on_reward_error": "none", "logging_strategy": "steps", "logging_steps": 1}, fails, ones)
	must(trainer.Train(background, nil))(t)
	equal(t, asked, 2)
	record := unpack(t, must(trainer.Describe())(t))["log_history"].([]any)[1].(map[string]any)
	equal(t, record["rewards/reward1/mean"], 1.0)
}

func TestEngineRewardsFail(t *testing.T) {
	oops, times := errors.New("in a reward"), 0
	trainer := online(t, nil, func(rollout *trl.Rollout) error {
		switch times++; times {
		case 1:
			return oops
		case 2:
			panic(oops)
		}
		return ones(rollout)
	})
	_, err := trainer.Step(background)
	is(t, err, oops)
	panics(t, oops, func() { trainer.Step(background) })
	equal(t, must(trainer.Step(background))(t)["step"], 1.0)
	_, err = online(t, nil, func(rollout *trl.Rollout) error {
		go rollout.Finish(errors.New("the judge is away"))
		return trl.Later
	}).Step(background)
	is(t, err, trl.ECallback)
	equal(t, strings.Contains(err.Error(), "the judge is away"), true)
}

func TestEngineTheHostWritesCompletions(t *testing.T) {
	var written [][]int32
	trainer := online(t, nil, func(rollout *trl.Rollout) error {
		for i := 0; i < rollout.Count(); i++ {
			var row struct {
				Completion []int32 `json:"completion_ids"`
				Columns    struct{ Mark float64 }
			}
			text, err := rollout.Row(i)
			if err == nil {
				err = json.Unmarshal(text, &row)
			}
			if err == nil {
				err = rollout.SetReward(i, row.Columns.Mark)
			}
			if err != nil {
				return err
			}
			written = append(written, row.Completion)
		}
		return nil
	})
	check(t, trainer.SetRollout(func(rollout *trl.Rollout) error {
		if err := rollout.SetCompletion(0, trl.Written{Tokens: []int32{1, 2}, LogProbs: []float32{0}}); !errors.Is(err, trl.EInvalidArgument) {
			return fmt.Errorf("too few numbers: %v", err)
		}
		for i := 0; i < rollout.Count(); i++ {
			if err := rollout.SetCompletion(i, trl.Written{Tokens: []int32{5, 6, 7}, LogProbs: []float32{-1, -2, float32(math.NaN())},
				ByModel: []bool{true, true, false}, Columns: map[string]any{"mark": i}}); err != nil {
				return err
			}
		}
		return nil
	}))
	must(trainer.Step(background))(t)
	equal(t, written, [][]int32{{5, 6, 7}, {5, 6, 7}})

	trainer = online(t, nil, ones)
	generator := generatorOf(t, trainer)
	options := must(trl.NewConfig(trl.Keys{"generate.max_new_tokens": 4}))(t)
	check(t, trainer.SetRollout(func(rollout *trl.Rollout) error {
		for i := 0; i < rollout.Count(); i++ {
			var row struct {
				Prompt []int32 `json:"prompt_ids"`
			}
			text, err := rollout.Row(i)
			if err == nil {
				err = json.Unmarshal(text, &row)
			}
			first := 0
			if err == nil {
				first, err = generator.AddTokens(row.Prompt, options)
			}
			for err == nil {
				err = generator.Step(nil)
			}
			if err != io.EOF {
				return err
			}
			done, err := generator.Take(first, 1)
			if err == nil {
				err = rollout.SetCompletion(i, trl.Written{Tokens: done[0].Tokens})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	must(trainer.Step(background))(t)
}

func TestEngineTools(t *testing.T) {
	var tools []any
	check(t, json.Unmarshal([]byte(`[{"type": "function", "function": {"name": "add", "description": "Adds.",
		"parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}}]`), &tools))
	type message map[string]any
	chats := []trl.Row{{"prompt": []message{{"role": "user", "content": "One?"}}}, {"prompt": []message{{"role": "user", "content": "Two?"}}}}
	stops := make([]int, 96)
	for i := range stops {
		stops[i] = i
	}
	trainer := newTrainer(t, nil, chats, trl.Keys{"method": "grpo", "num_generations": 2, "max_steps": 2, "tools": tools,
		"tool_call_parser": "host", "max_completion_length": 200, "generation_kwargs": map[string]any{"stop_token_ids": stops}})
	check(t, trainer.AddReward("one", ones))
	called, calls := map[int]bool{}, []any{}
	check(t, trainer.SetTools(func(rollout *trl.Rollout) error {
		for i := 0; i < rollout.Count(); i++ {
			var row struct {
				Ask   string
				Place int
				Calls []any
			}
			text, err := rollout.Row(i)
			if err == nil {
				err = json.Unmarshal(text, &row)
			}
			name, answer := "message", any(message{"role": "assistant", "content": "I add."})
			if row.Ask == "call" {
				calls = append(calls, row.Calls...)
				results := make([]int, len(row.Calls))
				name, answer = "results", results
			} else if !called[row.Place] {
				called[row.Place] = true
				answer = message{"role": "assistant", "content": "I add.", "tool_calls": []message{
					{"type": "function", "function": message{"name": "add", "arguments": message{"a": 1}}}}}
			}
			if err == nil {
				err = rollout.SetValue(i, name, answer)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	must(trainer.Step(background))(t)
	want := any(map[string]any{"name": "add", "arguments": map[string]any{"a": 1.0}})
	if !reflect.DeepEqual(calls, []any{want, want}) {
		t.Fatal(calls)
	}
}
