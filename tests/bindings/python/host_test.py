"""The binding for Python, as far as it opens no engine: python3 -X dev -W error host_test.py [unittest's arguments]"""

import array
import ctypes
import gc
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import unittest

import libtrl
from libtrl import _core, _library
from libtrl._errors import CLASSES

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../..")
MODEL = os.path.join(SOURCE, "tests/golden/models/qwen2")
ROWS = [{"text": f"one two three four five {i}"} for i in range(8)]


class Oops(Exception):
    pass


class Case(unittest.TestCase):
    def tearDown(self):
        gc.collect()
        self.assertEqual(_core._kept, {}, "a function of the host is still kept")
        self.assertIsNone(_core._thread.pending)
        self.assertIs(signal.getsignal(signal.SIGINT), signal.default_int_handler)


class Loading(unittest.TestCase):
    def run_python(self, code, library):
        environment = {**os.environ, "TRL_LIBRARY": library}
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)

    def test_a_missing_library_is_named(self):
        done = self.run_python("import libtrl; libtrl.version()", "/nowhere/libtrl.so")
        self.assertIn("ImportError: the library /nowhere/libtrl.so cannot be loaded", done.stderr)

    def test_another_version_is_refused(self):
        for version in ("(9, 1, 0)", "(0, 9, 0)"):
            done = self.run_python(f"import libtrl; libtrl._library.VERSION = {version}; libtrl.version()",
                                   os.environ["TRL_LIBRARY"])
            self.assertIn("and this package is for " + ".".join(version[1:-1].split(", ")), done.stderr)

    def test_a_function_that_the_library_lacks_is_named(self):
        code = "from libtrl import _library as l; l.FUNCTIONS['trl_new'] = ('None',); l.lib.trl_new()"
        done = self.run_python(code, os.environ["TRL_LIBRARY"])
        self.assertIn("NotImplementedError: this libtrl has no trl_new", done.stderr)

    def test_a_path_goes_before_the_environment(self):
        done = self.run_python(f"import libtrl; libtrl.load({os.environ['TRL_LIBRARY']!r}); print(libtrl.version())", "/nowhere")
        self.assertEqual(done.stdout.strip(), libtrl.version())
        with self.assertRaisesRegex(RuntimeError, "loaded already"):
            libtrl.load("/nowhere/libtrl.so")
        libtrl.load()

    def test_version(self):
        number = libtrl.version_number()
        self.assertEqual(libtrl.version(), f"{number >> 16}.{number >> 8 & 255}.{number & 255}")
        self.assertEqual(libtrl.build_info()["version"], libtrl.version())
        self.assertTrue(all(map(libtrl.has_feature, libtrl.build_info()["features"])))
        self.assertFalse(libtrl.has_feature("no such feature"))


class Options(Case):
    def test_each_has_a_name_a_doc_and_a_default_that_a_configuration_takes(self):
        names = [option.name for option in libtrl.options()]
        self.assertGreater(len(names), 500)
        self.assertEqual(len(set(names)), len(names))
        with libtrl.Config() as config:
            for option in libtrl.options():
                self.assertTrue(option.doc() and option.section and option.group and option.since, option)
                self.assertIn(option.origin, ("trl", "ours"))
                self.assertIn(option.type(), list(libtrl.OptionType))
                self.assertEqual(option.value(option.default()), config[option.name], option)
                for text in (option.unsupported_reason, option.ignored_reason, option.taken, *option.other_names):
                    self.assertIsInstance(text, str)

    def test_a_trainer_has_its_own(self):
        rate = libtrl.option("learning_rate")
        self.assertIn("dpo", rate.trainers)
        self.assertNotEqual(rate.default("dpo"), rate.default())
        loss = libtrl.option("loss_type")
        self.assertNotEqual(loss.accepted("dpo"), loss.accepted("sft"))
        self.assertNotEqual(loss.doc("dpo"), loss.doc("sft"))
        self.assertIsNone(libtrl.option("num_generations").default("sft"))

    def test_some_may_have_no_value(self):
        self.assertTrue(libtrl.option("resume_from_checkpoint").nullable)
        self.assertFalse(libtrl.option("seed").nullable)

    def test_an_older_name_is_found(self):
        older = next(option for option in libtrl.options() if option.aliases)
        self.assertEqual(libtrl.option(older.aliases[0]).name, older.name)

    def test_a_trainer_may_have_another_type(self):
        beta = libtrl.option("beta")
        self.assertEqual((beta.type(), beta.type("dpo"), beta.type("sft")), (libtrl.OptionType.NUMBER, beta.type(), None))
        self.assertEqual(beta.type("online_dpo"), libtrl.OptionType.LIST)

    def test_schema(self):
        for trainer in (None, "sft", "grpo"):
            schema = libtrl.Config.schema(trainer)
            self.assertEqual(schema["type"], "object")
            self.assertEqual("num_generations" in schema["properties"], trainer != "sft")
            self.assertEqual(schema["properties"]["seed"]["default"], 42)
        with self.assertRaises(libtrl.NotFoundError):
            libtrl.Config.schema("no such trainer")


