// Command learn_while_serving answers requests while it learns from corrections: learn_while_serving MODEL OUTPUT
// MODEL is a Hugging Face directory or a GGUF file; OUTPUT gets the adapter.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"

	"libtrl/trl"
)

const (
	question = "The kernel answers the"
	answer   = " driver at noon"
)

// told is what the program was told, which are the rows of the run. It reads about a thousand ahead: all that was told so
// far, again and again.
type told struct {
	lock sync.Mutex
	rows [][2]string
	next int
}

func (t *told) add(prompt, completion string) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.rows = append(t.rows, [2]string{prompt, completion})
}

func (t *told) Rewind() error { return nil }

func (t *told) Next(record *trl.Record) error {
	t.lock.Lock()
	row := t.rows[t.next%len(t.rows)]
	t.next++
	t.lock.Unlock()
	if err := record.Set("prompt", row[0]); err != nil {
		return err
	}
	return record.Set("completion", row[1])
}

// ask makes one request, token by token; the steps of the trainer go on meanwhile. It returns the step whose adapter wrote
// the last token, and the text.
func ask(generator *trl.Generator, config *trl.Config) (int, string, error) {
	number, err := generator.Add(question, config)
	for err == nil {
		err = generator.Step(nil)
	}
	if err != io.EOF {
		return 0, "", err
	}
	done, err := generator.Take(number, 1)
	if err != nil {
		return 0, "", err
	}
	var details struct {
		Weights struct {
			LastVersion int `json:"last_version"`
		}
	}
	err = json.Unmarshal(done[0].JSON, &details)
	return details.Weights.LastVersion, done[0].Text, err
}

// serve asks until the answer is right or the run is over, and returns how often it has asked.
func serve(ctx context.Context, generator *trl.Generator, config *trl.Config, rows *told, over <-chan struct{}) (int, error) {
	last := ""
	for asked := 0; ; asked++ {
		if strings.HasPrefix(last, answer) {
			return asked, nil
		}
		select {
		case <-over:
			return asked, errors.New("the run ended before it was learned")
		case <-ctx.Done():
			return asked, ctx.Err()
		default:
		}
		if asked == 20 {
			fmt.Printf("corrected: %s%s\n", question, answer)
			rows.add(question, answer)
		}
		step, text, err := ask(generator, config)
		if err != nil {
			return asked, err
		}
		if text != last {
			fmt.Printf("step %d: %s%s\n", step, question, text)
		}
		last = text
	}
}

func run(ctx context.Context, path, output string) error {
	config, err := trl.NewConfig(trl.Keys{"model_name_or_path": path, "output_dir": output, "dtype": "float32", "bf16": false,
		"use_peft": true, "lora_r": 8, "lora_target_modules": "all-linear", "serve_share": 0.5, "serve_swap": "token",
		"dataset_streaming": true, "train_sampling_strategy": "sequential", "learning_rate": 1e-2,
		"lr_scheduler_type": "constant", "max_steps": 2000, "per_device_train_batch_size": 16, "save_strategy": "no",
		"report_to": "none", "logging_strategy": "no", "generate.max_new_tokens": 8})
	if err != nil {
		return err
	}
	defer config.Close()
	rows := &told{}
	rows.add("The scheduler", " picks a task.")
	dataset, err := trl.NewDataset(nil, rows, config)
	if err != nil {
		return err
	}
	defer dataset.Close()
	trainer, err := trl.NewTrainer(nil, config, dataset, nil)
	if err != nil {
		return err
	}
	defer trainer.Close()
	model, err := trainer.Model()
	if err != nil {
		return err
	}
	defer model.Close()
	generator, err := model.Generator(nil)
	if err != nil {
		return err
	}
	defer generator.Close()

	var failed error
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, failed = trainer.Train(context.Background(), nil)
		var reason *trl.Error
		if errors.As(failed, &reason) && reason.Status == trl.ECancelled {
			failed = nil // the answer is right, and nothing is left to learn
		}
	}()
	asked, err := serve(ctx, generator, config, rows, over)
	trainer.Cancel()
	<-over
	if failed != nil {
		return failed
	}
	if err != nil {
		return err
	}
	if err := trainer.Save("", nil); err != nil {
		return err
	}
	fmt.Printf("%d requests, none lost; the adapter is in %s\n", asked, output)
	return nil
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintf(os.Stderr, "usage: %s MODEL OUTPUT\n", os.Args[0])
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		var failed *trl.Error
		if errors.As(err, &failed) {
			fmt.Fprintf(os.Stderr, "error %d: ", int32(failed.Status))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
