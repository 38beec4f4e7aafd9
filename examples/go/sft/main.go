// Command sft fine-tunes a model on a JSONL file and shows what it writes before and after: sft MODEL ROWS OUTPUT
// [KEY=VALUE ...]. MODEL is a Hugging Face directory or a GGUF file; every key of `trl options sft` may follow.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"

	"libtrl/trl"
)

const prompt = "The kernel"

func onLog(level trl.LogLevel, component, text string) {
	if level >= trl.LogWarning {
		fmt.Fprintf(os.Stderr, "%s: %s\n", component, text)
	}
}

// onEvent is called on the thread that trains, between the steps. EventStop, EventSave and EventEvaluate as results would
// ask for more.
func onEvent(event *trl.Event) (trl.Answer, error) {
	if event.Kind == trl.OnStep {
		number := event.Metrics
		fmt.Printf("step %.0f of %.0f: loss %.4f\n", number["step"], number["max_steps"], number["loss"])
	}
	return 0, nil
}

func printCompletion(ctx context.Context, trainer *trl.Trainer, config *trl.Config) error {
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
	stream, err := generator.Stream(ctx, prompt, config)
	if err != nil {
		return err
	}
	defer stream.Close()
	fmt.Print(prompt, " ->")
	_, err = io.Copy(os.Stdout, stream)
	fmt.Println()
	return err
}

func configure(model, output string, pairs []string) (*trl.Config, error) {
	config, err := trl.NewConfig(trl.Keys{"model_name_or_path": model, "output_dir": output, "learning_rate": 1e-3,
		"per_device_train_batch_size": 4, "max_steps": 10, "save_strategy": "no", "generate.max_new_tokens": 16})
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if err == nil && !found {
			err = fmt.Errorf("KEY=VALUE is needed, not %s", pair)
		}
		if err != nil {
			break
		}
		err = config.Set(key, value)
	}
	return config, err
}

func run(ctx context.Context, model, rows, output string, pairs []string) error {
	config, err := configure(model, output, pairs)
	if err != nil {
		return err
	}
	defer config.Close()
	runtime, err := trl.NewRuntime(config)
	if err != nil {
		return err
	}
	defer runtime.Close()
	if err := runtime.SetLog(onLog); err != nil {
		return err
	}
	dataset, err := trl.OpenDataset(runtime, rows, config)
	if err != nil {
		return err
	}
	defer dataset.Close()
	trainer, err := trl.NewTrainer(runtime, config, dataset, nil)
	if err != nil {
		return err
	}
	defer trainer.Close()
	if err := printCompletion(ctx, trainer, config); err != nil {
		return err
	}
	if _, err := trainer.Train(ctx, onEvent); err != nil {
		return err
	}
	if err := trainer.Save("", nil); err != nil {
		return err
	}
	if err := printCompletion(ctx, trainer, config); err != nil {
		return err
	}
	fmt.Println("saved in", output)
	return nil
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintf(os.Stderr, "usage: %s MODEL ROWS OUTPUT [KEY=VALUE ...]\n", os.Args[0])
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2], os.Args[3], os.Args[4:]); err != nil {
		var failed *trl.Error
		if errors.As(err, &failed) {
			fmt.Fprintf(os.Stderr, "error %d: ", int32(failed.Status))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
