"""A root of Debian with nothing of ours in it, made once for a build folder from this machine's own package sources, and thrown-away copies of it."""
import hashlib
import os
import re
import shutil
import tempfile
from pathlib import Path

from tap import Missing, run

# What a consumer builds with.
TOOLS = ["gcc", "g++", "libc6-dev", "cmake", "make", "pkg-config"]


def sources():
    """This machine's own sources of Debian, a line each."""
    rows = run(["apt-get", "indextargets", "--format",
                "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(CREATED_BY)"]).splitlines()
    lines = []
    for origin, address, release, component, kind in (row.split("|") for row in rows):
        line = f"deb {address} {release} {component}"
        if origin == "Debian" and kind == "Packages" and line not in lines:
            lines.append(line)
    if not lines:
        raise Missing("apt knows no source of Debian; run apt-get update")
    return sorted(lines, key=lambda line: ("-" in line.split()[2], line))


def codename():
    text = Path("/etc/os-release").read_text(encoding="utf-8")
    return re.search(r"^VERSION_CODENAME=(\w+)", text, re.MULTILINE).group(1)


def tarball(cache, packages):
    """The root as one file, made if there is none for these packages and sources."""
    wanted = sorted(set(TOOLS + packages))
    lines = sources()
    name = hashlib.sha256("\n".join(wanted + lines).encode()).hexdigest()[:16]
    path = cache / f"root-{name}.tar"
    if path.exists():
        return path
    for old in cache.glob("root-*.tar"):
        old.unlink()
    half = cache / f"half-{os.getpid()}.tar"
    try:
        # A proxy is this machine's own setting, like its sources.
        proxy = run(["apt-config", "dump", "--no-empty", "--format", "%f=%v%n", "Acquire::http::Proxy"]).split()
        options = [f"--aptopt={line.split('=', 1)[0]} \"{line.split('=', 1)[1]}\"" for line in proxy]
        run(["mmdebstrap", "--quiet", "--variant=apt", f"--include={','.join(wanted)}", *options, codename(), half, *lines],
            timeout=1500)
        half.rename(path)
    except AssertionError as error:
        raise Missing(f"no clean root: {str(error)[-600:]}") from error
    finally:
        half.unlink(missing_ok=True)
    return path


class Root:
    """A copy of the root that goes when it is left."""

    def __init__(self, tar, cache):
        self.path = Path(tempfile.mkdtemp(prefix="root-", dir=cache))
        # Where this is not the superuser, a namespace in which it is.
        self.enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
        if os.geteuid() != 0:
            self.enter += ["--map-root-user", "--map-auto"]
        run([*self.enter, "tar", "-C", self.path, "-xf", tar, "--exclude=./dev/*"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        run([*self.enter, "rm", "-rf", "--one-file-system", self.path])

    def copy(self, source, name):
        """A file or folder of ours, put below /src of the root."""
        target = self.path / "src" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if Path(source).is_dir():
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)

    def command(self, line):
        """How a shell line is run inside: no network, its own /proc, nothing of this machine's environment."""
        script = 'mount -t proc proc "$0/proc" && mount -t tmpfs dev "$0/dev" && touch "$0/dev/null" && ' \
                 'mount --bind /dev/null "$0/dev/null" && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 ' \
                 'DEBIAN_FRONTEND=noninteractive chroot "$0" /bin/sh -ec "$1"'
        return [*self.enter, "--net", "sh", "-ec", script, str(self.path), line]
