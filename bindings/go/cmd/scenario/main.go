// Command scenario runs bindings/scenario.json: scenario SCENARIO MODEL OUTPUT
//
// bindings/README.md describes its steps and its output, which is the same in every language.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"libtrl/trl"
)

type scenario struct {
	Config     map[string]string `json:"config"`
	Rows       []string          `json:"rows"`
	UnknownKey string            `json:"unknown_key"`
	Prompt     string            `json:"prompt"`
	Generate   map[string]string `json:"generate"`
	Sample     map[string]string `json:"sample"`
}

var background = context.Background()

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func bit(set bool) int {
	if set {
		return 1
	}
	return 0
}

func keys(texts map[string]string) trl.Keys {
	found := trl.Keys{}
	for key, text := range texts {
		found[key] = text
	}
	return found
}

func onEvent(event *trl.Event) (trl.Answer, error) {
	number := event.Metrics
	if event.Kind != trl.OnStep {
		fmt.Printf("event %d at %.0f\n", event.Kind, number["step"])
		return 0, nil
	}
	fmt.Printf("step %.0f of %.0f loss %.9f\n", number["step"], number["max_steps"], number["loss"])
	if number["step"] == 3 {
		return trl.EventStop, nil
	}
	return 0, nil
}

// stop is the error of an event function.
type stop struct{ event string }

func (s *stop) Error() string { return s.event }

func fail(event *trl.Event) (trl.Answer, error) {
	return 0, &stop{fmt.Sprintf("event %d at %.0f", event.Kind, event.Metrics["step"])}
}

// meanwhile pauses a trainer, and calls a method of it on another thread a little later, while the next call is held.
func meanwhile(trainer *trl.Trainer, action func()) <-chan struct{} {
	done := make(chan struct{})
	trainer.Pause()
	time.AfterFunc(100*time.Millisecond, func() {
		action()
		close(done)
	})
	return done
}

func train(config *trl.Config, rows *trl.Dataset, output string) {
	trainer := must(trl.NewTrainer(nil, config, rows, rows))
	defer trainer.Close()
	fmt.Println("trained", bit(must(trainer.Train(background, onEvent))))
	fmt.Printf("eval_loss %.9f\n", must(trainer.Evaluate(background, nil))["eval_loss"])

	done := meanwhile(trainer, trainer.Resume)
	metrics := must(trainer.Step(background))
	<-done
	fmt.Printf("step %.0f after a pause, loss %.9f\n", metrics["step"], metrics["loss"])

	done = meanwhile(trainer, trainer.Cancel)
	_, err := trainer.Step(background)
	var failed *trl.Error
	if errors.As(err, &failed) {
		fmt.Println("cancelled, status", int32(failed.Status))
	}
	<-done
	trainer.Resume()

	check(trainer.Save("", trl.Keys{"save.kind": "checkpoint"}))
	_, err = os.Stat(filepath.Join(output, "checkpoint-4", "trainer_state.json"))
	fmt.Println("checkpoint", bit(err == nil))

	_, err = trainer.Train(background, fail)
	var stopped *stop
	if errors.As(err, &stopped) {
		fmt.Println("raised again:", stopped)
	}
	fmt.Println("trained", bit(must(trainer.Train(background, onEvent))))
	fmt.Println("trained", bit(must(trainer.Train(background, onEvent))))
	check(trainer.Save(filepath.Join(output, "model"), nil))
}

func generate(model string, given *scenario) {
	opened := must(trl.OpenModel(nil, model, nil))
	defer opened.Close()
	generator := must(opened.Generator(nil))
	defer generator.Close()
	for _, options := range []map[string]string{given.Generate, given.Sample} {
		var pieces strings.Builder
		completion := must(generator.Generate(background, []string{given.Prompt}, keys(options),
			func(_ int, token trl.Token) error {
				fmt.Println("token", token.ID)
				_, err := io.WriteString(&pieces, token.Text)
				return err
			}))[0]
		fmt.Println(string(completion.JSON))
		fmt.Println("streamed", bit(pieces.String() == completion.Text))
	}
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 4 {
		log.Fatal("usage: scenario SCENARIO MODEL OUTPUT")
	}
	var given scenario
	check(json.Unmarshal(must(os.ReadFile(os.Args[1])), &given))
	model, output := os.Args[2], os.Args[3]
	fmt.Println("version", trl.Version())

	config := must(trl.NewConfig(keys(given.Config)))
	check(config.Set("model_name_or_path", model))
	check(config.Set("output_dir", output))
	for _, key := range []string{"learning_rate", "weight_decay"} {
		fmt.Println(key, must(config.Get(key)), "from", must(config.Origin(key)))
	}
	var refused *trl.Error
	if errors.As(config.Set(given.UnknownKey, "1"), &refused) {
		fmt.Println("refused", refused.Key, "status", int32(refused.Status))
	}

	var rows []trl.Row
	for _, text := range given.Rows {
		rows = append(rows, trl.Row{"text": text})
	}
	memory := must(trl.DatasetFromRows(nil, rows, nil))
	asked := must(trl.NewDataset(nil, trl.SliceRows(rows), nil))
	fmt.Println("rows in memory", must(memory.RowCount()), "rows of a callback", must(asked.RowCount()))
	train(config, memory, output)

	check(config.Set("resume_from_checkpoint", filepath.Join(output, "checkpoint-4")))
	resumed := must(trl.NewTrainer(nil, config, asked, nil))
	var state struct {
		GlobalStep int `json:"global_step"`
	}
	check(json.Unmarshal(must(resumed.Describe()), &state))
	fmt.Println("resumed at", state.GlobalStep)
	must(resumed.Train(background, onEvent))
	check(resumed.Close())
	generate(filepath.Join(output, "model"), &given)
}
