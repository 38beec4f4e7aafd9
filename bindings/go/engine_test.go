package trl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"libtrl/trl"
)

var (
	few   = []trl.Row{{"text": "the kernel waits"}, {"text": "the driver wakes"}, {"text": "a page is read"}, {"text": "a lock is taken"}}
	pairs = []trl.Row{{"prompt": "one", "chosen": " two", "rejected": " four"}, {"prompt": "two", "chosen": " three", "rejected": " six"}}
)

func keysOf(folder string, more trl.Keys) trl.Keys {
	keys := trl.Keys{"model_name_or_path": model, "output_dir": folder, "max_steps": 4, "per_device_train_batch_size": 2,
		"save_strategy": "no", "logging_strategy": "no", "report_to": "none", "bf16": false}
	for key, value := range more {
		keys[key] = value
	}
	return keys
}

func newTrainer(t *testing.T, runtime *trl.Runtime, rows []trl.Row, more trl.Keys) *trl.Trainer {
	t.Helper()
	dataset := must(trl.DatasetFromRows(runtime, rows, nil))(t)
	return must(trl.NewTrainer(runtime, keysOf(t.TempDir(), more), dataset, nil))(t)
}

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

func step(t *testing.T, trainer *trl.Trainer) float64 {
	t.Helper()
	return unpack(t, must(trainer.Describe())(t))["global_step"].(float64)
}

func TestEngineEvents(t *testing.T) {
	rows := must(trl.DatasetFromRows(nil, few, nil))(t)
	trainer := must(trl.NewTrainer(nil, keysOf(t.TempDir(), nil), rows, rows))(t)
	kinds := map[trl.EventKind]int{}
	var last *trl.Event
	ran := must(trainer.Train(background, func(event *trl.Event) (trl.Answer, error) {
		kinds[event.Kind]++
		last = event
		if path, ok := event.Text("path"); ok != (event.Kind == trl.OnSave) {
			return 0, fmt.Errorf("event %d has the path %q", event.Kind, path)
		}
		if event.Kind == trl.OnStep && event.Metrics["step"] == 2 {
			return trl.EventSave | trl.EventEvaluate, nil
		}
		if event.Kind == trl.OnStep && event.Metrics["step"] == 3 {
			return trl.EventStop, nil
		}
		return 0, nil
	}))(t)
	equal(t, []any{ran, kinds[trl.OnStep], kinds[trl.OnSave] > 0, kinds[trl.OnEvaluate] > 0}, []any{true, 3, true, true})
	_, ok := last.Text("path")
	equal(t, ok, false)
	equal(t, must(trainer.Train(background, nil))(t), true)
	equal(t, must(trainer.Train(background, nil))(t), false)
	equal(t, step(t, trainer), 4.0)
}

func TestEngineErrorsAndPanicsOfEvents(t *testing.T) {
	oops, trainer := errors.New("in an event"), newTrainer(t, nil, few, nil)
	_, err := trainer.Train(background, func(event *trl.Event) (trl.Answer, error) {
		if event.Kind == trl.OnStep {
			return 0, oops
		}
		return 0, nil
	})
	is(t, err, oops)
	is(t, err, trl.ECallback)
	equal(t, step(t, trainer), 1.0)
	after := 0
	panics(t, oops, func() {
		trainer.Train(background, func(event *trl.Event) (trl.Answer, error) {
			if after++; event.Kind == trl.OnStep {
				after = 0
				panic(oops)
			}
			return 0, nil
		})
	})
	equal(t, after, 0) // no function ran after it
	_, err = trainer.Train(background, func(event *trl.Event) (trl.Answer, error) { return -7, nil })
	var failed *trl.Error
	equal(t, errors.As(err, &failed) && failed.Status == trl.ECallback && failed.CallbackCode == -7, true)
	equal(t, must(trainer.Train(background, nil))(t), true)
}

