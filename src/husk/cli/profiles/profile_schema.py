"""cli: the JSON Schema of husk.toml, from the option table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from husk.cli.profiles.profile_file import FORMAT, KEYS, TABLES

if TYPE_CHECKING:
    from husk.cli.options import Option

TEXT = {"type": ["string", "number"]}


def schema() -> dict[str, Any]:
    options = {key: _kind(key, option) | {"description": option.help} for key, option in KEYS.items()}
    profile = {"type": "object", "additionalProperties": False, "properties": options}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Profiles of husk",
        "type": "object",
        "required": ["format"],
        "properties": {
            "format": {"const": FORMAT},
            "profile": {"type": "object", "additionalProperties": profile},
            "projects": {"type": "object", "description": "in your own file: what files of projects may not exceed"},
        },
        "additionalProperties": False,
    }


def _kind(key: str, option: Option) -> dict[str, Any]:
    if not option.metavar:
        return {"type": "boolean"}
    if option.choices:
        return {"enum": list(option.choices)}
    if not option.many:
        return dict(TEXT)
    several: list[dict[str, Any]] = [TEXT, {"type": "array", "items": TEXT}]
    if key in TABLES:
        several.append({"type": "object", "additionalProperties": TEXT})
    return {"anyOf": several}
