"""The arguments and variables of the chart's ClusterServingRuntimes are those of the real programs."""

import json
import re
import subprocess

import pytest

import cases

TEMPLATE = cases.HERE.parent.parent / "charts" / "weir" / "templates" / "serving-runtimes.yaml"


def runtime(name: str) -> str:
    """Returns the part of the template with this runtime."""
    _, _, rest = TEMPLATE.read_text().partition(f'"weir.servingRuntime" (list $ "{name}")')
    assert rest, f"{TEMPLATE} has no runtime {name}"
    return rest.partition("\n---\n")[0]


def flags(name: str) -> set[str]:
    found = set(re.findall(r"--([a-z][a-z_-]*)", runtime(name)))
    assert found
    return found


def output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


def needs(name: str) -> None:
    if missing := cases.environment_missing(name):
        pytest.skip(missing)


def test_triton_has_the_arguments() -> None:
    needs("triton")
    usage = output(cases.find("triton", "pytriton/tritonserver/bin/tritonserver"), "--help")
    assert flags("tritonserver") <= set(re.findall(r"--([a-z-]+)", usage)), usage


# Prints the variables that MLServer reads: those of its fields, and those that a field names.
MLSERVER_VARIABLES = """import json
from mlserver.settings import ModelParameters, ModelSettings, Settings
prefixes = {Settings: "MLSERVER_", ModelSettings: "MLSERVER_MODEL_", ModelParameters: "MLSERVER_MODEL_"}
found = [prefix + name.upper() for kind, prefix in prefixes.items() for name in kind.model_fields]
fields = [field for kind in prefixes for field in kind.model_fields.values() if field.validation_alias]
print(json.dumps(found + [name for field in fields for name in field.validation_alias.choices]))"""


def test_mlserver_reads_the_variables() -> None:
    needs("mlserver")
    known = set(json.loads(output(cases.program("mlserver", "python"), "-W", "ignore", "-c", MLSERVER_VARIABLES).splitlines()[-1]))
    # The controller sets three more.
    variables = {"MLSERVER_MODEL_NAME", "MLSERVER_MODEL_URI", "MLSERVER_LOAD_MODELS_AT_STARTUP"}
    variables |= set(re.findall(r"name: (MLSERVER_\w+)", runtime("mlserver")))
    assert variables <= known, variables - known


def test_kserves_server_has_the_arguments() -> None:
    needs("kserve")
    usage = output(cases.program("kserve", "python"), "-c", "from kserve.model_server import parser; parser.print_help()", "--help")
    # The server of Hugging Face's models adds this one.
    own = {"model_dir"}
    assert flags("huggingfaceserver") - own <= set(re.findall(r"--([a-z_-]+)", usage)), usage
