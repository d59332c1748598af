"""Secrets stay out of images without `--include-secrets`."""

from __future__ import annotations

from pathlib import Path

import pytest

from husk.store.exclude import secret_patterns
from husk.store.ingest import Options, ingest
from husk.store.store import Store

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl\n-----END OPENSSH PRIVATE KEY-----\n"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"

SECRET = [
    ".env", "app/.env", "app/.env.production", ".ssh/config", "home/me/.ssh/known_hosts", "id_rsa", "keys/id_ed25519",
    ".aws/credentials", "me/.docker/config.json", ".netrc", ".npmrc", "x/.git-credentials", "server.p12",
    ".config/gcloud/x", "etc/shadow", "root/etc/ssh/ssh_host_rsa_key", "infra/terraform.tfvars", "a.tfstate",
]  # fmt: skip
HARMLESS = [
    ".env.example", ".environment", "docker/config.json", "id_rsa.pub", "ssh/config", ".config/other/x", "shadow",
    "etc/passwd", "env", "credentials.json.md", "etc/ssh/ssh_host_rsa_key.pub",
]  # fmt: skip


def put(tree: Path, name: str, text: str = "x") -> None:
    (tree / name).parent.mkdir(parents=True, exist_ok=True)
    (tree / name).write_text(text)


def files(store: Store, tree: Path, options: Options | None = None) -> set[str]:
    report = ingest(store, str(tree), options=options)
    return {entry.path.decode() for entry in store.open_manifest(report.manifest).walk() if entry.is_file}


def test_by_name(store: Store, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    for name in SECRET + HARMLESS:
        put(tree, name)
    assert files(store, tree) == set(HARMLESS)
    assert files(store, tree, Options(include_secrets=True)) == set(SECRET + HARMLESS)


def test_keys_by_content(store: Store, tmp_path: Path) -> None:
    tree = tmp_path / "t"
    put(tree, "ca.pem", CERTIFICATE)
    put(tree, "both.pem", CERTIFICATE * 20 + KEY)
    put(tree, "server.key", KEY.replace("OPENSSH ", ""))
    put(tree, "piano.key", "middle c")
    put(tree, "notes.txt", KEY)  # its name gives no reason to look into it
    assert files(store, tree) == {"ca.pem", "piano.key", "notes.txt"}


def test_what_was_left_out_is_said(store: Store, tmp_path: Path) -> None:
    put(tmp_path / "t", ".ssh/id_rsa")
    put(tmp_path / "t", "x.log")
    report = ingest(store, str(tmp_path / "t"), options=Options(["*.log"]))
    assert sorted(report.excluded) == [(b".ssh", True), (b"x.log", False)]


@pytest.mark.parametrize("name", [".env", "id_rsa"])
def test_a_secret_never_enters_the_store(store: Store, tmp_path: Path, name: str) -> None:
    put(tmp_path / "t", name, "the very secret\n")
    ingest(store, str(tmp_path / "t"))
    everything = b"".join(path.read_bytes() for path in Path(store.place).rglob("*") if path.is_file())
    assert b"the very secret" not in everything


def test_the_list_is_well_formed() -> None:
    assert len(secret_patterns()) > 50
