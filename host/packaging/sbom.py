#!/usr/bin/env python3
"""Bill of materials of the packages, SPDX 2.3 as JSON: every file in them with its SHA-256 and SHA-1, and the libraries that they are linked with, by version.

sbom.py --packages FOLDER --version V --epoch SECONDS --out FILE
"""
import argparse
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def name_of(text):
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", text)


def digest(path):
    """The specification wants SHA-1 of each file, whatever else there is."""
    content = path.read_bytes()
    return [{"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()},
            {"algorithm": "SHA1", "checksumValue": hashlib.sha1(content).hexdigest()}]


def verification_code(files):
    """Of a package whose files are listed: SHA-1 over their SHA-1, in order."""
    sums = sorted(one["checksumValue"] for file in files for one in file["checksums"] if one["algorithm"] == "SHA1")
    return {"packageVerificationCodeValue": hashlib.sha1("".join(sums).encode()).hexdigest()}


def package(name, version, **more):
    return {"SPDXID": name_of(f"Package-{name}"), "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION",
            "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION", **more}


def relation(one, kind, other):
    return {"spdxElementId": one, "relationshipType": kind, "relatedSpdxElement": other}


def foreign(deb):
    """Packages of the distribution that this one needs, with the versions it was built beside."""
    for word in run("dpkg-deb", "--field", deb, "Depends").replace("\n", "").split(","):
        needed = word.split()[0]
        known = subprocess.run(["dpkg-query", "-W", "-f=${Version}", needed], capture_output=True, text=True, check=False)
        if known.returncode == 0 and known.stdout:
            yield needed, known.stdout


def document(arguments):
    packages, files, relations = {}, [], []
    for deb in sorted(arguments.packages.glob("*.deb")):
        name = deb.name.split("_")[0]
        own = package(name, run("dpkg-deb", "--field", deb, "Version").strip(), filesAnalyzed=True, packageFileName=deb.name,
                      checksums=digest(deb), licenseDeclared="MIT", licenseInfoFromFiles=["MIT"])
        packages[name] = own
        relations.append(relation("SPDXRef-DOCUMENT", "DESCRIBES", own["SPDXID"]))
        first = len(files)
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "--extract", deb, folder)
            for path in sorted(path for path in Path(folder).rglob("*") if path.is_file() and not path.is_symlink()):
                inside = "./" + str(path.relative_to(folder))
                files.append({"SPDXID": name_of(f"File-{name}-{inside[2:]}"), "fileName": inside, "checksums": digest(path),
                              "licenseConcluded": "MIT", "licenseInfoInFiles": ["NOASSERTION"], "copyrightText": "NOASSERTION"})
                relations.append(relation(own["SPDXID"], "CONTAINS", files[-1]["SPDXID"]))
        own["packageVerificationCode"] = verification_code(files[first:])
        for needed, version in foreign(deb):
            packages.setdefault(needed, package(needed, version, filesAnalyzed=False, licenseDeclared="NOASSERTION"))
            relations.append(relation(own["SPDXID"], "DEPENDS_ON", packages[needed]["SPDXID"]))
    made = datetime.fromtimestamp(int(arguments.epoch), timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    content = hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"nxmem-{arguments.version}",
            "documentNamespace": f"https://nxmem.invalid/spdx/{arguments.version}/{content[:32]}",
            "creationInfo": {"created": made, "creators": ["Tool: host/packaging/sbom.py"]},
            "packages": list(packages.values()), "files": files, "relationships": relations}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--packages", type=Path, required=True)
    for name in ("--version", "--epoch", "--out"):
        parser.add_argument(name, required=True)
    arguments = parser.parse_args()
    Path(arguments.out).write_text(json.dumps(document(arguments), indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
