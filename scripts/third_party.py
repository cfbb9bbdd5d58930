"""Writes about the crates that installed programs contain: their licences, and a list of materials (SBOM).

usage: python scripts/third_party.py FOLDER

FOLDER/THIRD-PARTY-LICENSES has the licence texts of all crates, equal texts once. FOLDER/tutti.cdx.json is a
CycloneDX 1.5 document with name, version, licence, source and dependencies of each crate. Both come from
`cargo metadata` and from the sources that cargo has fetched, and are the same for the same Cargo.lock. What
only builds or tests need is left out.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Programs and libraries that `make install` installs.
INSTALLED = {"tutti-abi", "tutti-launch", "tutti-tools", "tutti-overlap", "tutti-fronts-mpich", "tutti-fronts-openmpi"}
TARGETS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu")
LICENCE_FILE = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)


def metadata():
    """Returns what cargo reports about the workspace, for the processors that Tutti supports."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked"]
    for target in TARGETS:
        command += ["--filter-platform", target]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def contained(found):
    """Returns the crates that installed files contain, and the crates that each of them uses, in order."""
    packages = {package["id"]: package for package in found["packages"]}
    uses = {}
    for node in found["resolve"]["nodes"]:
        normal = [dep["pkg"] for dep in node["deps"] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
        uses[node["id"]] = sorted(dep for dep in normal if not is_macro(packages[dep]))
    reached, waiting = set(), [key for key, package in packages.items() if package["name"] in INSTALLED]
    while waiting:
        key = waiting.pop()
        if key not in reached:
            reached.add(key)
            waiting += uses[key]
    order = sorted(reached, key=lambda key: (packages[key]["name"], packages[key]["version"]))
    return [packages[key] for key in order], {key: uses[key] for key in order}


def is_macro(package):
    """Returns true if a crate runs in the compiler only."""
    return any("proc-macro" in target["kind"] for target in package["targets"])


def texts(package):
    """Returns the licence texts that lie in the crate's sources, also those of libraries in C."""
    folder = Path(package["manifest_path"]).parent
    files = [path for path in folder.glob("*") if LICENCE_FILE.match(path.name) and path.is_file()]
    files += [path for path in folder.glob("*/LICENSE*") if path.is_file()]
    return sorted({path.read_text(encoding="utf-8", errors="replace").strip() + "\n" for path in files})


def licences(packages):
    """Returns the text of THIRD-PARTY-LICENSES."""
    foreign = [package for package in packages if package["source"]]
    of_text = {}
    for package in foreign:
        for text in texts(package):
            of_text.setdefault(text, []).append(f"{package['name']} {package['version']}")
    parts = ["Crates that Tutti's programs and libraries contain, with their licences. The texts follow.\n\n"]
    parts += [f"{package['name']} {package['version']}: {package['license'] or 'see its text'}\n" for package in foreign]
    for text, names in of_text.items():
        parts.append(f"\n{'=' * 80}\n{', '.join(names)}\n{'=' * 80}\n\n{text}")
    return "".join(parts)


def reference(package):
    """Returns the package URL of a crate, which names it in the list of materials."""
    return f"pkg:cargo/{package['name']}@{package['version']}"


def materials(packages, uses):
    """Returns the list of materials as a CycloneDX document."""
    by_id = {package["id"]: package for package in packages}
    components = []
    for package in packages:
        licence = package["license"]
        components.append({
            "type": "library", "bom-ref": reference(package), "name": package["name"], "version": package["version"],
            "purl": reference(package), **({"licenses": [{"expression": licence.replace("/", " OR ")}]} if licence else {}),
        })
    dependencies = [{"ref": reference(by_id[key]), "dependsOn": sorted(reference(by_id[dep]) for dep in deps)} for key, deps in uses.items()]
    version = next(package["version"] for package in packages if package["name"] == "tutti-abi")
    about = {"component": {"type": "application", "bom-ref": "tutti", "name": "tutti", "version": version}}
    return {"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "metadata": about, "components": components,
            "dependencies": dependencies}


def main(folder):
    packages, uses = contained(metadata())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "THIRD-PARTY-LICENSES").write_text(licences(packages), encoding="utf-8")
    (folder / "tutti.cdx.json").write_text(json.dumps(materials(packages, uses), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
