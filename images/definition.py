"""What Weir's images hold and how they run: everything else in this folder reads it here."""

from typing import NamedTuple

# The user of distroless images; Pod Security's `runAsNonRoot` asks for a number.
USER = 65532

SOURCE = "https://github.com/weir-serving/weir"
HOME = "/opt/weir"  # bin/ and lib/: a program's run path looks in ../lib
MIB = 1 << 20


class Program(NamedTuple):
    """A binary of the workspace, and the paths at which the image has it too."""

    name: str
    links: tuple = ()


class Image(NamedTuple):
    """An image: its program, the libraries that no system package brings, and how it is run."""

    name: str
    description: str
    program: Program
    ports: tuple
    limit: int  # bytes of all layers, compressed
    libraries: str = ""  # a folder of libraries: `libtorch` or `cuda`
    environment: tuple = ()
    suffix: str = ""  # of the tag

    @property
    def entry_point(self):
        return f"{HOME}/bin/{self.program.name}"

    @property
    def path(self):
        """PATH: ours, then where Triton's image has its server, then the usual."""
        folders = [f"{HOME}/bin"]
        folders += sorted({link.rsplit("/", 1)[0] for link in self.program.links} - {f"{HOME}/bin"})
        return ":".join([*folders, "/usr/local/bin", "/usr/bin", "/bin"])

    @property
    def variables(self):
        return (("PATH", self.path), ("SSL_CERT_FILE", CERTIFICATES), *self.environment)

    @property
    def stem(self):
        """Name of the archive and of the stage of the Dockerfile."""
        return self.name + self.suffix


CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

# A Deployment made for Triton names the program by either path.
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
        description="Weir's model server: TorchScript on libtorch, for CPUs",
        program=RUNTIME,
        ports=(8000, 8001, 8002),
        limit=400 * MIB,
        libraries="libtorch",
    ),
)

CUDA = IMAGES[1]._replace(
    description="Weir's model server: TorchScript on libtorch, for NVIDIA GPUs",
    libraries="cuda",
    suffix="-cuda",
    # What the driver's container toolkit brings in; which GPUs is the cluster's to say.
    environment=(("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),),
    limit=4096 * MIB,
)

# Text files of the system that a program expects, by path.
SYSTEM_FILES = {
    "/etc/passwd": f"root:x:0:0:root:/:/sbin/nologin\nnonroot:x:{USER}:{USER}:nonroot:/:/sbin/nologin\n",
    "/etc/group": f"root:x:0:\nnonroot:x:{USER}:\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}

# Libraries that come with the driver, from the machine that runs the image.
DRIVER_LIBRARIES = ("libcuda.so.1", "libnvidia-ml.so.1")
