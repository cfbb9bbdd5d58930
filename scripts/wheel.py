#!/usr/bin/env python3
"""Packs an installed Tutti into a wheel: usage: scripts/wheel.py PREFIX FOLDER

A wheel is an archive that pip unpacks over the environment's prefix. `bin`, `lib` and `include` are where
`make install` puts them, and all files find each other relative to their own place. The tag names the oldest
C library with which the files run, read from the versions of their symbols (PEP 600). Wheels cannot contain
symbolic links. A second name of a library is therefore an empty library that needs the first. A second name
of a program is a script or a copy.
"""

import base64
import csv
import hashlib
import io
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import third_party

ROOT = Path(__file__).resolve().parent.parent
NAME = "tutti_mpi"
SUMMARY = "Tutti, an MPI library of the MPI 5.0 standard ABI: runs what was built for MPICH, Intel MPI and Open MPI, too"
EXECUTABLE, PLAIN = 0o100755, 0o100644
# The moment of all files: the same inputs give the same wheel.
MOMENT = (2020, 1, 1, 0, 0, 0)
# Libraries that a manylinux wheel may want from the system.
OF_THE_SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libgcc_s.so.1", "ld-linux-x86-64.so.2",
                 "ld-linux-aarch64.so.1", "libutil.so.1"}


