"""The binding for Python with the engine: python3 -X dev -W error engine_test.py [unittest's arguments]

With the tests of host_test.py, which it runs first, every function of the header is called."""

import contextlib
import gc
import io
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

import libtrl
from control_test import *  # noqa: F403 (tests of their own)
from host_test import *  # noqa: F403 (the tests that open no engine)
from engine_case import ROWS, Engine
from host_test import MODEL, SOURCE, Oops
from libtrl import _api, _library

SUMS = [{"prompt": f"{a} + 1 =", "target": a + 1} for a in range(4)]
PAIRS = [{"prompt": "one", "chosen": " two", "rejected": " four"}, {"prompt": "two", "chosen": " three", "rejected": " six"}]


class Online(Engine):
    def online(self, *rewards, rows=SUMS, **keys):
        trainer = self.trainer(rows=rows, **{"method": "grpo", "num_generations": 2, "max_completion_length": 5, "max_steps": 2,
                                             **keys})
        for index, reward in enumerate(rewards):
            trainer.add_reward(f"reward{index}", reward)
        return trainer


class Training(Engine):
    def test_events_tell_and_are_answered(self):
        trainer, events = self.trainer(evaluation=libtrl.Dataset.from_rows(ROWS)), []

        def on_event(event):
            events.append(event)
            if event.kind == libtrl.EventKind.SAVE:
                self.assertTrue(os.path.isdir(event.text("path")))
                self.assertIsNone(event.text("completions"))
            if event.kind == libtrl.EventKind.STEP and event.metrics["step"] == 2:
                return libtrl.Answer.SAVE | libtrl.Answer.EVALUATE
            if event.kind == libtrl.EventKind.STEP and event.metrics["step"] == 3:
                return libtrl.Answer.STOP
            return None

        self.assertTrue(trainer.train(on_event))
        kinds = [event.kind for event in events]
        self.assertEqual(kinds.count(libtrl.EventKind.STEP), 3)
        self.assertIn(libtrl.EventKind.SAVE, kinds)
        self.assertIn(libtrl.EventKind.EVALUATE, kinds)
        self.assertEqual(events[0].metrics["max_steps"], 4)
        with self.assertRaisesRegex(ValueError, "while the function"):
            events[0].text("path")
        self.assertTrue(trainer.train())
        self.assertFalse(trainer.train())
        self.assertEqual(trainer.describe()["global_step"], 4)

    def test_an_exception_ends_the_call_and_the_next_one_resumes(self):
        oops, trainer = Oops("in an event"), self.trainer()

        def on_event(event):
            if event.kind == libtrl.EventKind.STEP:
                raise oops

        with self.assertRaises(Oops) as caught:
            trainer.train(on_event)
        self.assertIs(caught.exception, oops)
        self.assertEqual(trainer.describe()["global_step"], 1)
        with self.assertRaises(libtrl.CallbackError) as caught:
            trainer.train(lambda event: -7 if event.kind == libtrl.EventKind.STEP else 0)
        self.assertEqual((caught.exception.status, caught.exception.callback_code), (libtrl.Status.E_CALLBACK, -7))
        with self.assertRaisesRegex(TypeError, "'float' object"):  # no answer
            trainer.train(lambda event: event.metrics["epoch"])
        self.assertTrue(trainer.train())

    def test_an_exception_of_the_log_ends_a_run(self):
        """It has no status: the next callback of the call ends it."""
        runtime = libtrl.Runtime()
        trainer = self.trainer(max_steps=10000, runtime=runtime)

        def log(level, component, text):
            raise Oops(component)

        runtime.set_log(log)
        with self.assertRaises(Oops):
            trainer.train()
        self.assertLess(trainer.describe()["global_step"], 10)
        runtime.set_log(None)
        with self.assertRaises(Oops):
            runtime.set_log(log)
            self.trainer(runtime=runtime)

    def test_the_log_has_lines(self):
        runtime, lines = libtrl.Runtime(), []
        runtime.set_log(lambda level, component, text: lines.append((level, component, text)))
        self.trainer(runtime=runtime).train()
        self.assertTrue(any(level == libtrl.LogLevel.INFO and text for level, _, text in lines))
        self.assertIn("engine", runtime.describe())

    def test_ctrl_c_without_a_callback(self):
        trainer = self.trainer(max_steps=100000)
        timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            trainer.train()
        timer.join()
        self.assertIsNotNone(trainer.step())

    def test_other_threads_run_meanwhile(self):
        trainer, counted, over = self.trainer(max_steps=20), [0], threading.Event()

        def count():
            while not over.wait(0.001):
                counted[0] += 1

        thread = threading.Thread(target=count)
        thread.start()
        trainer.pause()
        timer = threading.Timer(0.1, trainer.resume)
        timer.start()
        trainer.train()
        timer.join()
        over.set()
        thread.join()
        self.assertGreater(counted[0], 10)

    def test_cancel_from_another_thread(self):
        trainer, begun = self.trainer(max_steps=100000), threading.Event()

        def cancel():
            begun.wait()
            trainer.cancel()

        thread = threading.Thread(target=cancel)
        thread.start()
        with self.assertRaises(libtrl.CancelledError):
            trainer.train(lambda event: begun.set())
        thread.join()
        before = trainer.describe()["global_step"]
        self.assertEqual(trainer.step()["step"], before + 1)

    def test_a_second_call_is_busy(self):
        trainer = self.trainer(max_steps=3)

        def on_event(event):
            with self.assertRaises(libtrl.BusyError):
                trainer.evaluate()

        trainer.train(on_event)

    def test_steps_evaluations_and_saves(self):
        evaluation = libtrl.Dataset.from_rows(ROWS)
        trainer = self.trainer(evaluation=evaluation, max_steps=2)
        self.assertIn("loss", trainer.step())
        self.assertIn("eval_loss", trainer.evaluate())
        folder = tempfile.mkdtemp(dir=self.folder)
        trainer.save(os.path.join(folder, "checkpoint"), {"save.kind": "checkpoint"})
        trainer.save(os.path.join(folder, "model"))
        last = trainer.step()
        self.assertIsNone(trainer.step())
        resumed = self.trainer(max_steps=2, resume_from_checkpoint=os.path.join(folder, "checkpoint"))
        self.assertEqual(resumed.step(), last)
        evaluator = libtrl.Evaluator(self.config(model_name_or_path=os.path.join(folder, "model"), sample_prompts=["the"],
                                                 sample_max_new_tokens=2))
        self.assertIn("eval_loss", evaluator.evaluate(evaluation))
        self.assertEqual(len(evaluator.complete()), 1)

    def test_plans_and_checks(self):
        numbers, text = libtrl.plan(self.config(), libtrl.Dataset.from_rows(ROWS))
        self.assertGreater(numbers["peak_bytes"], 0)
        self.assertIn("memory", text)
        libtrl.check(self.config())
        with self.assertRaises(libtrl.NotFoundError) as caught:
            libtrl.check(self.config(resume_from_checkpoint="/nowhere"))
        self.assertEqual(caught.exception.key, "resume_from_checkpoint")

    def test_any_order_of_destruction(self):
        def made():
            runtime = libtrl.Runtime()
            rows = libtrl.Dataset.from_iterable(list(ROWS), runtime=runtime)
            trainer = libtrl.Trainer(self.config(max_steps=1), rows, runtime=runtime)
            model = trainer.model()
            return {"runtime": runtime, "rows": rows, "trainer": trainer, "model": model, "generator": model.generator()}

        for order in itertools.islice(itertools.permutations(("runtime", "rows", "trainer", "model", "generator")), 0, None, 5):
            things = made()
            for name in order:
                things.pop(name).close()
                if "trainer" in things:
                    things["trainer"].step()
                if "generator" in things:
                    things["generator"].generate("the", {"generate.max_new_tokens": 1})
        for _ in range(3):  # and in the collector's
            things = made()
            things["self"] = things
            del things
            gc.collect()


    def test_a_process_ends_while_a_thread_trains(self):
        code = f"""
import libtrl, threading, time
config = libtrl.Config(model_name_or_path={MODEL!r}, output_dir={self.folder!r}, max_steps=10**6, save_strategy="no", report_to="none")
begun = threading.Event()
trainer = libtrl.Trainer(config, libtrl.Dataset.from_iterable({ROWS!r} * 64))
threading.Thread(target=trainer.train, args=(lambda event: begun.set(),), daemon=True).start()
begun.wait()
time.sleep(0.05)
"""
        done = subprocess.run([sys.executable, "-X", "dev", "-W", "error", "-c", code], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


    def test_the_program_of_the_readme(self):
        with open(os.path.join(SOURCE, "bindings/python/README.md"), encoding="utf-8") as page:
            program = page.read().split("```python\n")[1].split("```")[0]
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as said:
            exec(program.replace('"smollm2"', repr(MODEL)), {})
        self.assertIn("20.0 ", said.getvalue())
        self.assertTrue(os.path.exists(os.path.join(self.folder, "out", "model.safetensors")))


class Generating(Engine):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.model = libtrl.Model(MODEL)
        cls.addClassCleanup(cls.model.close)
        cls.generator = cls.model.generator(libtrl.Tokenizer(MODEL))
        cls.addClassCleanup(cls.generator.close)

    def test_prompts_together(self):
        seen = []
        completions = self.generator.generate(
            ["the kernel", "a page"], {"generate.max_new_tokens": 4, "generate.num_return_sequences": 2, "generate.logprobs": 0,
                                       "generate.temperature": 1}, on_token=lambda *token: seen.append(token))
        self.assertEqual(len(completions), 4)
        for index, completion in enumerate(completions):
            self.assertEqual(completion.finish_reason, "length")
            self.assertEqual([token for number, token, *_ in seen if number == index], list(completion.token_ids))
            self.assertEqual(completion.details["token_ids"], list(completion.token_ids))
            self.assertEqual(len(completion.details["logprobs"]), 4)
        self.assertEqual(self.generator.generate([]), [])

    def test_a_result_ends_a_completion_and_an_exception_the_call(self):
        done = self.generator.generate("the", {"generate.max_new_tokens": 9}, on_token=lambda *_: True)
        self.assertEqual(len(done[0].token_ids), 1)

        def fail(*_):
            raise Oops("at a token")

        with self.assertRaisesRegex(Oops, "at a token"):
            self.generator.generate("the", on_token=fail)
        self.assertEqual(len(self.generator.generate("the", {"generate.max_new_tokens": 3})[0].token_ids), 3)

    def test_requests(self):
        generator, options = self.generator, libtrl.Config({"generate.max_new_tokens": 3, "generate.keep": True})
        first = generator.add("the kernel", options)
        second = generator.add([1, 2, 3], {"generate.max_new_tokens": 50})
        tokens = []
        while not tokens or len(tokens) < 6:
            self.assertTrue(generator.step(lambda number, token, *_: tokens.append(token)))
        done = generator.take(first)[0]
        self.assertEqual(done.finish_reason, "length")
        generator.extend(first, " waits", {"generate.max_new_tokens": 2})
        generator.cancel(second)
        while generator.step():
            pass
        self.assertEqual(len(generator.take(first)[0].token_ids), 2)
        self.assertEqual(generator.take(second)[0].finish_reason, "cancelled")
        generator.cancel(first)
        generator.release_memory()
        with self.assertRaises(libtrl.NotFoundError):
            generator.take(second)

    def test_what_a_function_raises_ends_its_completion_alone(self):
        generator, options = self.generator, {"generate.max_new_tokens": 3, "generate.ignore_eos": True}
        numbers = [generator.add(text, options) for text in ("the kernel", "a page", "the lock")]
        told = []

        def fail(number, *_):
            told.append(number)
            if number == numbers[1]:
                raise Oops("at a token")

        with self.assertRaisesRegex(Oops, "at a token"):
            generator.step(fail)
        while generator.step(fail):
            pass
        self.assertEqual(sorted(told), sorted(numbers + [numbers[0], numbers[2]] * 2))
        taken = [generator.take(number)[0] for number in numbers]
        self.assertEqual([one.finish_reason for one in taken], ["length", "cancelled", "length"])
        self.assertEqual([len(one.token_ids) for one in taken], [3, 1, 3])

    def test_streams(self):
        options = {"generate.max_new_tokens": 6}
        whole = self.generator.generate("the kernel", options)[0]
        pieces = list(self.generator.stream("the kernel", options))
        self.assertEqual([token for token, _ in pieces], list(whole.token_ids))
        self.assertEqual("".join(text for _, text in pieces), whole.text)
        stream = self.generator.stream("the kernel", options)
        next(stream)
        stream.close()
        self.assertFalse(self.generator.step())

    def test_ctrl_c(self):
        timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            while True:
                self.generator.generate(["the kernel"] * 8, {"generate.max_new_tokens": 100})
        timer.join()

    def test_describes_converts_and_saves(self):
        self.assertGreater(self.model.describe()["parameters"], 1000)
        target = os.path.join(self.folder, "model.gguf")
        libtrl.convert(MODEL, target, {"convert.type": "f32"})
        with libtrl.Model(target) as again:
            self.assertEqual(again.describe()["parameters"], self.model.describe()["parameters"])
            again.save(os.path.join(self.folder, "again"))
        self.assertTrue(os.path.exists(os.path.join(self.folder, "again", "config.json")))
        with self.assertRaises(libtrl.UnsupportedError):
            self.model.score(["text"])
        with self.assertRaises(libtrl.NotFoundError):
            libtrl.Model("/nowhere")

    def test_adapters(self):
        trainer = self.trainer(use_peft=True, lora_r=2, max_steps=2, learning_rate=0.05, lora_target_modules="all-linear")
        trainer.train()
        folder = os.path.join(self.folder, "adapter")
        trainer.save(folder)
        run = trainer.model()
        run.add_adapter("other", folder)
        run.generator().generate("the", {"generate.adapter": "other", "generate.max_new_tokens": 1})
        run.remove_adapter("other")
        with libtrl.Model(MODEL) as model:
            model.add_adapter("mine", folder)
            model.use_adapter("mine")
            model.merge_adapter("mine")
            model.merge_adapter(None)
            model.use_adapter(None)
            model.remove_adapter("mine")
            with self.assertRaises(libtrl.NotFoundError):
                model.use_adapter("mine")

    def test_scores(self):
        trainer = self.trainer(rows=PAIRS, method="reward", max_steps=1)
        trainer.train()
        trainer.save(os.path.join(self.folder, "scorer"))
        with libtrl.Model(os.path.join(self.folder, "scorer")) as scorer:
            both = scorer.score(["one two", "one\0three"])
            self.assertAlmostEqual(both[0], scorer.score(["one two"], form=libtrl.TextForm.ANSWER)[0], 5)
            self.assertNotAlmostEqual(both[0], both[1], 5)


class Rewards(Online):
    def test_are_returned_set_or_given_later(self):
        answered = []

        def returned(rollout):
            self.assertEqual(rollout[0]["columns"]["target"], rollout[1]["columns"]["target"])
            with self.assertRaises(IndexError):
                rollout[len(rollout)]
            rollout.log("mine", 2.0)
            return [float(len(row["completion_ids"])) for row in rollout]

        def set_one_by_one(rollout):
            for index in range(len(rollout)):
                rollout.set_reward(index, None if index else 1.0)
                rollout.set_value(index, "note", {"index": index})

        def later(rollout):
            def answer():
                for index in range(len(rollout)):
                    rollout.set_reward(index, 0.5)
                rollout.finish()
                answered.append(rollout)

            threading.Thread(target=answer).start()
            return libtrl.LATER

        trainer = self.online(returned, set_one_by_one, later, logging_strategy="steps", logging_steps=1)
        trainer.train()
        record = trainer.describe()["log_history"][0]
        self.assertEqual(record["rewards/reward2/mean"], 0.5)
        self.assertEqual(record["mine"], 2.0)
        with self.assertRaisesRegex(ValueError, "this rollout is over"):
            len(answered[0])

    def test_an_exception_can_be_tried_again(self):
        failing = [True]

        def reward(rollout):
            if failing.pop() if failing else False:
                raise Oops("in a reward")
            return [1.0] * len(rollout)

        trainer = self.online(reward)
        with self.assertRaisesRegex(Oops, "in a reward"):
            trainer.step()
        self.assertEqual(trainer.step()["step"], 1)

        def fails_later(rollout):
            threading.Thread(target=rollout.finish, args=("the judge is away",)).start()
            return libtrl.LATER

        with self.assertRaisesRegex(libtrl.CallbackError, "the judge is away"):
            self.online(fails_later).step()

    def test_an_exception_may_count_as_none(self):
        asked = []

        def fails(rollout):
            asked.append(len(rollout))
            raise Oops("in a reward")

        trainer = self.online(fails, lambda rollout: [1.0] * len(rollout), on_reward_error="none", logging_strategy="steps",
                              logging_steps=1)
        self.assertTrue(trainer.train())
        self.assertEqual(len(asked), 2)
        self.assertEqual(trainer.describe()["log_history"][1]["rewards/reward1/mean"], 1.0)
        other = self.online(fails, on_reward_error="none")
        self.assertEqual(other.step()["step"], 1)
        with self.assertRaisesRegex(Oops, "in an event"):
            other.train(lambda event: (_ for _ in ()).throw(Oops("in an event")))

    def test_the_name_of_another_reward(self):
        trainer = self.online(lambda rollout: [1.0] * len(rollout))
        with self.assertRaises(libtrl.ConfigError):
            trainer.add_reward("reward0", lambda rollout: None)
        with self.assertRaises(libtrl.InvalidArgumentError):
            self.trainer().add_reward("reward", lambda rollout: None)

    def test_the_host_writes_completions(self):
        """Once by itself, and once with a generator of the trainer."""
        written = []

        def reward(rollout):
            written.extend(row["completion_ids"] for row in rollout)
            return [float(row["columns"]["mark"]) for row in rollout]

        def by_itself(rollout):
            with self.assertRaisesRegex(ValueError, "one value for each"):
                rollout.set_completion(0, [1, 2], log_probs=[0.0])
            for index in range(len(rollout)):
                rollout.set_completion(index, [5, 6, 7], log_probs=[-1.0, -2.0, float("nan")], written=[True, True, False],
                                       columns={"mark": index})

        trainer = self.online(reward)
        trainer.set_rollout(by_itself)
        trainer.step()
        self.assertEqual(written, [[5, 6, 7]] * 2)

        trainer = self.online(lambda rollout: [1.0, 2.0] * (len(rollout) // 2))
        generator = trainer.model().generator()

        def with_a_generator(rollout):
            for index, row in enumerate(rollout):
                first = generator.add(row["prompt_ids"], {"generate.max_new_tokens": 4})
                while generator.step():
                    pass
                rollout.set_completion(index, generator.take(first)[0].token_ids)

        trainer.set_rollout(with_a_generator)
        self.assertIsNotNone(trainer.step())

    def test_circles_through_the_library_are_collected(self):
        """Functions that hold what they were given to."""

        class App:
            def __init__(self, test):
                self.lines, self.runtime = [], libtrl.Runtime()
                self.runtime.set_log(self.log)
                self.trainer = test.online(self.reward, runtime=self.runtime)
                self.generator = self.trainer.model().generator()
                self.trainer.step()

            def log(self, *line):
                self.lines.append(line)

            def reward(self, rollout):
                return [1.0 if self.trainer and self.generator else 0.0] * len(rollout)

        app = App(self)
        alive = weakref.ref(app)
        del app
        gc.collect()
        self.assertIsNone(alive())

    def test_tools(self):
        tools = [{"type": "function", "function": {"name": "add", "description": "Adds.", "parameters": {
            "type": "object", "properties": {"a": {"type": "integer"}}}}}]
        calls, called = [], set()

        def answer(rollout):
            for index, row in enumerate(rollout):
                if row["ask"] == "call":
                    calls.extend(row["calls"])
                    rollout.set_value(index, "results", [41] * len(row["calls"]))
                    continue
                message = {"role": "assistant", "content": "I add."}
                if row["place"] not in called:
                    called.add(row["place"])
                    message["tool_calls"] = [{"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}]
                rollout.set_value(index, "message", message)

        chats = [{"prompt": [{"role": "user", "content": text}]} for text in ("One?", "Two?")]
        trainer = self.online(lambda rollout: [1.0] * len(rollout), rows=chats, tools=tools, tool_call_parser="host",
                              max_completion_length=200, generation_kwargs={"stop_token_ids": list(range(96))})
        trainer.set_tools(answer)
        self.assertIsNotNone(trainer.step())
        self.assertEqual(calls, [{"name": "add", "arguments": {"a": 1}}] * 2)


if __name__ == "__main__":
    _library.load()
    done = unittest.main(exit=False)
    left = sorted(set(_api.FUNCTIONS) - set(vars(_library.lib)))
    if left and len(sys.argv) == 1:
        sys.exit(f"no test calls {left}")
    sys.exit(not done.result.wasSuccessful())
