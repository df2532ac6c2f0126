"""Unit tests of the image builder: python3 images/tests.py. Other tests run the images in pods."""

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import archive
import build
import cuda
import definition
import elf
import libraries
from tree import File, Folder, Link, write_tar

READELF = """
      [Requesting program interpreter: /lib64/ld-linux-x86-64.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libtorch_cpu.so]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000001d (RUNPATH)            Library runpath: [/home/me/.libtorch/lib:$ORIGIN/../lib:$ORIGIN]
"""


def packed(tree):
    out = io.BytesIO()
    write_tar(tree, out)
    return out.getvalue()


class Trees(unittest.TestCase):
    def test_a_tree_is_the_same_bytes_in_any_order(self):
        one = {"/b/c": File(b"1"), "/a": Link("b/c"), "/tmp": Folder(0o1777)}
        self.assertEqual(packed(one), packed(dict(reversed(one.items()))))

    def test_folders_precede_their_entries_without_times_and_owners(self):
        with tarfile.open(fileobj=io.BytesIO(packed({"/b/c/d": File(b"1", 0o755)}))) as file:
            members = file.getmembers()
        self.assertEqual([member.name for member in members], ["b", "b/c", "b/c/d"])
        self.assertEqual({(member.mtime, member.uid, member.gid) for member in members}, {(0, 0, 0)})
        self.assertEqual(members[2].mode, 0o755)


class Libraries(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.system = libraries.System({name: str(self.library(name)) for name in ("libc.so.6", "libm.so.6")})
        self.needs = {
            "program": elf.Needs(("libown.so", "libm.so.6"), ("/home/me/lib", "$ORIGIN/../lib"), ""),
            "libown.so": elf.Needs(("libc.so.6", "libcuda.so.1"), (), ""),
            "libm.so.6": elf.Needs(("libc.so.6",), (), ""),
            "libc.so.6": elf.Needs((), (), ""),
        }
        self.tree = {
            "/opt/bin/program": File(self.library("program")),
            "/opt/lib/libown.so": File(self.library("libown.so")),
        }

    def library(self, name):
        path = Path(self.folder.name).resolve() / name
        path.write_bytes(elf.MAGIC)
        return path

    def asked(self, path):
        return self.needs[Path(path).name]

    def test_output_of_readelf_is_parsed(self):
        needs = elf.parse(READELF)
        self.assertEqual(needs.libraries, ("libtorch_cpu.so", "libc.so.6"))
        self.assertEqual(needs.run_path, ("/home/me/.libtorch/lib", "$ORIGIN/../lib", "$ORIGIN"))
        self.assertEqual(needs.interpreter, "/lib64/ld-linux-x86-64.so.2")

    def test_needed_system_libraries_are_added_unless_present(self):
        added = libraries.needed_by(self.tree, self.system, self.asked)
        self.assertEqual(sorted(Path(path).name for path in added), ["libc.so.6", "libm.so.6"])

    def test_missing_libraries_are_listed_except_the_drivers(self):
        whole = {**self.tree, **libraries.needed_by(self.tree, self.system, self.asked)}
        missing = [("/opt/lib/libown.so", "libcuda.so.1")]
        self.assertEqual(libraries.unresolved(whole, self.system, needs=self.asked), missing)
        self.assertEqual(libraries.unresolved(whole, self.system, definition.DRIVER_LIBRARIES, self.asked), [])

    def test_a_library_found_only_at_the_build_machines_path_is_missing(self):
        whole = {**self.tree, **libraries.needed_by(self.tree, self.system, self.asked)}
        whole["/home/you/lib/libown.so"] = whole.pop("/opt/lib/libown.so")
        missing = libraries.unresolved(whole, self.system, definition.DRIVER_LIBRARIES, self.asked)
        self.assertEqual(missing, [("/opt/bin/program", "libown.so")])


class Archives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.cache = Path(folder.name)
        self.layers = [archive.layer({"/a": File(b"1")}, self.cache), archive.layer({"/b": File(b"2")}, self.cache)]
        path = self.cache / "image.tar"
        archive.write(path, self.layers, {"User": "65532:65532"}, "weir", "1.2.3")
        with tarfile.open(path) as file:
            self.files = {member.name: file.extractfile(member).read() for member in file.getmembers()}

    def json(self, name):
        return json.loads(self.files[name])

    def blob(self, descriptor):
        content = self.files["blobs/" + descriptor["digest"].replace(":", "/")]
        self.assertEqual(len(content), descriptor["size"])
        return content

    def test_each_blob_is_named_by_its_digest(self):
        for name, content in self.files.items():
            if name.startswith("blobs/"):
                self.assertEqual(name.split("/")[2], hashlib.sha256(content).hexdigest())

    def test_layers_unpack_to_what_the_configuration_says(self):
        manifest = json.loads(self.blob(self.json("index.json")["manifests"][0]))
        unpacked = [gzip.decompress(self.blob(layer)) for layer in manifest["layers"]]
        digests = json.loads(self.blob(manifest["config"]))["rootfs"]["diff_ids"]
        self.assertEqual(digests, ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in unpacked])

    def test_docker_and_containerd_find_the_same_image(self):
        entry = self.json("index.json")["manifests"][0]
        manifest, docker = json.loads(self.blob(entry)), self.json("manifest.json")[0]
        self.assertEqual(docker["Config"], "blobs/" + manifest["config"]["digest"].replace(":", "/"))
        self.assertEqual(docker["Layers"], ["blobs/" + layer["digest"].replace(":", "/") for layer in manifest["layers"]])
        self.assertEqual(docker["RepoTags"], ["weir:1.2.3"])
        self.assertEqual(entry["annotations"]["io.containerd.image.name"], "docker.io/library/weir:1.2.3")

    def test_image_names_resolve_to_dockers_registry(self):
        for repository, name in {
            "weir": "docker.io/library/weir:1",
            "me/weir": "docker.io/me/weir:1",
            "ghcr.io/me/weir": "ghcr.io/me/weir:1",
            "localhost/weir": "localhost/weir:1",
        }.items():
            self.assertEqual(archive.reference(repository, "1"), name)


class Definition(unittest.TestCase):
    def test_the_dockerfile_is_up_to_date(self):
        text = (build.ROOT / "images/Dockerfile").read_text()
        self.assertEqual(text, build.dockerfile_text(), "make generate rewrites images/Dockerfile")

    def test_images_run_as_a_numeric_user_other_than_root(self):
        for image in (*definition.IMAGES, definition.CUDA):
            self.assertEqual(build.config(image)["User"], "65532:65532")

    def test_the_runtimes_image_links_the_program_as_tritonserver(self):
        for image in (definition.IMAGES[1], definition.CUDA):
            self.assertIn("/opt/tritonserver/bin/tritonserver", image.program.links)
            self.assertIn("/opt/tritonserver/bin", image.path.split(":"))

    def test_the_torch_of_the_image_for_gpus_is_pinned_for_programs_too(self):
        version = cuda.WHEELS.read_text().split("torch==")[1].split(" ")[0]
        self.assertIn(f'    "{version}": torch_wheels(', (build.ROOT / "scripts/libtorch.py").read_text())

    def test_libraries_of_another_release_than_the_programs_are_refused(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(cuda, "STAMP", Path(folder) / "stamp.json"):
            cuda.STAMP.write_text('{"wheels": {"torch==1.0.0": ""}}')
            self.assertRaisesRegex(SystemExit, "build it with TORCH=2", cuda.check_release)


if __name__ == "__main__":
    unittest.main()
