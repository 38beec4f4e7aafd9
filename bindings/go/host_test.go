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
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"libtrl/trl"
)

const (
	source = "../.."
	model  = source + "/tests/golden/models/qwen2"
	file   = source + "/tests/golden/data/datasets/train_lm.jsonl"
)

var background = context.Background()

// TestMain collects garbage all the time: what is still in use must stay.
func TestMain(m *testing.M) {
	switch child := os.Getenv("TRL_TEST_CHILD"); child {
	case "":
	case "goexit":
		leave()
	default:
		trainForever(child)
		return
	}
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(2 * time.Millisecond):
				runtime.GC()
			}
		}
	}()
	code := m.Run()
	close(over)
	os.Exit(code)
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func equal(t *testing.T, have, want any) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Fatalf("%v is not %v", have, want)
	}
}

// is demands an error with a status.
func is(t *testing.T, err error, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("the error is %v, not %v", err, want)
	}
}

// panics demands that a function panics with a value.
func panics(t *testing.T, want any, function func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if value := recover(); value != want {
			t.Fatalf("the panic is %v, not %v", value, want)
		}
	}()
	function()
	t.Fatal("there was no panic")
}

func unpack(t *testing.T, text json.RawMessage) map[string]any {
	t.Helper()
	var found map[string]any
	check(t, json.Unmarshal(text, &found))
	return found
}

func eightRows() (rows []trl.Row) {
	for i := 0; i < 8; i++ {
		rows = append(rows, trl.Row{"text": fmt.Sprintf("one two three four five %d", i)})
	}
	return rows
}

// given are rows of functions.
type given struct {
	rewind func() error
	next   func(record *trl.Record) error
}

func (g given) Rewind() error {
	if g.rewind == nil {
		return nil
	}
	return g.rewind()
}

func (g given) Next(record *trl.Record) error { return g.next(record) }

// endless gives one row again and again.
func endless(record *trl.Record) error { return record.Set("text", "one two three") }

func count(t *testing.T, rows trl.Rows) (int64, error) {
	t.Helper()
	dataset := must(trl.NewDataset(nil, rows, nil))(t)
	defer dataset.Close()
	return dataset.RowCount()
}

func TestHostVersion(t *testing.T) {
	number := trl.VersionNumber()
	equal(t, trl.Version(), fmt.Sprintf("%d.%d.%d", number>>16, number>>8&255, number&255))
	info := unpack(t, trl.BuildInfo())
	equal(t, info["version"], trl.Version())
	for _, feature := range info["features"].([]any) {
		equal(t, trl.HasFeature(feature.(string)), true)
	}
	equal(t, trl.HasFeature("no such feature"), false)
	equal(t, trl.HasFeature(info["features"].([]any)[0].(string)+"\x00"), false)
}

func TestHostOptions(t *testing.T) {
	config := must(trl.NewConfig(nil))(t)
	names := map[string]trl.Option{}
	for _, option := range trl.AllOptions() {
		names[option.Name()] = option
		doc, _ := option.Doc("")
		for _, text := range []string{doc, option.Section(), option.Group(), option.Since()} {
			if text == "" {
				t.Fatal(option.Name(), "has an empty text")
			}
		}
		standard, ok := option.Default("")
		kind, typed := option.Type("")
		_, accepts := option.Accepted("")
		equal(t, ok && typed && accepts && kind >= trl.TypeBoolean, true)
		equal(t, option.Origin() == "trl" || option.Origin() == "ours", true)
		equal(t, must(config.Get(option.Name()))(t), standard)
		_ = option.UnsupportedReason() + option.IgnoredReason() + option.Taken()
		for _, alias := range option.Aliases() {
			equal(t, must(config.Get(alias))(t), standard)
		}
		for _, other := range option.OtherNames() {
			equal(t, other != "", true)
		}
	}
	equal(t, len(names) > 500, true)
	rate := names["learning_rate"]
	equal(t, strings.Contains(strings.Join(rate.Trainers(), " "), "dpo"), true)
	dpo, ok := rate.Default("dpo")
	table, _ := rate.Default("")
	equal(t, ok && dpo != table, true)
	_, ok = names["num_generations"].Default("sft")
	_, typed := names["num_generations"].Type("sft")
	equal(t, []bool{ok, typed}, []bool{false, false})
	loss := names["loss_type"]
	first, _ := loss.Accepted("sft")
	second, _ := loss.Accepted("dpo")
	equal(t, first != second, true)
	first, _ = loss.Doc("sft")
	second, _ = loss.Doc("dpo")
	equal(t, first != second, true)
	number, _ := names["beta"].Type("")
	list, _ := names["beta"].Type("online_dpo")
	equal(t, []trl.OptionType{number, list}, []trl.OptionType{trl.TypeNumber, trl.TypeList})
	equal(t, names["resume_from_checkpoint"].Nullable(), true)
}

