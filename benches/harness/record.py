"""Describes the machine of a record, and writes records."""

import json
import os
import platform
import subprocess
from pathlib import Path

from .paths import ROOT


def first_line(path: str, start: str) -> str:
    for text in Path(path).read_text().splitlines():
        if text.startswith(start):
            return text.split(":", 1)[1].strip()
    return "unknown"


def machine() -> dict:
    return {
        "processor": first_line("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": first_line("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
    }


def output(*command: str) -> str:
    """Returns a program's stdout and stderr, without the final line end."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip()


def written(result: dict) -> str:
    """Formats JSON with one line per point, and numbers with five digits."""

    def short(value):
        if isinstance(value, float):
            return float(f"{value:.5g}")
        if isinstance(value, dict):
            return {key: short(each) for key, each in value.items()}
        return [short(each) for each in value] if isinstance(value, list) else value

    def member(key: str, value) -> str:
        if isinstance(value, list) and value and isinstance(value[0], dict):
            lines = ",\n  ".join(json.dumps(short(point)) for point in value)
            return f'"{key}": [\n  {lines}\n ]'
        return f'"{key}": {json.dumps(short(value))}'

    return "{\n " + ",\n ".join(member(*item) for item in result.items()) + "\n}\n"