class Configuration(Case):
    def test_is_a_mapping_of_what_was_set(self):
        config = libtrl.Config({"generate.stop": ["a", "b"]}, learning_rate=1e-4, bf16=False, max_steps=3, resume_from_checkpoint=None)
        self.assertEqual(dict(config), {"generate.stop": ["a", "b"], "learning_rate": 1e-4, "bf16": False, "max_steps": 3,
                                        "resume_from_checkpoint": None})
        self.assertEqual(config.text("learning_rate"), "1e-04")
        self.assertEqual(config["seed"], 42)
        self.assertEqual((config.origin("seed"), config.origin("max_steps")), ("default", "set"))
        self.assertNotIn("seed", config)
        del config["max_steps"]
        self.assertEqual(config["max_steps"], -1)
        self.assertEqual(len(config), 4)
        self.assertEqual(dict(libtrl.Config(config)), dict(config))

    def test_reads_texts_and_files(self):
        config = libtrl.Config()
        config.load_text("learning_rate: 1e-3\nseed: 7\n")
        self.assertEqual((config["learning_rate"], config["seed"], config.origin("seed")), (1e-3, 7, "text:2"))
        with self.assertRaises(libtrl.NotFoundError):
            config.load("/nowhere/recipe.yaml")
        self.assertIsInstance(config.warnings(), list)

    def test_an_error_has_class_status_and_key(self):
        config = libtrl.Config()
        with self.assertRaises(libtrl.ConfigError) as caught:
            config["learning_rat"] = 1
        self.assertEqual((caught.exception.key, caught.exception.status), ("learning_rat", libtrl.Status.E_INVALID_CONFIG))
        self.assertIn("learning_rate", str(caught.exception))
        self.assertIsInstance(caught.exception, ValueError)
        with self.assertRaises(libtrl.ConfigError):
            config["learning_rate"] = "fast"
        self.assertEqual(dict(config), {})

    def test_a_text_that_would_be_cut_at_a_nul_is_refused(self):
        config = libtrl.Config()
        for refused in (lambda: config.load("a\0b"), lambda: config.text("seed\0"), lambda: libtrl.Dataset("a\0b"),
                        lambda: config.__setitem__("output_dir", "a\0b"), lambda: libtrl.has_feature("sft\0")):
            with self.assertRaisesRegex(ValueError, "NUL"):
                refused()
        self.assertEqual(dict(config), {})

    def test_a_value_that_cannot_be_written_is_named(self):
        for value in (object(), {"q_proj"}, b"3", float):
            with self.assertRaisesRegex(TypeError, "^max_steps: a text, a number, .* is needed, and not "):
                libtrl.Config(max_steps=value)
        with self.assertRaisesRegex(ValueError, "^max_steps: "):
            libtrl.Config(max_steps="\ud800")

    def test_numbers_of_other_libraries_are_numbers(self):
        class Whole:
            def __index__(self):
                return 3

        class Part:
            def __float__(self):
                return 0.5

        class Scalar:  # as NumPy's are
            ndim = 0

            def item(self):
                return True

        config = libtrl.Config(max_steps=Whole(), learning_rate=Part(), bf16=Scalar())
        self.assertEqual(dict(config), {"max_steps": 3, "learning_rate": 0.5, "bf16": True})

    def test_what_is_no_text_is_refused_by_the_parameters_name(self):
        config = libtrl.Config()
        runtime = libtrl.Runtime()
        for name, call in (("kind", lambda: runtime.memory(3)), ("key", lambda: config[3]),
                           ("key", lambda: config.__setitem__(3, 1)), ("key", lambda: config.__delitem__(3)),
                           ("trainer", lambda: libtrl.Config.schema(3)), ("name", lambda: libtrl.has_feature(b"sft")),
                           ("text", lambda: config.load_text(3)), ("path", lambda: config.load(3.5)),
                           ("path", lambda: libtrl.Dataset(3)), ("format", lambda: libtrl.Dataset.from_buffer(3, b""))):
            with self.assertRaisesRegex(TypeError, f"^{name} is a str"):
                call()

    def test_every_error_has_a_class(self):
        self.assertEqual(set(CLASSES), {status for status in libtrl.Status if status < 0})
        self.assertEqual(len(set(CLASSES.values())), len(CLASSES))
        for status, kind in CLASSES.items():
            error = kind("why", status, "key")
            self.assertEqual((str(error), error.status_name), ("why", f"TRL_{libtrl.Status(status).name}"))
        self.assertEqual(libtrl.Error("why", -99).status_name, "TRL_E_INTERNAL")

    def test_an_error_has_its_place(self):
        config = libtrl.Config()
        with self.assertRaises(libtrl.ConfigError) as caught:
            config.load_text("seed: 1\nmax_steps: x\n")
        self.assertEqual((caught.exception.key, caught.exception.place), ("max_steps", ("text", 2, 1, None)))
        with self.assertRaises(libtrl.ConfigError) as caught:
            config["max_steps"] = "x"
        self.assertIsNone(caught.exception.place)
        with self.assertRaises(libtrl.FormatError) as caught:
            libtrl.Dataset.from_buffer("jsonl", b'{"text": "a"}\n{"text": nothing}\n').row_count()
        place = caught.exception.place
        self.assertEqual((place.file, place.line, place.row), ("buffer", 2, 1))
        self.assertGreater(place.column, 1)
        with self.assertRaises(libtrl.NotFoundError) as caught:
            libtrl.Dataset("/nowhere/rows.jsonl")
        self.assertEqual(caught.exception.place, libtrl.Place("/nowhere/rows.jsonl", None, None, None))

    def test_a_closed_one_is_refused(self):
        with libtrl.Config() as config:
            pass
        self.assertTrue(config.closed)
        config.close()
        with self.assertRaisesRegex(ValueError, "this Config is closed"):
            config["seed"] = 1


