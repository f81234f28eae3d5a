#!/usr/bin/env python3
"""The bill of materials is SPDX 2.3 as its specification requires it, and says of each file and library what is so. BUILD: the packaging build. Prints TAP."""
import hashlib
import json
import re
import sys
from pathlib import Path

sys.dont_write_bytecode = True
from tap import main, run, want  # noqa: E402

BUILD = Path(sys.argv[1])
STAGE = BUILD / "stage"


def checksum(one, algorithm):
    found = [row["checksumValue"] for row in one["checksums"] if row["algorithm"] == algorithm]
    want(len(found) == 1, f"{one['SPDXID']}: {len(found)} of {algorithm}")
    return found[0]


def bill():
    found = list((BUILD / "packages").glob("nxmem-*.spdx.json"))
    want(len(found) == 1, f"bills: {found}")
    return json.loads(found[0].read_text(encoding="utf-8"))


def required():
    it = bill()
    want(it["spdxVersion"] == "SPDX-2.3" and it["dataLicense"] == "CC0-1.0" and it["SPDXID"] == "SPDXRef-DOCUMENT", "its head")
    want(re.fullmatch(r"https?://\S+", it["documentNamespace"]) and it["name"], "its name")
    want(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", it["creationInfo"]["created"]), it["creationInfo"]["created"])
    want(all(re.match(r"(Tool|Person|Organization): ", one) for one in it["creationInfo"]["creators"]), "its creators")
    for one in it["packages"]:
        want(all(one.get(key) is not None for key in ("SPDXID", "name", "downloadLocation", "versionInfo")), f"{one}")
    described = [one["relatedSpdxElement"] for one in it["relationships"]
                 if one["spdxElementId"] == "SPDXRef-DOCUMENT" and one["relationshipType"] == "DESCRIBES"]
    want(len(described) == 4, f"describes {described}")
    for one in it["files"]:
        want(one["fileName"].startswith("./") and one["checksums"], f"{one}")


def references():
    it = bill()
    names = [one["SPDXID"] for one in [it, *it["packages"], *it["files"]]]
    want(len(names) == len(set(names)), "a name stands twice")
    want(all(re.fullmatch(r"SPDXRef-[A-Za-z0-9.-]+", name) for name in names), "a name with other characters")
    for one in it["relationships"]:
        want(one["spdxElementId"] in names and one["relatedSpdxElement"] in names, f"{one}")


def files():
    for algorithm in ("SHA256", "SHA1"):
        said = {one["fileName"][2:]: checksum(one, algorithm) for one in bill()["files"]}
        there = {str(path.relative_to(STAGE)): hashlib.new(algorithm, path.read_bytes()).hexdigest() for path in STAGE.rglob("*")
                 if path.is_file() and not path.is_symlink()}
        want(said == there, f"{algorithm}: differ: {sorted(name for name in set(said) | set(there) if said.get(name) != there.get(name))[:10]}")


def contained():
    """A package whose files are listed says that they were looked at, and sums them up; one whose files are not says so."""
    it = bill()
    files = {one["SPDXID"]: one for one in it["files"]}
    for one in it["packages"]:
        inside = [files[row["relatedSpdxElement"]] for row in it["relationships"]
                  if row["spdxElementId"] == one["SPDXID"] and row["relationshipType"] == "CONTAINS"]
        want(one["filesAnalyzed"] == bool(inside), f"{one['name']}: {len(inside)} files, analyzed: {one['filesAnalyzed']}")
        if inside:
            code = hashlib.sha1("".join(sorted(checksum(file, "SHA1") for file in inside)).encode()).hexdigest()
            want(one["packageVerificationCode"]["packageVerificationCodeValue"] == code, f"{one['name']}: another verification code")
            package = BUILD / "packages" / one["packageFileName"]
            want(checksum(one, "SHA256") == hashlib.sha256(package.read_bytes()).hexdigest(), f"{package.name}: another checksum")
        else:
            want("packageVerificationCode" not in one and "licenseInfoFromFiles" not in one, f"{one['name']} says something of files")


def libraries():
    """What the loader will look for belongs to a package that the bill lists, in the version that is installed here."""
    said = {one["name"]: one["versionInfo"] for one in bill()["packages"]}
    for path in [path for path in STAGE.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]:
        for needed in re.findall(r"NEEDED.*\[(.*)\]", run(["readelf", "-dW", path])):
            if needed.startswith(("libnxmem", "ld-linux")):
                continue
            owner = run(["dpkg-query", "--search", f"*/{needed}"]).splitlines()[0].split(":")[0]
            version = run(["dpkg-query", "-W", "-f=${Version}", owner])
            want(said.get(owner) == version, f"{path.name} needs {needed} of {owner} {version}: {said.get(owner)}")


sys.exit(main([("what the specification requires is there", required), ("every reference leads to one thing", references),
               ("every file with its SHA-256 and SHA-1, and no other", files), ("each package is summed up by its files", contained), ("every library that is linked, by version", libraries)]))