func TestEngineAPanicOfTheLogEndsARun(t *testing.T) {
	runtime := must(trl.NewRuntime(nil))(t)
	trainer := newTrainer(t, runtime, few, trl.Keys{"max_steps": 10000})
	check(t, runtime.SetLog(func(level trl.LogLevel, component, text string) { panic(component) }))
	func() {
		defer func() {
			_, ok := recover().(string)
			equal(t, ok, true)
		}()
		trainer.Train(background, func(*trl.Event) (trl.Answer, error) { return 0, nil })
	}()
	check(t, runtime.SetLog(nil))
	equal(t, step(t, trainer) < 10, true)
	lines := 0
	check(t, runtime.SetLog(func(level trl.LogLevel, component, text string) { lines++ }))
	newTrainer(t, runtime, few, nil).Train(background, nil)
	equal(t, lines > 0, true)
	equal(t, unpack(t, must(runtime.Describe())(t))["engine"] != nil, true)
}

func TestEngineContexts(t *testing.T) {
	trainer := newTrainer(t, nil, few, trl.Keys{"max_steps": 100000})
	ctx, cancel := context.WithCancel(background)
	_, err := trainer.Train(ctx, func(event *trl.Event) (trl.Answer, error) {
		if event.Kind == trl.OnTrainBegin {
			time.AfterFunc(20*time.Millisecond, cancel)
		}
		return 0, nil
	})
	is(t, err, context.Canceled)
	is(t, err, trl.ECancelled)
	_, err = trainer.Step(ctx)
	is(t, err, context.Canceled)
	before := step(t, trainer)
	for i := 0; i < 20; i++ { // whenever the end of a context comes, the next call is not ended by it
		ctx, cancel := context.WithTimeout(background, time.Duration(i)*time.Millisecond)
		if _, err := trainer.Step(ctx); err != nil {
			is(t, err, context.DeadlineExceeded)
		} else {
			before++
		}
		cancel()
		must(trainer.Step(background))(t)
		before++
	}
	equal(t, step(t, trainer), before)
	ctx, cancel = context.WithTimeout(background, 50*time.Millisecond)
	defer cancel()
	trainer.Pause()
	_, err = trainer.Step(ctx)
	is(t, err, context.DeadlineExceeded)
	trainer.Resume()
	must(trainer.Step(background))(t)
}

func TestEngineCancelFromAnotherThread(t *testing.T) {
	trainer := newTrainer(t, nil, few, trl.Keys{"max_steps": 100000})
	begun := make(chan struct{})
	go func() {
		<-begun
		trainer.Cancel()
	}()
	var once sync.Once
	_, err := trainer.Train(background, func(*trl.Event) (trl.Answer, error) {
		once.Do(func() { close(begun) })
		return 0, nil
	})
	is(t, err, trl.ECancelled)
	equal(t, errors.Is(err, context.Canceled), false)
	before := step(t, trainer)
	equal(t, must(trainer.Step(background))(t)["step"], before+1)
}

func TestEngineCloseEndsACall(t *testing.T) {
	trainer := newTrainer(t, nil, few, trl.Keys{"max_steps": 100000})
	trainer.Pause()
	time.AfterFunc(30*time.Millisecond, func() { trainer.Close() })
	_, err := trainer.Train(background, nil)
	is(t, err, trl.ECancelled)
	_, err = trainer.Step(background)
	is(t, err, os.ErrClosed)
	trainer.Cancel() // nothing happens
}

func TestEngineASecondCallIsBusy(t *testing.T) {
	trainer := newTrainer(t, nil, few, trl.Keys{"max_steps": 2})
	must(trainer.Train(background, func(*trl.Event) (trl.Answer, error) {
		for _, err := range []error{second(trainer.Evaluate(background)), second(trainer.Describe()), trainer.Save("", nil)} {
			if !errors.Is(err, trl.EBusy) {
				return 0, fmt.Errorf("the error is %v", err)
			}
		}
		return 0, nil
	}))(t)
}

func second[T any](_ T, err error) error { return err }