class Rows(Case):
    def test_in_memory_and_asked_for(self):
        self.assertEqual(libtrl.Dataset.from_rows(ROWS).row_count(), 8)
        self.assertEqual(libtrl.Dataset.from_buffer("csv", b"text\na\nb\n").row_count(), 2)
        for rows in (ROWS, lambda: iter(ROWS), tuple(ROWS)):
            dataset = libtrl.Dataset.from_iterable(rows)
            self.assertEqual([dataset.row_count(), dataset.row_count()], [8, 8])

    def test_an_iterator_is_read_once(self):
        dataset = libtrl.Dataset.from_iterable(iter(ROWS))
        self.assertEqual(dataset.row_count(), 8)
        with self.assertRaisesRegex(TypeError, "an iterator gives them once"):
            dataset.row_count()

    def test_columns_keep_their_types(self):
        row = {"messages": [{"role": "user", "content": "é 字 🙂"}, {"role": "assistant", "content": "a\0b"}], "score": 1.5}
        tokenizer = libtrl.Tokenizer(MODEL)
        by_callback = libtrl.Dataset.from_iterable([row]).example(tokenizer, 0)
        self.assertEqual(by_callback, libtrl.Dataset.from_rows([row]).example(tokenizer, 0))

    def test_arrays_are_columns_of_ids(self):
        tokenizer = libtrl.Tokenizer(MODEL)
        for kind in "ilq":
            row = {"input_ids": array.array(kind, [1, 2, 3]), "labels": array.array(kind, [-100, 2, 3])}
            self.assertEqual(libtrl.Dataset.from_iterable([row]).example(tokenizer, 0),
                             libtrl.Dataset.from_rows([{name: list(ids) for name, ids in row.items()}]).example(tokenizer, 0))
        self.assertEqual(libtrl.Dataset.from_iterable([{"input_ids": array.array("i")}]).row_count(), 1)
        for kind, value in ((OverflowError, array.array("q", [2**40])), (TypeError, b"bytes"), (TypeError, array.array("f"))):
            with self.assertRaises(kind):
                libtrl.Dataset.from_iterable([{"input_ids": value}]).row_count()

    def test_an_exception_comes_through(self):
        oops = Oops("at row 3")

        def rows():
            yield from ROWS[:3]
            raise oops

        dataset = libtrl.Dataset.from_iterable(rows)
        with self.assertRaises(Oops) as caught:
            dataset.row_count()
        self.assertIs(caught.exception, oops)

        def rewind():
            raise Oops("at the start")

        with self.assertRaisesRegex(Oops, "at the start"):
            libtrl.Dataset.from_iterable(rewind).row_count()
        with self.assertRaisesRegex(AttributeError, "items"):
            libtrl.Dataset.from_iterable(["not a mapping"]).row_count()
        with self.assertRaises(SystemExit):
            libtrl.Dataset.from_iterable(lambda: sys.exit(3)).row_count()
        with self.assertRaises(UnicodeEncodeError):
            libtrl.Dataset.from_iterable([{"text": "half a character: \ud800"}]).row_count()

    def test_ctrl_c_within_a_callback(self):
        def rows():
            yield ROWS[0]
            signal.raise_signal(signal.SIGINT)
            yield ROWS[1]

        for _ in range(20):
            with self.assertRaises(KeyboardInterrupt):
                libtrl.Dataset.from_iterable(rows).row_count()

    def test_ctrl_c_at_any_time(self):
        """Wherever it comes, it is raised once by the call, and never printed and forgotten."""
        forgotten, sys.unraisablehook = [], lambda message: forgotten.append(message)
        self.addCleanup(setattr, sys, "unraisablehook", sys.__unraisablehook__)
        for delay in (0.001, 0.003, 0.005, 0.007, 0.011, 0.013, 0.017, 0.019):
            timer = threading.Timer(delay, lambda: os.kill(os.getpid(), signal.SIGINT))
            with self.assertRaises(KeyboardInterrupt):
                timer.start()
                libtrl.Dataset.from_iterable(lambda: itertools.repeat(ROWS[0])).row_count()
            timer.join()
        self.assertEqual(forgotten, [])

    def test_a_handler_of_the_host_is_left(self):
        seen = []
        signal.signal(signal.SIGINT, lambda *_: seen.append(1))
        try:
            libtrl.Dataset.from_iterable(lambda: (signal.raise_signal(signal.SIGINT) or row for row in ROWS)).row_count()
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.assertEqual(len(seen), 8)

    def test_the_garbage_collector_may_run_in_callbacks(self):
        def rows():
            for row in ROWS:
                circle = [libtrl.Dataset.from_rows.__name__]
                circle.append(circle)
                del circle
                gc.collect()
                yield row

        threshold = gc.get_threshold()
        gc.set_threshold(1)
        try:
            self.assertEqual(libtrl.Dataset.from_iterable(rows).row_count(), 8)
        finally:
            gc.set_threshold(*threshold)

    def test_a_configuration_names_rows(self):
        path = os.path.join(SOURCE, "tests/golden/data/datasets/train_lm.jsonl")
        train, evaluation = libtrl.Dataset.from_config(libtrl.Config(dataset_name=path))
        self.assertIsNone(evaluation)
        self.assertEqual(train.row_count(), libtrl.Dataset(path).row_count())
        train, evaluation = libtrl.Dataset.from_config(libtrl.Config(dataset_name=path, eval_dataset_name=path))
        self.assertEqual(train.row_count(), evaluation.row_count())
        with self.assertRaises(libtrl.NotFoundError):
            libtrl.Dataset.from_config(libtrl.Config(dataset_name="/nowhere.jsonl"))

    def test_lengths_examples_and_batches(self):
        tokenizer, rows = libtrl.Tokenizer(MODEL), libtrl.Dataset.from_rows(ROWS)
        numbers, plot = rows.profile(tokenizer, {"profile.max_lengths": [4, 16]})
        self.assertEqual(numbers["rows"], 8)
        self.assertIn("\n", plot)
        self.assertEqual(len(rows.example(tokenizer, 2)["input_ids"]), len(rows.example(tokenizer, 2)["labels"]))
        batches = []
        rows.visit_batches(tokenizer, batches.append, {"per_device_train_batch_size": 2})
        self.assertEqual(len(batches), 4)
        seen = []
        rows.visit_batches(tokenizer, seen.append, {"per_device_train_batch_size": 2}, first=1, count=1)
        self.assertEqual(seen, batches[1:2])
        seen = []
        rows.visit_batches(tokenizer, lambda batch: seen.append(batch) or len(seen) == 2, {"per_device_train_batch_size": 2})
        self.assertEqual(len(seen), 2)
        with self.assertRaises(libtrl.InvalidArgumentError):
            rows.visit_batches(tokenizer, seen.append, first=99)

        def fail(batch):
            raise Oops("in a batch")

        with self.assertRaisesRegex(Oops, "in a batch"):
            rows.visit_batches(tokenizer, fail)


