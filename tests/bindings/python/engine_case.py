"""What tests with the engine share."""

import shutil
import tempfile

import libtrl
from host_test import MODEL, Case

ROWS = [{"text": text} for text in ("the kernel waits", "the driver wakes", "a page is read", "a lock is taken")]


class Engine(Case):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)

    def config(self, **keys):
        return libtrl.Config({"model_name_or_path": MODEL, "output_dir": tempfile.mkdtemp(dir=self.folder), "max_steps": 4,
                              "per_device_train_batch_size": 2, "save_strategy": "no", "logging_strategy": "no",
                              "report_to": "none", "bf16": False, **keys})

    def trainer(self, *, rows=ROWS, evaluation=None, runtime=None, **keys):
        return libtrl.Trainer(self.config(**keys), libtrl.Dataset.from_rows(rows), evaluation, runtime=runtime)