func TestEngineStepsEvaluationsAndSaves(t *testing.T) {
	folder := t.TempDir()
	rows := must(trl.DatasetFromRows(nil, few, nil))(t)
	trainer := must(trl.NewTrainer(nil, keysOf(t.TempDir(), trl.Keys{"max_steps": 2}), rows, rows))(t)
	must(trainer.Step(background))(t)
	equal(t, must(trainer.Evaluate(background))(t)["eval_loss"] > 0, true)
	check(t, trainer.Save(filepath.Join(folder, "checkpoint"), trl.Keys{"save.kind": "checkpoint"}))
	check(t, trainer.Save(filepath.Join(folder, "model"), nil))
	last := must(trainer.Step(background))(t)
	_, err := trainer.Step(background)
	equal(t, err, io.EOF)
	resumed := newTrainer(t, nil, few, trl.Keys{"max_steps": 2, "resume_from_checkpoint": filepath.Join(folder, "checkpoint")})
	equal(t, must(resumed.Step(background))(t), last)
	evaluator := must(trl.NewEvaluator(nil, keysOf(t.TempDir(), trl.Keys{"model_name_or_path": filepath.Join(folder, "model"),
		"sample_prompts": []string{"the"}, "sample_max_new_tokens": 2})))(t)
	equal(t, must(evaluator.Evaluate(rows))(t)["eval_loss"] > 0, true)
	var samples []map[string]string
	check(t, json.Unmarshal(must(evaluator.Complete())(t), &samples))
	equal(t, len(samples), 1)
}

func TestEnginePlansAndChecks(t *testing.T) {
	runtime := must(trl.NewRuntime(nil))(t)
	numbers, text, err := trl.Plan(nil, keysOf(t.TempDir(), nil), must(trl.DatasetFromRows(nil, few, nil))(t))
	check(t, err)
	equal(t, unpack(t, numbers)["peak_bytes"].(float64) > 0 && strings.Contains(text, "memory"), true)
	check(t, trl.Check(runtime, keysOf(t.TempDir(), nil)))
	err = trl.Check(runtime, keysOf(t.TempDir(), trl.Keys{"resume_from_checkpoint": "/nowhere"}))
	var failed *trl.Error
	equal(t, errors.As(err, &failed) && failed.Key == "resume_from_checkpoint" && failed.Status == trl.ENotFound, true)
}

func TestEngineAnyOrderOfDestruction(t *testing.T) {
	short := trl.Keys{"generate.max_new_tokens": 1}
	orders := [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}, {1, 3, 0, 2}, {0, 2, 1, 3}, {2, 1, 0, 3}}
	for _, order := range append(orders, nil) { // the last one is the collector's
		runtimes := must(trl.NewRuntime(nil))(t)
		rows := must(trl.NewDataset(runtimes, trl.SliceRows(few), nil))(t)
		trainer := must(trl.NewTrainer(runtimes, keysOf(t.TempDir(), trl.Keys{"max_steps": 2}), rows, nil))(t)
		generator := must(trainer.Generator())(t)
		closers, open := []io.Closer{runtimes, rows, trainer, generator}, []bool{true, true, true, true}
		for _, number := range order {
			check(t, closers[number].Close())
			open[number] = false
			if open[2] {
				if _, err := trainer.Step(background); err != io.EOF {
					check(t, err)
				}
			}
			if open[3] {
				must(generator.Generate(background, []string{"the"}, short, nil))(t)
			}
		}
	}
	runtime.GC()
}