class ArrowStream(ctypes.Structure):
    pass


ArrowStream._fields_ = [(name, ctypes.c_void_p) for name in ("get_schema", "get_next", "get_last_error", "release", "own")]


class Arrow(Case):
    def test_a_stream_is_taken_over(self):
        """A stream that fails: its code is that of the error, and it was released."""
        if not libtrl.has_feature("arrow"):
            self.skipTest("this build does not read Arrow streams")
        schema = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(lambda *_: 5)
        last = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)(lambda _: None)
        released = []

        @ctypes.CFUNCTYPE(None, ctypes.POINTER(ArrowStream))
        def release(stream):
            released.append(1)
            stream.contents.release = None

        pointers = [ctypes.cast(function, ctypes.c_void_p).value for function in (schema, schema, last, release)]
        stream = ArrowStream(*pointers, None)
        capsule = ctypes.pythonapi.PyCapsule_New
        capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        with self.assertRaises(libtrl.CallbackError) as caught:
            libtrl.Dataset.from_arrow(capsule(ctypes.addressof(stream), b"arrow_array_stream", None))
        self.assertEqual(caught.exception.callback_code, 5)
        self.assertEqual((released, stream.release), ([1], None))


class Text(Case):
    def test_encodes_and_decodes(self):
        tokenizer = libtrl.Tokenizer(MODEL)
        text = "the kernel é 字 🙂 \0 " + "long " * 400
        ids = tokenizer.encode(text)
        self.assertEqual(tokenizer.decode(ids), text)
        self.assertEqual(tokenizer.encode(""), [])
        self.assertEqual(tokenizer.piece(tokenizer.encode("e")[0]), "e")
        self.assertIn("vocab_size", tokenizer.describe())
        with self.assertRaises(libtrl.InvalidArgumentError):
            tokenizer.decode([10**9])
        with self.assertRaises(libtrl.NotFoundError):
            libtrl.Tokenizer("/nowhere")

    def test_integers_beyond_their_type_are_refused(self):
        tokenizer, rows = libtrl.Tokenizer(MODEL), libtrl.Dataset.from_rows(ROWS)
        for refused in (lambda: tokenizer.decode([2**32 + 5]), lambda: tokenizer.piece(2**32 + 5),
                        lambda: libtrl.Runtime().set_memory_limit(2**64), lambda: rows.example(tokenizer, 2**64),
                        lambda: rows.visit_batches(tokenizer, lambda _: 2**32)):
            with self.assertRaises(OverflowError):
                refused()

    def test_special_tokens_are_split_or_not(self):
        split, whole = [64, 27, 91, 72, 76, 62, 258, 67, 91, 29, 65], [64, 475, 65]
        for options, default in ((None, whole), ({"split_special_tokens": True}, split)):
            tokenizer = libtrl.Tokenizer(MODEL, options)
            ids = [tokenizer.encode("a<|im_end|>b", split_special_tokens=value) for value in (None, False, True)]
            self.assertEqual(ids, [default, whole, split])

    def test_renders_chats(self):
        tokenizer = libtrl.Tokenizer(MODEL)
        messages = [{"role": "user", "content": "hi"}]
        self.assertIn("hi", tokenizer.apply_chat_template(messages))
        longer = tokenizer.apply_chat_template({"messages": messages, "add_generation_prompt": True})
        self.assertTrue(longer.startswith(tokenizer.apply_chat_template(messages)) and longer.endswith("assistant\n"))


