"""Whole pieces of everyday work — unpack, clone, copy, build, install — with the same result as outside, byte for byte.

Every load has a small size that runs always and a full one for -m soak. The tests compare what digest.py says of the
tree: names, kinds, modes, links, contents, and the times that were set rather than taken from the clock.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tests.lib.harness import differential
from tests.lib.running import scratch
from tests.loads import archives, packages

FULL = [pytest.mark.soak, pytest.mark.timeout(3000)]
DIGEST = "python3 {guests}/digest.py"
GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    # No tidying up in the background, which would still be at it when the tree is removed.
    "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "gc.auto", "GIT_CONFIG_VALUE_0": "0",
    **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in
       (("NAME", "n"), ("EMAIL", "n@example.org"), ("DATE", "2015-01-01T00:00:00Z"))},
}  # fmt: skip


def size(small: int, full: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("count", [pytest.param(small), pytest.param(full, marks=FULL)])


def own_place() -> str:
    """A path in /tmp, the same on both sides, for results that contain their own path. It is unique: no other process
    uses it, and no killed test left it."""
    return f"/tmp/load.{uuid.uuid4().hex[:12]}"


def archive(count: int) -> bytes:
    with scratch() as place:
        archives.tree(place / "tree.tar", count)
        return Path(place, "tree.tar").read_bytes()


# $here is where the work is done.
TREE = f"""set -e
tar -xf "$archive"
{DIGEST} tree
cp -a tree copy
{DIGEST} copy
rsync -a --itemize-changes tree/ synced/ | wc -l
rsync -a --itemize-changes tree/ synced/
{DIGEST} synced
git init -q tree
git -C tree add -A
git -C tree commit -qm all
git -C tree rev-parse HEAD
git clone -q tree clone
git -C clone status --porcelain
git -C clone fsck
{DIGEST} clone .git
echo more >> clone/00/0/file2
rm clone/00/0/file5
mv clone/00/1 clone/00/moved
git -C clone status --porcelain
git -C clone checkout -q -f .
git -C clone clean -qfd
git -C clone status --porcelain
for each in copy/*/*; do mv "$each" "$each.moved"; done
find copy -name '*7' ! -type d -delete
find copy -type f -perm /u+w -exec sed -i 's/1/one/' {{}} +
{DIGEST} copy
rm -rf tree copy synced clone
ls -A
"""


@pytest.mark.needs("tar", "rsync", "git", "python3", "find", "sed")
@pytest.mark.parametrize("where", ["mount", "tmp"])
@size(120, 20_000)
def test_tree(count: int, where: str) -> None:
    start = "cd {work}/here" if where == "mount" else 'cd "$(mktemp -d /tmp/load.XXXXXX)"'
    finish = "" if where == "mount" else 'cd / && rmdir "$OLDPWD"'
    script = f"archive={{work}}/tree.tar\n{start}\n{TREE}\n{finish}"
    tree: dict[str, str | bytes] = {"tree.tar": archive(count), "here/": ""}
    result = differential(["bash", "-c", script], tree=tree, env=GIT, timeout=count / 10 + 60)
    assert len(result.out.splitlines()) > count / 100 * 3


# What was there before is changed, moved, and removed in every way.
CHANGES = f"""set -e
cd {{work}}/tree
{DIGEST} .
cp -a 00 again
chmod -R go-rwx 00/0
find . -name '*5' -type f -perm -u+w -exec sh -c 'echo more >> "$1"' sh {{}} \\;
find . -name '*7' ! -type d -delete
find . -name 'link*' -exec touch -h -d 2012-03-04T05:06:07Z {{}} +
for each in 0*/*1; do mv "$each" "$each.moved"; done
mv 00/2 00/3/inside
ln 00/3/inside/file202 00/hard
rsync -a again/ 00/
{DIGEST} .
rm -rf 00/1 00/3
mkdir -p 00/1/new && echo text > 00/1/new/file
{DIGEST} .
cd .. && rm -rf tree && ls -A
"""


@pytest.mark.needs("rsync", "python3", "find", "tar")
@pytest.mark.parametrize("manner", ["cow", "rw"])
@size(400, 10_000)
def test_changing_what_was_there(count: int, manner: str) -> None:
    with scratch() as place:
        archives.tree(place / "tree.tar", count)

        def unpack(work: Path) -> None:
            archives.unpack(place / "tree.tar", work)

        differential(["bash", "-c", CHANGES], prepare=unpack, manner=manner, timeout=count / 10 + 60)


BUILD = f"""set -e
cmake -S {{work}} -B build -DCMAKE_BUILD_TYPE=Release > /dev/null
cmake --build build | sed 's/^\\[ *[0-9]*%\\] //' | sort
ctest --test-dir build -Q
cmake --install build --prefix "$PWD/installed" > /dev/null
LD_LIBRARY_PATH=installed/lib installed/bin/main
cmake --build build | sed 's/^\\[ *[0-9]*%\\] //' | sort
{DIGEST} installed
"""


@pytest.mark.needs("cmake", "gcc", "make")
@size(6, 120)
def test_cmake_build(count: int) -> None:
    tree = packages.cmake_project(count)
    place = own_place()
    script = f"mkdir {place} && cd {place} && {BUILD}\nrm -r {place}"
    result = differential(["bash", "-c", script], tree=tree, timeout=count + 120)
    assert f"\n{count * (count - 1) // 2}\n" in result.out


@pytest.mark.needs("npm", "node", "python3")
@size(12, 150)
def test_npm_install(count: int) -> None:
    script = (
        "set -e\nexport npm_config_cache={work}/.npm npm_config_update_notifier=false\n"
        f"npm install --offline --no-audit --no-fund --install-links > /dev/null\nnode sum.js\n{DIGEST} node_modules\n"
    )
    ignore = [".npm", ".npm/*", "node_modules/.package-lock.json"]
    tree = packages.npm_project(count)
    result = differential(["sh", "-c", script], tree=tree, ignore=ignore, timeout=count + 120)
    assert result.out.startswith(f"{count} {count * (count - 1) // 2}\n")


@pytest.mark.soak  # the small form is test_venv_and_local_wheel
@pytest.mark.timeout(3000)
@pytest.mark.needs("python3", "python3-venv")
def test_pip_install() -> None:
    tree = {f"{name}-1.0-py3-none-any.whl": packages.wheel(name, 400) for name in ("one", "two", "three")}
    # Not below {work}: scripts and their digests hold the path, which must be the same on both sides.
    place = own_place()
    script = (
        f"set -e\nmkdir {place}\ncd {place}\n"
        "cp {work}/*.whl .\npython3 -m venv venv\n"
        "venv/bin/pip install --quiet --no-index --no-compile --disable-pip-version-check ./*.whl\n"
        "for each in one two three; do venv/bin/$each; done\nvenv/bin/pip list --format=freeze\n"
        f"{DIGEST} venv __pycache__\nrm -r {place}"
    )
    result = differential(["bash", "-c", script], tree=tree, timeout=300)
    assert "three runs" in result.out