def text_of(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def is_elf(path):
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def wanted_glibc(path):
    """Returns the newest version of the C library's symbols that a file needs, as (2, 28)."""
    versions = re.findall(r"\(GLIBC_(\d+)\.(\d+)", text_of("objdump", "-T", path))
    return max(((int(major), int(minor)) for major, minor in versions), default=(2, 0))


def needed(path):
    return re.findall(r"NEEDED\s+(\S+)", text_of("objdump", "-p", path))


def machine(path):
    """Returns the processor of a file, as platform tags name it."""
    return {62: "x86_64", 183: "aarch64", 243: "riscv64", 21: "ppc64le"}[int.from_bytes(path.read_bytes()[18:20], "little")]


def tag(files):
    """Returns the platform tag that fits all files of the wheel."""
    binaries = [path for path in files if is_elf(path)]
    own = {path.name for path in files}
    for path in binaries:
        foreign = set(needed(path)) - OF_THE_SYSTEM - own
        if foreign:
            sys.exit(f"wheel: {path} needs {', '.join(sorted(foreign))}, which no wheel may take from the system")
    major, minor = max([(2, 17), *map(wanted_glibc, binaries)])
    processors = {machine(path) for path in binaries}
    assert len(processors) == 1, f"files of several processors: {processors}"
    return f"manylinux_{major}_{minor}_{processors.pop()}"


def alias_library(folder, name, target, place="$ORIGIN"):
    """Builds an empty library of another name that needs the given one. A program that loads it has that
    library's functions."""
    file = folder / name
    command = os.environ.get("CC", "cc").split() + ["-shared", "-nostdlib", "-x", "c", "/dev/null", f"-Wl,-soname,{name}", "-Wl,--no-as-needed",
                                                    "-Wl,--enable-new-dtags", f"-Wl,-rpath,{place}", "-o", file, "-x", "none", target]
    subprocess.run([str(word) for word in command], check=True)
    return file.read_bytes()


def linked(path, made):
    """Returns what replaces a symbolic link in a wheel, which has none: mode and content."""
    target = path.resolve()
    if path.suffix == ".so" and path.parent.name == "lib":
        # A linker script for -lmpi_abi.
        return PLAIN, f"INPUT(-l:{target.name})\n".encode()
    if ".so" in path.name:
        return EXECUTABLE, alias_library(made, path.name, target)
    if is_elf(target):
        return EXECUTABLE, f'#!/bin/sh\nexec "$(dirname -- "$(readlink -f -- "$0")")/{target.name}" "$@"\n'.encode()
    return (PLAIN if path.suffix == ".pc" else EXECUTABLE), target.read_bytes()


def contents(prefix, made):
    """Paths in the prefix, with mode and content, in order."""
    paths = [path for path in sorted(prefix.rglob("*")) if path.is_symlink() or path.is_file()]
    files = [path for path in paths if not path.is_symlink() and path.suffix not in (".mod", ".debug")]
    for path in paths:
        if path.is_symlink():
            yield path.relative_to(prefix), *linked(path, made)
        elif path in files:
            yield path.relative_to(prefix), EXECUTABLE if os.access(path, os.X_OK) else PLAIN, path.read_bytes()
    # mpi4py looks here when nobody has started it. The file has the name that is looked for, and within
    # another: the loader would take it for the library that it needs.
    front = prefix / "lib" / "tutti" / "mpich" / "libmpi.so.12"
    yield Path("lib") / front.name, EXECUTABLE, alias_library(made, "libtutti_mpich.so.1", front, "$ORIGIN/tutti/mpich")


def entry(archive, record, name, mode, content):
    info = zipfile.ZipInfo(name, MOMENT)
    info.external_attr = mode << 16
    info.compress_type = zipfile.ZIP_DEFLATED
    # The archive's own level does not count for an entry with a ZipInfo.
    archive.writestr(info, content, compresslevel=archive.compresslevel)
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record.writerow([name, f"sha256={digest}", len(content)])


CLASSIFIERS = [
    "Development Status :: 4 - Beta", "Intended Audience :: Science/Research", "Operating System :: POSIX :: Linux",
    "License :: OSI Approved :: MIT License", "License :: OSI Approved :: Apache Software License", "Programming Language :: Rust",
    "Topic :: System :: Distributed Computing",
]


def classifiers():
    """Returns the lines of metadata for the index, with a link if the project has an address."""
    address = re.search(r"^REPOSITORY=(.+)$", (ROOT / "packaging" / "project.env").read_text(), re.MULTILINE)
    return [f"Classifier: {line}\n" for line in CLASSIFIERS] + ([f"Project-URL: Source, {address[1]}\n"] if address else [])


def write(prefix, folder, level=9):
    """Writes the wheel, compressed at this level of zlib; returns its path."""
    version = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]
    platform = tag([path for path in prefix.rglob("*") if path.is_file() and not path.is_symlink()])
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{NAME}-{version}-py3-none-{platform}.whl"
    about = f"{NAME}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: tutti-mpi\nVersion: {version}\nSummary: {SUMMARY}\nLicense: MIT OR Apache-2.0\n" \
               f"{''.join(classifiers())}Requires-Python: >=3.8\n" \
               f"Description-Content-Type: text/markdown\n\n{(ROOT / 'README.md').read_text()}"
    listed = io.StringIO()
    record = csv.writer(listed, lineterminator="\n")
    with tempfile.TemporaryDirectory() as made, zipfile.ZipFile(wheel, "w", compresslevel=level) as archive:
        for path, mode, content in contents(prefix, Path(made)):
            entry(archive, record, f"{NAME}-{version}.data/data/{path}", mode, content)
        for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
            entry(archive, record, f"{about}/licenses/{licence}", PLAIN, (ROOT / licence).read_bytes())
        entry(archive, record, f"{about}/METADATA", PLAIN, metadata.encode())
        entry(archive, record, f"{about}/WHEEL", PLAIN,
              f"Wheel-Version: 1.0\nGenerator: tutti\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode())
        with tempfile.TemporaryDirectory() as listing:
            third_party.main(Path(listing))
            for path in sorted(Path(listing).iterdir()):
                folder_of = "licenses" if path.suffix == "" else "sboms"
                entry(archive, record, f"{about}/{folder_of}/{path.name}", PLAIN, path.read_bytes())
        record.writerow([f"{about}/RECORD", "", ""])
        info = zipfile.ZipInfo(f"{about}/RECORD", MOMENT)
        info.external_attr = PLAIN << 16
        archive.writestr(info, listed.getvalue())
    return wheel


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    print(write(Path(sys.argv[1]).resolve(), Path(sys.argv[2])))