// trainForever is the process of TestEngineAProcessEndsWhileAThreadTrains.
func trainForever(folder string) {
	rows, err := trl.NewDataset(nil, trl.SliceRows(few), nil)
	if err == nil {
		var trainer *trl.Trainer
		trainer, err = trl.NewTrainer(nil, keysOf(folder, trl.Keys{"max_steps": 1000000}), rows, nil)
		if err == nil {
			begun := make(chan struct{})
			var once sync.Once
			go trainer.Train(background, func(*trl.Event) (trl.Answer, error) {
				once.Do(func() { close(begun) })
				return 0, nil
			})
			<-begun
			time.Sleep(50 * time.Millisecond)
			return
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func TestEngineAProcessEndsWhileAThreadTrains(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "TRL_TEST_CHILD="+t.TempDir())
	said, err := child.CombinedOutput()
	check(t, err)
	equal(t, string(said), "")
}

func newGenerator(t *testing.T) *trl.Generator {
	t.Helper()
	opened := must(trl.OpenModel(nil, model, nil))(t)
	t.Cleanup(func() { opened.Close() })
	return must(opened.Generator(must(trl.OpenTokenizer(nil, model, nil))(t)))(t)
}

func TestEnginePromptsTogether(t *testing.T) {
	generator, tokens := newGenerator(t), map[int][]int32{}
	completions := must(generator.Generate(background, []string{"the kernel", "a page"}, trl.Keys{"generate.max_new_tokens": 4,
		"generate.num_return_sequences": 2, "generate.logprobs": 0, "generate.temperature": 1},
		func(completion int, token int32, text string) error {
			tokens[completion] = append(tokens[completion], token)
			return nil
		}))(t)
	equal(t, len(completions), 4)
	for i, completion := range completions {
		equal(t, completion.FinishReason, "length")
		equal(t, completion.Tokens, tokens[i])
		equal(t, len(unpack(t, completion.JSON)["logprobs"].([]any)), 4)
	}
	equal(t, len(must(generator.Generate(background, nil, nil, nil))(t)), 0)
}

func TestEngineErrorsOfTokens(t *testing.T) {
	generator, oops := newGenerator(t), errors.New("at a token")
	done := must(generator.Generate(background, []string{"the"}, trl.Keys{"generate.max_new_tokens": 9},
		func(int, int32, string) error { return trl.ErrStop }))(t)
	equal(t, len(done[0].Tokens), 1)
	_, err := generator.Generate(background, []string{"the", "a"}, nil, func(int, int32, string) error { return oops })
	is(t, err, oops)
	panics(t, oops, func() {
		generator.Generate(background, []string{"the"}, nil, func(int, int32, string) error { panic(oops) })
	})
	ctx, cancel := context.WithCancel(background)
	seen := 0
	_, err = generator.Generate(ctx, []string{"the"}, trl.Keys{"generate.max_new_tokens": 100}, func(int, int32, string) error {
		if seen++; seen == 3 {
			cancel()
		}
		return nil
	})
	is(t, err, context.Canceled)
	is(t, err, trl.ECancelled)
	equal(t, seen, 3)
	ctx, cancel = context.WithTimeout(background, 20*time.Millisecond)
	defer cancel()
	for err = nil; err == nil; {
		_, err = generator.Generate(ctx, []string{"the"}, trl.Keys{"generate.max_new_tokens": 100}, nil)
	}
	is(t, err, context.DeadlineExceeded)
	equal(t, len(must(generator.Generate(background, []string{"the"}, trl.Keys{"generate.max_new_tokens": 3}, nil))(t)[0].Tokens), 3)
}

func TestEngineRequests(t *testing.T) {
	generator := newGenerator(t)
	first := must(generator.Add("the kernel", trl.Keys{"generate.max_new_tokens": 3, "generate.keep": true}))(t)
	other := must(generator.AddTokens([]int32{1, 2, 3}, trl.Keys{"generate.max_new_tokens": 50}))(t)
	for tokens := 0; tokens < 6; {
		check(t, generator.Step(func(int, int32, string) error { tokens++; return nil }))
	}
	equal(t, must(generator.Take(first, 1))(t)[0].FinishReason, "length")
	check(t, generator.Extend(first, " waits", trl.Keys{"generate.max_new_tokens": 2}))
	check(t, generator.Cancel(other, 1))
	for err := error(nil); err != io.EOF; err = generator.Step(nil) {
		check(t, err)
	}
	equal(t, len(must(generator.Take(first, 1))(t)[0].Tokens), 2)
	check(t, generator.ExtendTokens(first, []int32{5}, trl.Keys{"generate.max_new_tokens": 1}))
	equal(t, must(generator.Take(other, 1))(t)[0].FinishReason, "cancelled")
	check(t, generator.Cancel(first, 1))
	check(t, generator.ReleaseMemory())
	_, err := generator.Take(other, 1)
	is(t, err, trl.ENotFound)
}

func TestEngineStreams(t *testing.T) {
	generator, options := newGenerator(t), trl.Keys{"generate.max_new_tokens": 6}
	whole := must(generator.Generate(background, []string{"the kernel"}, options, nil))(t)[0]
	stream := must(generator.Stream(background, "the kernel", options))(t)
	var tokens []int32
	for {
		token, err := stream.Next()
		if err == io.EOF {
			break
		}
		check(t, err)
		tokens = append(tokens, token.ID)
	}
	equal(t, tokens, whole.Tokens)
	equal(t, stream.Completion().Text, whole.Text)

	var text bytes.Buffer
	must(io.Copy(&text, must(generator.Stream(background, "the kernel", options))(t)))(t)
	equal(t, text.String(), whole.Text)

	stream = must(generator.Stream(background, "the kernel", options))(t)
	must(stream.Next())(t)
	check(t, stream.Close())
	check(t, stream.Close())
	equal(t, stream.Completion().FinishReason, "cancelled")
	_, err := stream.Next()
	equal(t, err, io.EOF)
	equal(t, generator.Step(nil), io.EOF)

	ctx, cancel := context.WithCancel(background)
	stream = must(generator.Stream(ctx, "the kernel", options))(t)
	must(stream.Next())(t)
	cancel()
	_, err = stream.Next()
	is(t, err, context.Canceled)
	check(t, stream.Close())
}

func TestEngineModels(t *testing.T) {
	folder := t.TempDir()
	opened := must(trl.OpenModel(nil, model, nil))(t)
	parameters := unpack(t, must(opened.Describe())(t))["parameters"]
	target := filepath.Join(folder, "model.gguf")
	check(t, trl.Convert(nil, model, target, trl.Keys{"convert.type": "f32"}))
	again := must(trl.OpenModel(nil, target, nil))(t)
	equal(t, unpack(t, must(again.Describe())(t))["parameters"], parameters)
	check(t, again.Save(filepath.Join(folder, "again"), nil))
	must(os.Stat(filepath.Join(folder, "again", "config.json")))(t)
	_, err := opened.Score([]string{"text"}, trl.TextAnswer, nil)
	is(t, err, trl.EUnsupported)
	_, err = trl.OpenModel(nil, "/nowhere", nil)
	is(t, err, trl.ENotFound)

	trainer := newTrainer(t, nil, few, trl.Keys{"use_peft": true, "lora_r": 2, "max_steps": 2, "learning_rate": 0.05,
		"lora_target_modules": "all-linear"})
	must(trainer.Train(background, nil))(t)
	adapter := filepath.Join(folder, "adapter")
	check(t, trainer.Save(adapter, nil))
	check(t, trainer.AddAdapter("other", adapter))
	must(must(trainer.Generator())(t).Generate(background, []string{"the"},
		trl.Keys{"generate.adapter": "other", "generate.max_new_tokens": 1}, nil))(t)
	check(t, trainer.RemoveAdapter("other"))
	check(t, opened.AddAdapter("mine", adapter))
	check(t, opened.UseAdapter("mine"))
	check(t, opened.MergeAdapter("mine"))
	check(t, opened.MergeAdapter(""))
	check(t, opened.UseAdapter(""))
	check(t, opened.RemoveAdapter("mine"))
	is(t, opened.UseAdapter("mine"), trl.ENotFound)

	reward := newTrainer(t, nil, pairs, trl.Keys{"method": "reward", "max_steps": 1})
	must(reward.Train(background, nil))(t)
	check(t, reward.Save(filepath.Join(folder, "scorer"), nil))
	scorer := must(trl.OpenModel(nil, filepath.Join(folder, "scorer"), nil))(t)
	both := must(scorer.Score([]string{"one two", "one\x00three"}, trl.TextAnswer, nil))(t)
	one := must(scorer.Score([]string{"one two"}, trl.TextAnswer, nil))(t)
	equal(t, math.Abs(float64(both[0]-one[0])) < 1e-5 && math.Abs(float64(both[0]-both[1])) > 1e-5, true)
	equal(t, len(must(scorer.Score(nil, trl.TextAnswer, nil))(t)), 0)
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
	generator := must(trainer.Generator())(t)
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

// Functions that hold the trainer and the generator that they were given to.
func TestEngineCirclesAreCollected(t *testing.T) {
	freed := make(chan struct{})
	func() {
		data := new(bytes.Buffer)
		runtime.SetFinalizer(data, func(*bytes.Buffer) { close(freed) })
		var trainer *trl.Trainer
		var generator *trl.Generator
		trainer = online(t, nil, func(rollout *trl.Rollout) error {
			if trainer == nil || generator == nil {
				data.WriteByte(1)
			}
			return ones(rollout)
		})
		generator = must(trainer.Generator())(t)
		must(trainer.Step(background))(t)
	}()
	for i := 0; i < 100; i++ {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Fatal("the circle is still there")
}