func TestHostSchemas(t *testing.T) {
	all := unpack(t, must(trl.Schema(""))(t))["properties"].(map[string]any)
	sft := unpack(t, must(trl.Schema("sft"))(t))["properties"].(map[string]any)
	equal(t, len(sft) > 0 && len(sft) < len(all), true)
	equal(t, []bool{all["num_generations"] != nil, sft["num_generations"] != nil}, []bool{true, false})
	_, err := trl.Schema("no such trainer")
	is(t, err, trl.ENotFound)
}

func TestHostConfig(t *testing.T) {
	config := must(trl.NewConfig(trl.Keys{"generate.stop": []string{"a", "<b>"}, "learning_rate": 1e-4, "bf16": false, "max_steps": 3,
		"resume_from_checkpoint": nil}))(t)
	equal(t, unpack(t, must(config.Describe())(t)), map[string]any{"generate.stop": []any{"a", "<b>"}, "learning_rate": 1e-4,
		"bf16": false, "max_steps": 3.0, "resume_from_checkpoint": nil})
	equal(t, must(config.Origin("max_steps"))(t), "set")
	check(t, config.Unset("max_steps"))
	equal(t, must(config.Origin("max_steps"))(t), "default")
	check(t, config.LoadText("learning_rate: 1e-3\nseed: 7\n"))
	equal(t, config.LoadText("") != nil, true)
	equal(t, must(config.Origin("seed"))(t), "text:2")
	is(t, config.Load("/nowhere/recipe.yaml"), trl.ENotFound)
	must(config.Warnings())(t)
}

func TestHostErrors(t *testing.T) {
	config := must(trl.NewConfig(nil))(t)
	err := config.Set("learning_rat", "1")
	is(t, err, trl.EInvalidConfig)
	var failed *trl.Error
	equal(t, errors.As(fmt.Errorf("wrapped: %w", err), &failed), true)
	equal(t, []any{failed.Key, failed.Status, failed.CallbackCode}, []any{"learning_rat", trl.EInvalidConfig, int32(0)})
	equal(t, strings.Contains(err.Error(), "learning_rate"), true)
	equal(t, errors.Is(err, trl.EInternal), false)
	equal(t, errors.Is(&trl.Error{Status: -99}, trl.EInternal), true)
	equal(t, []string{trl.EIO.String(), trl.Status(-99).Error()}, []string{"TRL_E_IO", "TRL_E_INTERNAL"})
	is(t, config.Set("output_dir", "a\x00b"), trl.EInvalidArgument)
	for _, value := range []any{math.NaN(), math.Inf(1), make(chan int)} {
		_, err = trl.NewConfig(trl.Keys{"learning_rate": value})
		is(t, err, trl.EInvalidConfig)
		equal(t, errors.As(err, &failed), true)
		equal(t, failed.Key, "learning_rate")
		equal(t, strings.HasPrefix(err.Error(), "learning_rate: "), true)
	}
	_, known := trl.AllOptions()[0].Default("sft\x00")
	equal(t, known, false)
	_, err = trl.NewConfig(trl.Keys{"learning_rate": "fast"})
	is(t, err, trl.EInvalidConfig)
	_, err = trl.OpenDataset(nil, file, trl.Keys{"learning_rate": "fast"})
	is(t, err, trl.EInvalidConfig)
	equal(t, failed.Place == nil, true)
	err = config.LoadText("seed: 1\nlearning_rate: fast\n")
	equal(t, errors.As(err, &failed) && *failed.Place == trl.Place{File: "text", Line: 2, Column: 1, Row: -1}, true)
	_, err = must(trl.DatasetFromBuffer(nil, "jsonl", []byte("{\"text\": \"a\"}\n3\n"), nil))(t).RowCount()
	equal(t, errors.As(err, &failed) && failed.Place != nil, true)
	equal(t, []int64{failed.Place.Line, failed.Place.Row}, []int64{2, 1})
	check(t, config.Close())
	check(t, config.Close())
	err = config.Set("seed", "1")
	is(t, err, os.ErrClosed)
	is(t, err, trl.EInvalidArgument)
}

