"""Sockets: each program prints one line per call, and the lines are compared with what Linux says."""

from __future__ import annotations

import pytest

from tests.lib.harness import differential

pytestmark = pytest.mark.both_settings


@pytest.mark.parametrize("name", ["sock_stream", "sock_dgram", "sock_passing", "sock_peers", "sock_credentials"])
def test_unix_transcript(name: str) -> None:
    differential(["{guests}/" + name], case=name)


@pytest.mark.parametrize("name", ["sock_stream", "sock_dgram"])
def test_unix_transcript_in_tmp(name: str) -> None:
    script = 'd=$(mktemp -d) && cd "$d" && {guests}/' + name + '; cd / && rm -rf "$d"'
    differential(["/bin/sh", "-c", script], case=name + " in tmp")


def test_netlink_transcript() -> None:
    differential(["{guests}/sock_netlink"], case="sock_netlink")


@pytest.mark.parametrize("family", ["4", "6"])
def test_inet_transcript(family: str) -> None:
    differential(["{guests}/sock_inet", family], case="sock_inet " + family)


@pytest.mark.parametrize("family", ["4", "6"])
def test_control_transcript(family: str) -> None:
    differential(["{guests}/sock_control", family], case="sock_control " + family)


def test_ports_transcript() -> None:
    differential(["{guests}/sock_ports"], case="sock_ports")


def test_multicast_transcript() -> None:
    differential(["{guests}/sock_multicast"], case="sock_multicast")


def test_table_transcript() -> None:
    differential(["{guests}/sock_tables"], case="sock_tables")


def test_interface_transcript() -> None:
    differential(["{guests}/net_interface"], case="net_interface")
