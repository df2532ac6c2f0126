#!/usr/bin/env python3
"""Runs libtorch's operators on odd values in child processes, and prints the operators that crash or hang the process.

Not part of `make test`: run it for a new libtorch version. Needs torch and expecttest, and takes an hour.

    cc -O1 -shared -fPIC -o fence.so fence.c
    FENCE=end LD_PRELOAD=./fence.so python3 sweep.py [PART OF A NAME]
    FENCE=start LD_PRELOAD=./fence.so python3 sweep.py

The operators and their inputs come from PyTorch's own tests. Each input is replaced by odd values and by tensors of
other shapes, one at a time. `fence.c` puts a page without access rights after each tensor (`end`) or before it
(`start`), so that an access out of bounds ends the process.
"""

import itertools
import mmap
import os
import signal
import struct
import sys
import time
import warnings

import torch
from torch.testing._internal.common_methods_invocations import op_db

FLOATS = [float("nan"), float("inf"), float("-inf"), -1.0, 1e30, float(2**40), 0.0]
INTS = [-1, -(2**63), 2**63 - 1, 2**40, 10**6, -(2**31), 0]
SCALARS = [-1, 0, 3, 2**31, 2**40, 2**62, -(2**63), 2**63 - 1]
DTYPES = (torch.float32, torch.int64, torch.complex64, torch.float64, torch.bfloat16)
SAMPLES = 8
DEATHS = 4  # crashes of one operator before the sweep goes on to the next
CASE_SECONDS = 20.0
OPERATOR_SECONDS = 150.0


def odd_values(tensor):
    if tensor.dtype == torch.bool:
        return
    is_float = tensor.dtype.is_complex or tensor.dtype.is_floating_point
    for value in FLOATS if is_float else INTS:
        try:
            whole = torch.full_like(tensor, value)
        except (RuntimeError, TypeError):
            continue
        yield f"all={value}", whole
        for where in (0, -1) if tensor.numel() > 1 else ():
            one = tensor.detach().clone().contiguous()
            one.view(-1)[where] = value
            yield f"[{where}]={value}", one


def other_shapes(tensor):
    for axis in range(tensor.dim()):
        yield f"empty{axis}", tensor.narrow(axis, 0, 0).clone()
        if tensor.size(axis) > 1:
            yield f"less{axis}", tensor.narrow(axis, 0, tensor.size(axis) - 1).clone()
            yield f"one{axis}", tensor.narrow(axis, 0, 1).clone()
        yield f"more{axis}", torch.cat([tensor, tensor], axis)
    yield "flat", tensor.reshape(-1).clone()
    yield "unsqueezed", tensor.unsqueeze(0).clone()
    if tensor.dim() > 1:
        yield "transposed", tensor.transpose(0, 1).clone()


def leaves(value, path=()):
    """Yields the tensors and numbers of the arguments, each with its path."""
    if isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from leaves(inner, (*path, index))
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, (torch.Tensor, int, float)) and not isinstance(value, bool):
        yield path, value


def replaced(value, path, new):
    if not path:
        return new
    if isinstance(value, dict):
        return {**value, path[0]: replaced(value[path[0]], path[1:], new)}
    items = list(value)
    items[path[0]] = replaced(items[path[0]], path[1:], new)
    return tuple(items) if isinstance(value, tuple) else items


def variants(leaf):
    if isinstance(leaf, torch.Tensor):
        return itertools.chain(odd_values(leaf), other_shapes(leaf.detach())) if leaf.layout == torch.strided else ()
    odd = SCALARS if isinstance(leaf, int) else FLOATS
    return ((f"{value}", value) for value in odd)


def cases(op):
    """Yields names and arguments of the calls of an operator, always in the same order."""
    dtypes = [dtype for dtype in DTYPES if dtype in op.dtypes][:3] or list(op.dtypes)[:1]
    for dtype in dtypes:
        try:
            samples = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=False), 200))
        except Exception:  # noqa: BLE001: a sample that this machine cannot make
            continue
        step = max(1, len(samples) // SAMPLES)
        for number, sample in enumerate(samples[::step][:SAMPLES]):
            call = {"args": [sample.input, *sample.args], "kwargs": sample.kwargs}
            for path, leaf in list(leaves(call)):
                for name, new in variants(leaf):
                    yield f"{dtype} sample {number} {path} {name}", replaced(call, path, new)


def run_cases(op, first, progress):
    """Runs in the child: writes the number, time and name of each case before it runs."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number, (name, call) in enumerate(cases(op)):
        if number < first:
            continue
        text = name.encode()[:400]
        progress[: 24 + len(text)] = struct.pack("qdq", number, time.time(), len(text)) + text
        try:
            with torch.no_grad():
                op.op(*call["args"], **call["kwargs"])
        except Exception:  # noqa: BLE001, S110: what an operator raises is as it should be
            pass
    os._exit(0)


def outcome(child, progress, deadline):
    """Waits for a child; returns what ended it early, or None if it completed."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return None if status == 0 else f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "exit"
        began = struct.unpack_from("qd", progress)[1]
        if time.time() - began > CASE_SECONDS or time.time() > deadline:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "slow"
        time.sleep(0.02)


def sweep(op, name):
    first, deadline = 0, time.time() + OPERATOR_SECONDS
    for _ in range(DEATHS):
        progress = mmap.mmap(-1, 4096)
        progress[:24] = struct.pack("qdq", -1, time.time(), 0)
        child = os.fork()
        if child == 0:
            run_cases(op, first, progress)
        ended_by = outcome(child, progress, deadline)
        number, _, length = struct.unpack_from("qdq", progress)
        if ended_by is None or number < 0 or time.time() > deadline:
            return
        print(name, ended_by, progress[24 : 24 + length].decode(), sep="\t", flush=True)
        first = number + 1


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    for op in op_db:
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if wanted in name:
            sweep(op, name)


if __name__ == "__main__":
    main()
