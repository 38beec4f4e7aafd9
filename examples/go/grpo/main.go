// Command grpo teaches a model sums by GRPO, with a reward in Go: grpo MODEL OUTPUT [KEY=VALUE ...]. MODEL is a Hugging Face
// directory or a GGUF file. A short SFT shows it the sums of two digits with their answers; OUTPUT/sft then answers some. From
// there GRPO shows it no answer, and rewards completions that are the right number. Every key of `trl options grpo` may follow;
// with method=rloo or method=ppo that trainer takes GRPO's place.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"

	"libtrl/trl"
)

// sums returns the hundred sums of two digits, for SFT with their answers.
func sums(answered bool) []trl.Row {
	var rows []trl.Row
	for a := 0; a < 10; a++ {
		for b := 0; b < 10; b++ {
			row := trl.Row{"prompt": fmt.Sprintf("%d+%d=", a, b)}
			if answered {
				row["completion"] = strconv.Itoa(a + b)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// checkSums is called once for each generation, with all of its completions. It gives 1 to each that is the sum and nothing
// else.
func checkSums(rollout *trl.Rollout) error {
	for i := 0; i < rollout.Count(); i++ {
		text, err := rollout.Row(i)
		if err != nil {
			return err
		}
		var row struct{ Prompt, Completion string }
		var a, b int
		if err := json.Unmarshal(text, &row); err != nil {
			return err
		}
		if _, err := fmt.Sscanf(row.Prompt, "%d+%d=", &a, &b); err != nil {
			return err
		}
		reward := 0.0
		if row.Completion == strconv.Itoa(a+b) {
			reward = 1
		}
		if err := rollout.SetReward(i, reward); err != nil {
			return err
		}
	}
	return nil
}

func onEvent(event *trl.Event) (trl.Answer, error) {
	reward, found := event.Metrics["reward"]
	if !found {
		reward, found = event.Metrics["objective/scores"] // the name that PPO has for it
	}
	if found && event.Kind == trl.OnStep {
		fmt.Printf("step %3.0f: mean reward %.3f\n", event.Metrics["step"], reward)
	}
	return 0, nil
}

// keysOf returns the settings of a method, which are for a tiny model.
func keysOf(method string) trl.Keys {
	switch method {
	case "sft":
		return trl.Keys{"max_steps": 70, "per_device_train_batch_size": 50}
	case "ppo":
		return trl.Keys{"max_steps": 100, "per_device_train_batch_size": 100, // one for each prompt
			"num_ppo_epochs": 2, "temperature": 1, "response_length": 4, "stop_token": "eos"}
	}
	return trl.Keys{"max_steps": 100, "per_device_train_batch_size": 400, // 8 for each of 50 prompts
		"num_generations": 8, "max_completion_length": 4}
}

// train trains a model and saves it in output. More keys win over the settings.
func train(ctx context.Context, method, model, output string, more trl.Keys) error {
	keys := keysOf(method)
	for key, value := range (trl.Keys{"method": method, "model_name_or_path": model, "output_dir": output,
		"learning_rate": 2e-3, "save_strategy": "no", "bf16": false}) {
		keys[key] = value
	}
	for key, value := range more {
		keys[key] = value
	}
	dataset, err := trl.DatasetFromRows(nil, sums(method == "sft"), keys)
	if err != nil {
		return err
	}
	defer dataset.Close()
	trainer, err := trl.NewTrainer(nil, keys, dataset, nil)
	if err != nil {
		return err
	}
	defer trainer.Close()
	if method != "sft" {
		if err := trainer.AddReward("checkSums", checkSums); err != nil {
			return err
		}
	}
	if _, err := trainer.Train(ctx, onEvent); err != nil {
		return err
	}
	return trainer.Save("", nil)
}

func run(ctx context.Context, model, output string, pairs []string) error {
	method, more := "grpo", trl.Keys{}
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found {
			return fmt.Errorf("KEY=VALUE is needed, not %s", pair)
		}
		if key == "method" {
			method = value
		} else {
			more[key] = value
		}
	}
	start := filepath.Join(output, "sft")
	if err := train(ctx, "sft", model, start, nil); err != nil {
		return err
	}
	if err := train(ctx, method, start, output, more); err != nil {
		return err
	}
	fmt.Println("saved in", output)
	return nil
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintf(os.Stderr, "usage: %s MODEL OUTPUT [KEY=VALUE ...]\n", os.Args[0])
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		var failed *trl.Error
		if errors.As(err, &failed) {
			fmt.Fprintf(os.Stderr, "error %d: ", int32(failed.Status))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