func TestHostRows(t *testing.T) {
	equal(t, must(must(trl.DatasetFromRows(nil, eightRows(), nil))(t).RowCount())(t), int64(8))
	equal(t, must(must(trl.DatasetFromBuffer(nil, "csv", []byte("text\na\nb\n"), nil))(t).RowCount())(t), int64(2))
	dataset := must(trl.NewDataset(nil, trl.SliceRows(eightRows()), nil))(t)
	equal(t, must(dataset.RowCount())(t), int64(8))
	equal(t, must(dataset.RowCount())(t), int64(8))
	_, err := trl.DatasetFromBuffer(nil, "no such format", nil, nil)
	is(t, err, trl.EInvalidArgument)
}

func TestHostColumnsKeepTheirTypes(t *testing.T) {
	row := trl.Row{"messages": []map[string]string{{"role": "user", "content": "é 字 🙂"}, {"role": "assistant", "content": "a\x00b"}},
		"score": 1.5}
	tokenizer := must(trl.OpenTokenizer(nil, model, nil))(t)
	asked := must(trl.NewDataset(nil, trl.SliceRows([]trl.Row{row}), nil))(t)
	memory := must(trl.DatasetFromRows(nil, []trl.Row{row}, nil))(t)
	equal(t, must(asked.Example(tokenizer, 0, nil))(t), must(memory.Example(tokenizer, 0, nil))(t))
	ready := trl.SliceRows([]trl.Row{{"input_ids": []int32{5, 6, 7}, "labels": []int32{-100, 6, 7}}})
	batch := batchesOf(t, must(trl.NewDataset(nil, ready, nil))(t))[0]
	equal(t, strings.Contains(batch, `"input_ids":[5,6,7],"labels":[-100,6,7]`), true)
}

func batchesOf(t *testing.T, rows *trl.Dataset) (batches []string) {
	t.Helper()
	check(t, rows.VisitBatches(must(trl.OpenTokenizer(nil, model, nil))(t), 0, 100, trl.Keys{"per_device_train_batch_size": 2},
		func(batch json.RawMessage) error {
			batches = append(batches, string(batch))
			return nil
		}))
	return batches
}

func TestHostErrorsAndPanicsOfRows(t *testing.T) {
	oops := errors.New("at row 3")
	number := 0
	_, err := count(t, given{next: func(record *trl.Record) error {
		if number++; number == 3 {
			return oops
		}
		return endless(record)
	}})
	is(t, err, oops)
	is(t, err, trl.ECallback)
	_, err = count(t, given{rewind: func() error { return oops }, next: endless})
	is(t, err, oops)
	_, err = count(t, given{next: func(record *trl.Record) error { return record.Set("text", "half a character: \xed\xa0\xbd") }})
	is(t, err, trl.EFormat)
	_, err = count(t, given{next: func(record *trl.Record) error { return record.Set("text", func() {}) }})
	var unsupported *json.UnsupportedTypeError
	equal(t, errors.As(err, &unsupported), true)

	var kept *trl.Record
	panics(t, oops, func() {
		count(t, given{next: func(record *trl.Record) error {
			kept = record
			panic(oops)
		}})
	})
	is(t, kept.Set("text", "too late"), trl.EInvalidArgument)
	var missing map[string]int
	func() {
		defer func() {
			_, ok := recover().(runtime.Error)
			equal(t, ok, true)
		}()
		count(t, given{next: func(record *trl.Record) error { missing["a"] = 1; return nil }})
	}()
}

// leave is the process of TestHostGoexitIsNamed.
func leave() {
	go func() {
		rows, err := trl.NewDataset(nil, given{next: func(*trl.Record) error { runtime.Goexit(); return nil }}, nil)
		if err == nil {
			rows.RowCount()
		}
	}()
	time.Sleep(10 * time.Second)
}

func TestHostGoexitIsNamed(t *testing.T) {
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "TRL_TEST_CHILD=goexit")
	said, err := child.CombinedOutput()
	equal(t, err != nil && strings.Contains(string(said), "must not call runtime.Goexit"), true)
}

