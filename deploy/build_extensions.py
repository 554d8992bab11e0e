"""Compiles the C++ extension that DeepSpeed loads at start on CPU, so that a run need not."""

import os

from rlvr_platform.runtime import default_environment, extensions_folder, remove_stale_locks

os.environ.update(default_environment("cpu"))

from deepspeed.ops.op_builder.cpu import ShareMemCommBuilder

for lock in remove_stale_locks(extensions_folder()):
    print(f"removed {lock}: an earlier build died and left it")
ShareMemCommBuilder().load()
