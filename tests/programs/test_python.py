"""python3 inside: processes in all forms, threads, asyncio, temporary files, a venv and a wheel."""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile

import pytest

from tests.lib.harness import differential

PYTHON = "/usr/bin/python3"

SCRIPTS = ["subprocess", "multiprocessing_fork", "multiprocessing_spawn", "threads", "asyncio", "files", "modules"]


@pytest.mark.needs("python3")
@pytest.mark.parametrize("name", SCRIPTS)
def test_script(name: str) -> None:
    result = differential(
        [PYTHON, "{guests}/py_" + name + ".py"], case=f"python {name}", ignore=["__pycache__"], timeout=90
    )
    assert result.out


def wheel() -> bytes:
    """demo 1.0: one module, one command."""
    files = {
        "demo/__init__.py": "def main():\n    print('demo speaks')\n",
        "demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        "demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "demo-1.0.dist-info/entry_points.txt": "[console_scripts]\ndemo = demo:main\n",
    }
    record = ""
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text)}\n"
    files["demo-1.0.dist-info/RECORD"] = record + "demo-1.0.dist-info/RECORD,,\n"
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return data.getvalue()


@pytest.mark.needs("python3", "python3-venv")
@pytest.mark.timeout(300)
def test_venv_and_local_wheel() -> None:
    script = """
        set -e
        /usr/bin/python3 -m venv env
        env/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix, sys.prefix)'
        env/bin/pip --version | cut -d' ' -f1-2
        env/bin/pip install --no-index --disable-pip-version-check -q ./demo-1.0-py3-none-any.whl
        env/bin/demo && env/bin/pip list --format=freeze --disable-pip-version-check | grep demo
        . env/bin/activate && demo && pip uninstall -q -y demo && ! python -c 'import demo' 2>/dev/null
        ls env/bin | sort
    """
    tree = {"demo-1.0-py3-none-any.whl": wheel()}
    differential(["sh", "-c", script], tree=tree, case="venv", ignore=["env/lib", ".cache"], timeout=240)
