"""Writes the Dockerfile, which builds the same file trees on machines with Docker and no toolchain."""

import json

from definition import IMAGES, USER

PREFACE = """\
# Generated from definition.py; `make generate` rewrites it. From the repository's root:
#
#     docker build -f images/Dockerfile --target weir -t weir .
#     docker build -f images/Dockerfile --target weir-runtime -t weir-runtime .
"""

BUILD = """
FROM rust:{toolchain}-bookworm AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ make curl python3 python3-pip ca-certificates
WORKDIR /weir
COPY . .
RUN make image ONLY=trees
"""


def dockerfile(toolchain, config):
    """Returns the Dockerfile's text. `config` maps an image to its configuration, as in the archive."""
    stages = [stage(image, config(image)) for image in IMAGES]
    return PREFACE + BUILD.format(toolchain=toolchain) + "".join(stages)


def stage(image, config):
    lines = [
        f"FROM scratch AS {image.stem}",
        f"COPY --from=build /weir/target/images/{image.stem}/ /",
        *(f"LABEL {name}={json.dumps(value)}" for name, value in config["Labels"].items()),
        *(f"ENV {variable}" for variable in config["Env"]),
        *(f"EXPOSE {port.split('/')[0]}" for port in config["ExposedPorts"]),
        f"USER {USER}:{USER}",
        f"WORKDIR {config['WorkingDir']}",
        f"ENTRYPOINT {json.dumps(config['Entrypoint'])}",
    ]
    return "\n" + "\n".join(lines) + "\n"