func TestHostPanicOfNil(t *testing.T) {
	said := make(chan any)
	go func() {
		defer func() { said <- recover() }()
		dataset, _ := trl.NewDataset(nil, given{next: func(*trl.Record) error { panic(nil) }}, nil)
		dataset.RowCount()
	}()
	if value := <-said; value != nil {
		if _, ok := value.(error); !ok { // a runtime.PanicNilError since Go 1.21
			t.Fatal(value)
		}
	}
}

func TestHostACallWithinAFunctionIsBusy(t *testing.T) {
	var err error
	_, outer := count(t, given{next: func(*trl.Record) error {
		if _, err := trl.NewConfig(trl.Keys{"seed": 1}); err != nil {
			return err
		}
		_, err = trl.DatasetFromRows(nil, eightRows(), nil)
		return io.EOF
	}})
	check(t, outer)
	is(t, err, trl.EBusy)
}

func TestHostConfiguredDatasets(t *testing.T) {
	train, evaluation, err := trl.OpenConfiguredDatasets(nil, must(trl.NewConfig(trl.Keys{"dataset_name": file}))(t))
	check(t, err)
	equal(t, evaluation == nil, true)
	equal(t, must(train.RowCount())(t), must(must(trl.OpenDataset(nil, file, nil))(t).RowCount())(t))
	_, evaluation, err = trl.OpenConfiguredDatasets(nil, must(trl.NewConfig(trl.Keys{"dataset_name": file, "eval_dataset_name": file}))(t))
	check(t, err)
	must(evaluation.RowCount())(t)
	_, _, err = trl.OpenConfiguredDatasets(nil, must(trl.NewConfig(trl.Keys{"dataset_name": "/nowhere.jsonl"}))(t))
	is(t, err, trl.ENotFound)
}

func TestHostBatches(t *testing.T) {
	tokenizer, rows := must(trl.OpenTokenizer(nil, model, nil))(t), must(trl.DatasetFromRows(nil, eightRows(), nil))(t)
	numbers, plot, err := rows.Profile(tokenizer, trl.Keys{"profile.max_lengths": []int{4, 16}})
	check(t, err)
	equal(t, unpack(t, numbers)["rows"], 8.0)
	equal(t, strings.Contains(plot, "\n"), true)
	two := trl.Keys{"per_device_train_batch_size": 2}
	batches := batchesOf(t, rows)
	equal(t, len(batches), 4)
	check(t, rows.VisitBatches(tokenizer, 1, 1, two, func(batch json.RawMessage) error {
		equal(t, string(batch), batches[1])
		return nil
	}))
	seen := 0
	check(t, rows.VisitBatches(tokenizer, 0, 100, two, func(json.RawMessage) error {
		if seen++; seen == 2 {
			return trl.ErrStop
		}
		return nil
	}))
	equal(t, seen, 2)
	is(t, rows.VisitBatches(tokenizer, 0, 1, two, func(json.RawMessage) error { return io.ErrUnexpectedEOF }), io.ErrUnexpectedEOF)
	is(t, rows.VisitBatches(tokenizer, 99, 1, two, func(json.RawMessage) error { return nil }), trl.EInvalidArgument)
}

func TestHostTokenizer(t *testing.T) {
	tokenizer := must(trl.OpenTokenizer(nil, model, nil))(t)
	text := "the kernel é 字 🙂 \x00 " + strings.Repeat("long ", 400)
	ids := must(tokenizer.Encode(text, true))(t)
	equal(t, must(tokenizer.Decode(ids, false))(t), text)
	equal(t, must(tokenizer.Encode("", true))(t), []int32{})
	equal(t, must(tokenizer.Decode(nil, true))(t), "")
	equal(t, must(tokenizer.Piece(must(tokenizer.Encode("e", false))(t)[0]))(t), "e")
	equal(t, unpack(t, must(tokenizer.Describe())(t))["vocab_size"] != nil, true)
	known, split := must(tokenizer.EncodeSplit("<|im_end|>", false, false))(t), must(tokenizer.EncodeSplit("<|im_end|>", false, true))(t)
	equal(t, len(known) == 1 && len(split) > 1, true)
	equal(t, must(tokenizer.Encode("<|im_end|>", false))(t), known)
	splitting := must(trl.OpenTokenizer(nil, model, trl.Keys{"split_special_tokens": true}))(t)
	equal(t, must(splitting.Encode("<|im_end|>", false))(t), split)
	_, err := tokenizer.Decode([]int32{1e9}, false)
	is(t, err, trl.EInvalidArgument)
	_, err = trl.OpenTokenizer(nil, "/nowhere", nil)
	is(t, err, trl.ENotFound)
	messages := []map[string]string{{"role": "user", "content": "hi"}}
	short := must(tokenizer.ApplyChatTemplate(messages))(t)
	long := must(tokenizer.ApplyChatTemplate(map[string]any{"messages": messages, "add_generation_prompt": true}))(t)
	equal(t, strings.HasPrefix(long, short) && strings.HasSuffix(long, "assistant\n"), true)
}

