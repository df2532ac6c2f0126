"""Real nets of PyTorch's libraries with random weights, exported by torch.export, and PyTorch's answers to them.

    pip install torch torchvision torchaudio timm transformers diffusers torchfm tabm pytorch-tabnet
    python real_nets.py FOLDER [NAME...]

Any release of torch from 2.8 on can be used. Each net is `FOLDER/NAME.pt2`, and `NAME.npz` has the tensors `B/in/INPUT`
and `B/out/INDEX` of batches of B rows. `FOLDER/kinds.json` has for each name `batched`, `fixed` for a net that exports
only without a dynamic batch, or the error of a net that does not export at all. Nothing is downloaded. The files take
about a gigabyte and are not committed; the program `tests/scenarios/exported_zoo.py` serves them and compares.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch.utils import _pytree as pytree

from real_nets_list import FEW, NETS

# Largest batch of the exported programs.
MOST = 8


def export(net, module):
    """Returns the program and whether its batch is dynamic."""
    arguments = net.arguments(2)
    positional, named = ((), arguments) if isinstance(arguments, dict) else (arguments, {})
    for batched in (True, False):
        shapes = dynamic_shapes(net, arguments) if batched else None
        try:
            return torch.export.export(module, positional, named, dynamic_shapes=shapes), batched
        except Exception as error:
            if not batched:
                raise
            print(f"  without a dynamic batch, because of: {first_lines(error)}", flush=True)
            arguments = net.arguments(1)
            positional, named = ((), arguments) if isinstance(arguments, dict) else (arguments, {})


def dynamic_shapes(net, arguments):
    batch = torch.export.Dim("batch", min=1, max=MOST)
    of = lambda name: {0: batch} | {axis: torch.export.Dim.AUTO for axis in net.varying.get(name, ())}  # noqa: E731
    if isinstance(arguments, dict):
        return {name: of(name) for name in arguments}
    return tuple(of(index) for index in range(len(arguments)))


def answers(net, module, program, batched):
    """Returns PyTorch's inputs and outputs by the names of the inputs and the positions of the outputs."""
    names, found = list(program.graph_signature.user_inputs), {}
    for rows in (1, 2, 7, MOST) if batched else (1,):
        arguments = net.arguments(rows)
        with torch.no_grad():
            outputs = module(**arguments) if isinstance(arguments, dict) else module(*arguments)
        inputs = arguments if isinstance(arguments, dict) else dict(zip(names, arguments))
        for name, tensor in inputs.items():
            found[f"{rows}/in/{name}"] = tensor.numpy()
        leaves = [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor)]
        for index, tensor in enumerate(leaves):
            found[f"{rows}/out/{index}"] = tensor.numpy()
    return found


def write(folder, name):
    """Returns what `kinds.json` says of the net."""
    torch.manual_seed(0)
    net = NETS[name]()
    module = net.module.eval().requires_grad_(False)
    program, batched = export(net, module)
    torch.export.save(program, folder / f"{name}.pt2")
    np.savez_compressed(folder / f"{name}.npz", **answers(net, module, program, batched))
    return "batched" if batched else "fixed"


def first_lines(error):
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def main():
    # The fast path of attention fills padding with zeros, which the exported program does not.
    torch.backends.mha.set_fastpath_enabled(False)
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    record = folder / "kinds.json"
    kinds = json.loads(record.read_text()) if record.exists() else {}
    names = sys.argv[2:] or list(NETS)
    for name in FEW if names == ["few"] else names:
        before = time.monotonic()
        # The record keeps this if the process dies during the export.
        kinds[name] = "the process died"
        record.write_text(json.dumps(kinds, indent=1))
        try:
            kinds[name] = write(folder, name)
        except Exception as error:
            kinds[name] = first_lines(error)
        print(f"{name}: {kinds[name]} ({time.monotonic() - before:.0f} s)", flush=True)
        record.write_text(json.dumps(kinds, indent=1))


if __name__ == "__main__":
    main()
