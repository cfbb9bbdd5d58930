"""`make release` in a copy of the sources: version, changelog, tag, and the files that it makes."""

import hashlib
import json
import os
import re
import subprocess
import tarfile

import pytest

from harness import ROOT


def run(*words, cwd, env=None, status=0):
    """Returns the output of a command that has to end with `status`."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=300)
    assert done.returncode == status, f"{words}:\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.fixture
def copy(tmp_path):
    """Makes a repository with one commit: the sources with all changes to files that git knows."""
    if not (ROOT / ".git").exists():
        pytest.skip("the sources are not in a repository")
    commit = run("git", "stash", "create", cwd=ROOT).strip() or "HEAD"
    folder = tmp_path / "sources"
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    subprocess.run(["tar", "-x"], input=archive, cwd=folder, check=True, timeout=60)
    for words in (["init", "-q"], ["add", "-A", "-f"], ["config", "user.name", "T"], ["config", "user.email", "t@localhost"], ["commit", "-qm", "all"]):
        run("git", *words, cwd=folder)
    return folder


def test_a_release_is_made_by_one_command(copy):
    said = run("make", "release", "VERSION=9.8.7", cwd=copy, env={"CHECKS": "", "PARTS": "source materials"})
    assert "Nothing is published" in said and "neither the repository nor the index" in said, said
    made = copy / "dist" / "9.8.7"
    sums = dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines())
    names = {"tutti-9.8.7.tar.gz", "THIRD-PARTY-LICENSES", "tutti.cdx.json"}
    assert set(sums) == names and {path.name for path in made.iterdir()} == names | {"SHA256SUMS"}
    for name, digest in sums.items():
        assert hashlib.sha256((made / name).read_bytes()).hexdigest() == digest
    assert run("git", "tag", cwd=copy).split() == ["v9.8.7"] and not run("git", "status", "--porcelain", "-uno", cwd=copy)
    for name, line in [("Cargo.toml", 'version = "9.8.7"'), ("CITATION.cff", 'version: "9.8.7"'), ("packaging/conda/recipe.yaml", "  version: 9.8.7"),
                       ("packaging/easybuild/tutti.eb", "version = '9.8.7'")]:
        assert line in (copy / name).read_text().splitlines(), name
    assert re.search(r"^## Unreleased\n\n## 9\.8\.7 \(\d{4}-\d\d-\d\d\)\n", (copy / "CHANGELOG.md").read_text(), re.M)
    # The same commit gives the same bytes.
    source = made / "tutti-9.8.7.tar.gz"
    again = subprocess.run("git archive --format=tar --prefix=tutti-9.8.7/ v9.8.7 | gzip -9n", shell=True, cwd=copy, stdout=subprocess.PIPE, check=True).stdout
    assert source.read_bytes() == again
    with tarfile.open(source) as archive:
        assert "tutti-9.8.7/Cargo.lock" in archive.getnames()


def test_materials_name_each_crate_with_its_licence(copy):
    run("python3", "scripts/third_party.py", "made", cwd=copy)
    found = json.loads((copy / "made" / "tutti.cdx.json").read_text())
    crates = {component["name"]: component for component in found["components"]}
    assert found["specVersion"] == "1.5" and {"tutti-abi", "ring", "zstd-sys", "clap"} <= set(crates)
    # Only in builds and tests.
    assert not {"proptest", "syn", "loom", "serde_derive"} & set(crates)
    assert all(component.get("licenses") for component in crates.values())
    references = {component["bom-ref"] for component in found["components"]}
    assert all({edge["ref"], *edge["dependsOn"]} <= references for edge in found["dependencies"])
    text = (copy / "made" / "THIRD-PARTY-LICENSES").read_text()
    assert "ring 0" in text and "BSD License" in text and len(text) > 50_000


@pytest.mark.parametrize("version, reason", [("", "VERSION is MAJOR.MINOR.PATCH"), ("1.0", "VERSION is MAJOR.MINOR.PATCH")])
def test_wrong_versions_are_refused(copy, version, reason):
    assert reason in run("scripts/release.sh", version, cwd=copy, env={"CHECKS": ""}, status=1)


def test_changes_that_are_not_committed_are_refused(copy):
    (copy / "README.md").write_text("changed\n")
    assert "not committed" in run("scripts/release.sh", "9.8.7", cwd=copy, env={"CHECKS": ""}, status=1)


def test_all_files_have_the_same_version():
    run("scripts/version.sh", "--check", cwd=ROOT)