func TestHostProgress(t *testing.T) {
	runtime := must(trl.NewRuntime(nil))(t)
	rows := must(trl.OpenDataset(runtime, file, nil))(t)
	var phases []string
	check(t, runtime.SetProgress(func(phase string, done, total int64) error {
		phases = append(phases, phase)
		return nil
	}))
	must(rows.RowCount())(t)
	equal(t, phases[0], "rows")
	oops := errors.New("in progress")
	check(t, runtime.SetProgress(func(string, int64, int64) error { return oops }))
	_, err := rows.RowCount()
	is(t, err, oops)
	check(t, runtime.SetProgress(func(string, int64, int64) error { panic(oops) }))
	panics(t, oops, func() { rows.RowCount() })
	check(t, runtime.SetProgress(func(string, int64, int64) error { return trl.ErrStop }))
	_, err = rows.RowCount()
	is(t, err, trl.ECancelled)
	check(t, runtime.SetProgress(nil))
	must(rows.RowCount())(t)
}

func TestHostMemory(t *testing.T) {
	runtime := must(trl.NewRuntime(must(trl.NewConfig(nil))(t)))(t)
	now, peak, err := runtime.Memory("")
	check(t, err)
	equal(t, now <= peak, true)
	_, _, err = runtime.Memory("no such kind")
	is(t, err, trl.ENotFound)
	check(t, runtime.SetMemoryLimit(1<<40))
	check(t, runtime.SetMemoryLimit(0))
	is(t, runtime.SetMemoryLimit(-1), trl.EInvalidArgument)
	check(t, runtime.Close())
	runtime.Cancel() // nothing happens
}

func TestHostCancelFromAnotherThread(t *testing.T) {
	runtime := must(trl.NewRuntime(nil))(t)
	for _, cancel := range []func(){runtime.Cancel, trl.CancelAll} {
		var once sync.Once
		reading := make(chan struct{})
		rows := must(trl.NewDataset(runtime, given{next: func(record *trl.Record) error {
			once.Do(func() { close(reading) })
			return endless(record)
		}}, nil))(t)
		go func() {
			<-reading
			cancel()
		}()
		_, err := rows.RowCount()
		is(t, err, trl.ECancelled)
	}
	check(t, trl.Shutdown())
}

func TestHostCloseDuringACall(t *testing.T) {
	tokenizer := must(trl.OpenTokenizer(nil, model, nil))(t)
	var group sync.WaitGroup
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			for {
				if _, err := tokenizer.Encode("the kernel waits", true); err != nil {
					if !errors.Is(err, os.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		}()
	}
	time.Sleep(20 * time.Millisecond)
	check(t, tokenizer.Close())
	group.Wait()
}

// Objects that nobody closes are freed, also in circles through functions of the host.
func TestHostCirclesAreCollected(t *testing.T) {
	freed := make(chan struct{})
	func() {
		type app struct {
			runtime *trl.Runtime
			rows    *trl.Dataset
			lines   int
		}
		self := &app{runtime: must(trl.NewRuntime(nil))(t)}
		check(t, self.runtime.SetLog(func(trl.LogLevel, string, string) { self.lines++ }))
		check(t, self.runtime.SetProgress(func(string, int64, int64) error { self.lines++; return nil }))
		self.rows = must(trl.NewDataset(self.runtime, given{next: func(*trl.Record) error { self.lines++; return io.EOF }}, nil))(t)
		must(self.rows.RowCount())(t)
		data := new(bytes.Buffer) // part of the circle, with a finalizer of its own
		runtime.SetFinalizer(data, func(*bytes.Buffer) { close(freed) })
		check(t, self.runtime.SetLog(func(trl.LogLevel, string, string) { data.WriteByte(0); self.lines++ }))
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
