package trl_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