class Files:
    """Files in memory. What is saved takes the place of its folder when it is complete."""

    def __init__(self, **files):
        self.files, self.coming, self.told, self.buffers = files, {}, [], []

    def read(self, file, offset, buffer):
        if file not in self.files:
            raise FileNotFoundError(file)
        if buffer is None:
            return len(self.files[file])
        part = self.files[file][offset:offset + len(buffer)]
        buffer[:len(part)] = part
        self.buffers.append(buffer)
        return len(part)

    def write(self, what, file, offset, data):
        if what == libtrl.WriteKind.DATA:
            assert offset == len(self.coming.get(file, b""))
            self.coming[file] = self.coming.get(file, b"") + data
            return
        assert data == b""
        self.told.append((what, file))
        if what == libtrl.WriteKind.DONE:
            self.files.update(self.coming)
        self.coming.clear()


def files_of(folder):
    return {entry.name: open_and_read(entry.path) for entry in os.scandir(folder) if entry.is_file()}


def open_and_read(path):
    with open(path, "rb") as file:
        return file.read()


class Mounts(Case):
    def test_a_tokenizer_of_the_host(self):
        files, runtime = Files(**files_of(MODEL)), libtrl.Runtime()
        runtime.mount("host_test", files.read)
        tokenizer = libtrl.Tokenizer("host://host_test", runtime=runtime)
        self.assertEqual(tokenizer.encode("the kernel"), libtrl.Tokenizer(MODEL).encode("the kernel"))
        with self.assertRaisesRegex(ValueError, "released"):
            files.buffers[0][0]
        del files.files["tokenizer.json"]
        with self.assertRaises(libtrl.NotFoundError):
            libtrl.Tokenizer("host://host_test")
        runtime.close()  # the tokenizer keeps the mount
        files.files.update(files_of(MODEL))
        libtrl.Tokenizer("host://host_test").close()
        tokenizer.close()
        with self.assertRaisesRegex(libtrl.NotFoundError, "host_test"):
            libtrl.Tokenizer("host://host_test")

    def test_an_exception_comes_through(self):
        oops, runtime = Oops("while reading"), libtrl.Runtime()

        def fail(file, offset, buffer):
            raise oops

        runtime.mount("fails", fail)
        with self.assertRaises(Oops) as caught:
            libtrl.Tokenizer("host://fails")
        self.assertIs(caught.exception, oops)
        runtime.mount("answers", lambda *_: -5)
        with self.assertRaises(libtrl.CallbackError) as caught:
            libtrl.Tokenizer("host://answers")
        self.assertEqual(caught.exception.callback_code, -5)
        runtime.mount("nothing")
        with self.assertRaises(libtrl.NotFoundError):
            libtrl.Tokenizer("host://nothing")

    def test_a_name_belongs_to_one(self):
        runtime = libtrl.Runtime()
        runtime.mount("one", lambda *_: 0)
        for name in ("one", "", "a/b", "ä"):
            with self.assertRaises(libtrl.InvalidArgumentError):
                runtime.mount(name, lambda *_: 0)
        self.assertEqual(len(_core._kept), 1)
        runtime.close()
        with libtrl.Runtime() as other:
            other.mount("one")


