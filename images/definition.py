"""Defines the content and settings of Weir's images; all other files in this folder use this definition."""

from typing import NamedTuple

# The user of distroless images, as a number, which Pod Security's `runAsNonRoot` requires.
USER = 65532

SOURCE = "https://github.com/weir-serving/weir"
HOME = "/opt/weir"  # contains bin/ and lib/: the run path of a program is ../lib
MIB = 1 << 20


class Program(NamedTuple):
    """A binary of the workspace, and further paths at which the image has it."""

    name: str
    links: tuple = ()


class Image(NamedTuple):
    """An image: its program, its libraries from outside the system, and how it runs."""

    name: str
    description: str
    program: Program
    ports: tuple
    limit: int  # maximum bytes of all layers, compressed
    libraries: str = ""  # folder of additional libraries: `libtorch` or `cuda`
    environment: tuple = ()
    suffix: str = ""  # suffix of the tag

    @property
    def entry_point(self):
        return f"{HOME}/bin/{self.program.name}"

    @property
    def path(self):
        """Returns PATH: Weir's folder, then the folder of the server in Triton's image, then the usual folders."""
        folders = [f"{HOME}/bin"]
        folders += sorted({link.rsplit("/", 1)[0] for link in self.program.links} - {f"{HOME}/bin"})
        return ":".join([*folders, "/usr/local/bin", "/usr/bin", "/bin"])

    @property
    def variables(self):
        return (("PATH", self.path), ("SSL_CERT_FILE", CERTIFICATES), *self.environment)

    @property
    def stem(self):
        """Returns the name of the archive and of the stage in the Dockerfile."""
        return self.name + self.suffix


CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# A Deployment that was written for Triton names the program by one of these paths.
RUNTIME = Program("weir-runtime", links=(f"{HOME}/bin/tritonserver", "/opt/tritonserver/bin/tritonserver"))

IMAGES = (
    Image(
        name="weir",
        description="Weir's gateway, controller and autoscaler",
        program=Program("weir"),
        ports=(8080, 9090),
        limit=40 * MIB,
    ),
    Image(
        name="weir-runtime",
        description="Weir's model server: TorchScript, torch.export and ONNX, for CPUs",
        program=RUNTIME,
        ports=(8000, 8001, 8002),
        limit=400 * MIB,
        libraries="libtorch",
    ),
)

CUDA = IMAGES[1]._replace(
    description="Weir's model server: TorchScript and torch.export, for NVIDIA GPUs; ONNX on the CPU",
    libraries="cuda",
    suffix="-cuda",
    # Driver capabilities that NVIDIA's container toolkit provides; the cluster decides on the GPUs.
    environment=(("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),),
    limit=4096 * MIB,
)

# Text files of the system that programs expect, by path.
SYSTEM_FILES = {
    "/etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n",
    "/etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}

# Libraries that come with the driver, from the machine that runs the image.
DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
