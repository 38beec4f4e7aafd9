package trl_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"libtrl/trl"
)

// vault has files in memory, by their path below its name.
type vault struct {
	files          map[string][]byte
	done, dropped  []string
	onRead, onData func() error // nil: nothing happens
}

func (v *vault) Read(file string, offset int64, buffer []byte) (int64, error) {
	if v.onRead != nil {
		if err := v.onRead(); err != nil {
			return 0, err
		}
	}
	data, ok := v.files[file]
	if !ok {
		return 0, fmt.Errorf("%s: %w", file, fs.ErrNotExist)
	}
	if buffer == nil {
		return int64(len(data)), nil
	}
	return int64(copy(buffer, data[offset:])), nil
}

func (v *vault) Write(what trl.WriteKind, file string, offset int64, data []byte) error {
	switch what {
	case trl.WriteData:
		if v.onData != nil {
			if err := v.onData(); err != nil {
				return err
			}
		}
		v.files[file] = append(v.files[file][:offset], data...)
	case trl.WriteDone:
		v.done = append(v.done, file)
	case trl.WriteDropped:
		v.dropped = append(v.dropped, file)
	}
	return nil
}

func (v *vault) folder(name string) (files int) {
	for file := range v.files {
		if strings.HasPrefix(file, name+"/") {
			files++
		}
	}
	return files
}

// take makes a vault that has the files of a model in the folder "model".
func take(t *testing.T) *vault {
	t.Helper()
	taken := &vault{files: map[string][]byte{}}
	for _, entry := range must(os.ReadDir(model))(t) {
		taken.files[path.Join("model", entry.Name())] = must(os.ReadFile(filepath.Join(model, entry.Name())))(t)
	}
	return taken
}

func TestHostMounts(t *testing.T) {
	taken, runtimes := take(t), must(trl.NewRuntime(nil))(t)
	is(t, runtimes.Mount("no/name", taken.Read, nil), trl.EInvalidArgument)
	check(t, runtimes.Mount("vault", taken.Read, taken.Write))
	is(t, runtimes.Mount("vault", taken.Read, nil), trl.EInvalidArgument)
	rows := must(trl.DatasetFromRows(runtimes, eightRows(), nil))(t)
	want := must(must(trl.OpenTokenizer(nil, model, nil))(t).Encode("the kernel", true))(t)
	opened := must(trl.OpenTokenizer(runtimes, "host://vault/model", nil))(t)
	equal(t, must(opened.Encode("the kernel", true))(t), want)
	other := must(trl.OpenTokenizer(nil, "host://vault/model", nil))(t) // whatever the runtime
	equal(t, must(other.Encode("the kernel", true))(t), want)
	_, err := trl.OpenTokenizer(nil, "host://vault/nothing", nil)
	is(t, err, trl.ENotFound)

	oops := errors.New("in a read")
	taken.onRead = func() error { return oops }
	_, err = trl.OpenTokenizer(nil, "host://vault/model", nil)
	is(t, err, oops)
	is(t, err, trl.ECallback)
	taken.onRead = func() error { panic(oops) }
	panics(t, oops, func() { trl.OpenTokenizer(nil, "host://vault/model", nil) })
	taken.onRead = nil

	check(t, runtimes.Close())
	must(trl.OpenTokenizer(nil, "host://vault/model", nil))(t) // as long as what was made with the runtime
	check(t, rows.Close())
	must(trl.OpenTokenizer(nil, "host://vault/model", nil))(t)
	check(t, opened.Close())
	_, err = trl.OpenTokenizer(nil, "host://vault/model", nil)
	is(t, err, trl.ENotFound)
	again := must(trl.NewRuntime(nil))(t)
	check(t, again.Mount("vault", nil, nil))
	_, err = trl.OpenTokenizer(nil, "host://vault/model", nil)
	is(t, err, trl.ENotFound)
	check(t, again.Close())
}

// A mount stays until somebody closes its runtime.
func TestHostMountsAreNotCollected(t *testing.T) {
	name := fmt.Sprint("forgotten", time.Now().UnixNano())
	func() { check(t, must(trl.NewRuntime(nil))(t).Mount(name, take(t).Read, nil)) }()
	for i := 0; i < 5; i++ {
		runtime.GC()
	}
	must(trl.OpenTokenizer(nil, "host://"+name+"/model", nil))(t)
}

func TestEngineMounts(t *testing.T) {
	taken, runtime := take(t), must(trl.NewRuntime(nil))(t)
	defer runtime.Close()
	check(t, runtime.Mount("mine", taken.Read, taken.Write))
	keys := keysOf(t.TempDir(), trl.Keys{"model_name_or_path": "host://mine/model"})
	rows := must(trl.DatasetFromRows(nil, few, nil))(t)
	trainer, plain := must(trl.NewTrainer(nil, keys, rows, nil))(t), newTrainer(t, nil, few, nil)
	equal(t, must(trainer.Step(background))(t), must(plain.Step(background))(t))
	check(t, trainer.Save("host://mine/checkpoint", trl.Keys{"save.kind": "checkpoint"}))
	check(t, trainer.Save("host://mine/saved", nil))
	equal(t, []any{taken.done, len(taken.dropped), taken.folder("saved") > 3}, []any{[]string{"checkpoint", "saved"}, 0, true})
	keys["resume_from_checkpoint"] = "host://mine/checkpoint"
	resumed := must(trl.NewTrainer(nil, keys, rows, nil))(t)
	equal(t, must(resumed.Step(background))(t), must(trainer.Step(background))(t))
	saved := must(trl.OpenModel(nil, "host://mine/saved", nil))(t)
	check(t, saved.Save(filepath.Join(t.TempDir(), "copy"), nil))

	oops := errors.New("in a write")
	taken.onData = func() error { return oops }
	err := trainer.Save("host://mine/failed", nil)
	is(t, err, oops)
	is(t, err, trl.ECallback)
	taken.onData = func() error { panic(oops) }
	panics(t, oops, func() { trainer.Save("host://mine/panicked", nil) })
	equal(t, []any{taken.dropped, len(taken.done)}, []any{[]string{"failed", "panicked"}, 2})
	check(t, runtime.Mount("closed", taken.Read, nil))
	is(t, trainer.Save("host://closed/saved", nil), trl.EIO)
}