class Runtimes(Case):
    def test_exceptions_of_log_and_progress(self):
        path = os.path.join(SOURCE, "tests/golden/data/datasets/train_lm.jsonl")
        runtime, phases = libtrl.Runtime(), []
        runtime.set_progress(lambda phase, done, total: phases.append(phase))
        libtrl.Dataset(path, runtime=runtime).row_count()
        self.assertIn("rows", phases)

        def fail(*_):
            raise Oops("in progress")

        runtime.set_progress(fail)
        with self.assertRaisesRegex(Oops, "in progress"):
            libtrl.Dataset(path, runtime=runtime).row_count()
        runtime.set_progress(lambda *_: libtrl.Progress.STOP)
        with self.assertRaises(libtrl.CancelledError):
            libtrl.Dataset(path, runtime=runtime).row_count()
        runtime.set_progress(None)
        self.assertEqual(_core._kept, {})
        libtrl.Dataset(path, runtime=runtime).row_count()

    def test_memory_and_its_limit(self):
        with libtrl.Runtime({"runtime.threads": 1}) as runtime:
            now, peak = runtime.memory()
            self.assertLessEqual(now, peak)
            self.assertEqual(runtime.memory("weights")[0], 0)
            with self.assertRaises(libtrl.NotFoundError):
                runtime.memory("no such kind")
            runtime.set_memory_limit(2**40)
            runtime.set_memory_limit(0)
            with self.assertRaises(libtrl.InvalidArgumentError):
                runtime.set_memory_limit(-1)

    def test_cancel_from_another_thread(self):
        for cancel in (lambda: runtime.cancel(), libtrl.cancel_all):
            runtime = libtrl.Runtime()
            reading = threading.Event()

            def rows():
                for row in itertools.repeat(ROWS[0]):
                    reading.set()
                    yield row

            def stop():
                reading.wait()
                cancel()

            thread = threading.Thread(target=stop)
            thread.start()
            with self.assertRaises(libtrl.CancelledError):
                libtrl.Dataset.from_iterable(rows, runtime=runtime).row_count()
            thread.join()

    def test_shutdown(self):
        libtrl.shutdown()


if __name__ == "__main__":
    if not os.environ.get("TRL_LIBRARY"):
        sys.exit("TRL_LIBRARY has no path")
    _library.load()
    unittest.main()
